"""Conversion of text rows to arrays, for every source.

All rows are tokenised once, in the order of the files; splits, order and limits are applied afterwards, so that
training and measurement on the same file share the tokenised rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from espalier.model.data import cache
from espalier.model.data.base import DECODER, IGNORED, Array, LoadOptions, Split, TaskData
from espalier.model.data.rows import Rows, arrange, class_targets
from espalier.model.data.tokens import Encoder, open_tokenizer
from espalier.model.errors import DataError


def text_data(name: str, key: str, read: Callable[[], Mapping[str, Rows]], options: LoadOptions) -> TaskData:
    """The wanted splits of the rows of `read`, or of the cache if it has the key.

    Raises DataError without a tokenizer or with fewer than two classes.
    """
    if options.tokenizer is None:
        raise DataError(
            f"{name} holds texts, and no tokenizer is given.",
            "Name the model's folder or its Hugging Face name with --tokenizer.",
        )
    whole = cache.read(key, name)
    if whole is None:
        samples = options.form.samples
        whole = samples(read(), name, options) if samples else _tokenise(name, read(), options)
        cache.write(key, whole)
    return arranged(whole, options)


def _tokenise(name: str, splits: Mapping[str, Rows], options: LoadOptions) -> TaskData:
    assert options.tokenizer is not None
    classes, labels = (options.form.targets or class_targets)(splits, name)
    encode = open_tokenizer(options.tokenizer)
    texts = {split: tuple(str(text) for text in rows.samples) for split, rows in splits.items()}
    made = {
        split: replace(encoded(encode, texts[split], labels[split], options.max_length), task=options.task)
        for split in splits
    }
    notes = tuple(dict.fromkeys(note for rows in splits.values() for note in rows.notes))
    return TaskData(name, "text", classes, made, texts, notes=notes, task=options.task)


def encoded(encode: Encoder, texts: tuple[str, ...], labels: Array, max_length: int) -> Split:
    """Tokenised texts with their classes."""
    inputs, lengths = encode(texts, max_length)
    return Split(inputs, labels, lengths)


def arranged(data: TaskData, options: LoadOptions) -> TaskData:
    """The wanted splits, shuffled, truncated to the limit and padded to their longest texts."""
    counts = {name: split.samples for name, split in data.splits.items()}
    chosen = arrange(counts, options, data.name)
    rows = {name: (of, data.splits[of].of_samples(samples)) for name, (of, samples) in chosen.items()}
    splits = {name: trimmed(data.splits[of].rows(which)) for name, (of, which) in rows.items()}
    texts = {name: tuple(data.texts[of][row] for row in which.tolist()) for name, (of, which) in rows.items()}
    return replace(data, splits=splits, texts=texts)


def trimmed(split: Split) -> Split:
    """Remove the positions that are padding in every text."""
    split, mask = _trimmed_targets(split), split.inputs["attention_mask"]
    used = mask.any(axis=0)
    if bool(used.all()):
        return split
    own = {name: array for name, array in split.inputs.items() if not name.startswith(DECODER)}
    inputs = {**split.inputs, **{name: np.ascontiguousarray(array[:, used]) for name, array in own.items()}}
    of_positions = len(own) == len(split.inputs) and split.labels.shape == mask.shape and split.labels.dtype.kind == "i"
    return replace(split, inputs=inputs, labels=split.labels[:, used] if of_positions else split.labels)


def _trimmed_targets(split: Split) -> Split:
    """Remove the positions of a decoder where no target has a label."""
    decoder = {name: array for name, array in split.inputs.items() if name.startswith(DECODER)}
    if not decoder or any(array.shape != split.labels.shape for array in decoder.values()):
        return split
    width = max(int((split.labels != IGNORED).any(axis=0).sum()), 1)
    inputs = {name: np.ascontiguousarray(array[:, :width]) for name, array in decoder.items()}
    return replace(split, inputs={**split.inputs, **inputs}, labels=np.ascontiguousarray(split.labels[:, :width]))
