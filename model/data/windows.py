"""Windows of a continuous text for language models: the labels of a window are the next token of each position.

The texts of a table are joined by empty lines, as perplexity of WikiText is commonly measured
(https://huggingface.co/docs/transformers/perplexity). Windows do not overlap: each token is predicted once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from espalier.model.data import cache
from espalier.model.data.base import (
    ALL,
    CLASSES,
    CLASSIFICATION,
    NEXT_TOKEN,
    Array,
    LabelForm,
    LoadOptions,
    Split,
    TaskData,
    sound,
    source_of,
)
from espalier.model.data.local import documents, find
from espalier.model.data.memory import PREFIX
from espalier.model.data.rows import SHARES
from espalier.model.data.tokens import open_stream
from espalier.model.errors import DataError

STORIES = "demo:stories"  # windows already
JOINT = "\n\n"
LEAST = 3  # tokens of a text
FEWEST = 10  # windows of a text that is divided into splits
Texts = Mapping[str, tuple[str, ...]]
Cut = Callable[[str, Mapping[str, str], LoadOptions], TaskData]


def load_windows(spec: str, options: LoadOptions, cut: Cut | None = None) -> TaskData:
    """The texts of `spec` in windows of `max_length` tokens; a text without splits is divided in its order.

    `cut`: (name, text by split, options) → the windows, by default of the next token. Raises DataError without a
    tokenizer, for data without texts and for a text that is too short.
    """
    source, name = source_of(spec)
    if source is None:
        path = Path(spec).expanduser()
        found = find(path)
        groups = [(split, group) for split, files in found.files.items() for _, group in files]
        key = cache.key_of(found.paths(), groups, options)
        return windows_of(path.name, key, lambda: documents(found, options), options, cut)
    if source.texts is not None:
        texts = source.texts(name, options)
        return windows_of(spec, "", lambda: texts, options, cut)
    if spec == STORIES and cut is None:
        return source.load(name, options)
    own = spec.startswith("demo:")  # a demo's texts are read with the demo's tokenizer
    tokenizer = None if own else options.tokenizer
    plain = replace(options, task=CLASSIFICATION, form=CLASSES, limit=None, tokenizer=tokenizer)
    data = sound(spec.partition(":")[0], source.load(name, plain))
    arrays = spec.startswith(PREFIX) and not data.texts  # tokens of a program, which may have no labels
    return data if data.task == NEXT_TOKEN or arrays else windows_of(spec, "", lambda: data.texts, options, cut)


def windows_of(
    name: str, key: str, read: Callable[[], Texts], options: LoadOptions, cut: Cut | None = None
) -> TaskData:
    """The wanted splits of the texts of `read` in windows, or of the cache if it has the key.

    Raises DataError without a tokenizer and for texts that are too short.
    """
    if options.tokenizer is None:
        raise DataError(
            f"{name} is a text, and no tokenizer is given.",
            "Name the model's folder or its Hugging Face name with --tokenizer.",
        )
    whole = cache.read(key, name) if key else None
    if whole is None:
        texts = {split: JOINT.join(parts) for split, parts in read().items() if any(map(str.strip, parts))}
        if not texts:
            raise DataError(f"{name} holds no texts.", "Give a text file, or a table with a column of texts.")
        whole = (cut or _cut)(name, texts, options)
        if key:
            cache.write(key, whole)
    return _arranged(whole, options)


def _cut(name: str, texts: Mapping[str, str], options: LoadOptions) -> TaskData:
    assert options.tokenizer is not None
    encode, width = open_stream(options.tokenizer), options.max_length
    return cut_texts(name, texts, encode, lambda ids, ends, text: windows(ids, ends, text, width), NEXT_TOKEN)


def cut_texts(
    name: str, texts: Mapping[str, str], encode: Callable[[str], tuple[Array, Array]],
    make: Callable[[Array, Array, str], tuple[Split, tuple[str, ...]]], task: str,
) -> TaskData:  # fmt: skip
    """The windows that `make` cuts each text into; raises DataError if all texts are too short."""
    splits: dict[str, Split] = {}
    pieces: dict[str, tuple[str, ...]] = {}
    short: list[str] = []
    for split, text in texts.items():
        ids, ends = encode(text)
        if len(ids) < LEAST:
            short.append(f"The text of {split} has fewer than {LEAST} tokens, too few to predict any.")
            continue
        splits[split], pieces[split] = make(ids, ends, text)
    if not splits:
        raise DataError(short[0], "Give a longer text.")
    return TaskData(name, "text", (), splits, pieces, notes=tuple(short), task=task)


def windows(ids: Array, ends: Array, text: str, width: int) -> tuple[Split, tuple[str, ...]]:
    """Windows of `width` tokens and the text that their labels are tokens of; a shorter text is one window.

    ids, ends: int64 [tokens], as of `open_stream`. The tokens after the last whole window are left out.
    """
    width = min(width, len(ids) - 1)
    count = (len(ids) - 1) // width
    inputs = ids[: count * width].reshape(count, width)
    labels = ids[1 : count * width + 1].reshape(count, width)
    borders = [int(ends[at]) for at in range(0, count * width + 1, width)]
    pieces = tuple(text[a:b] for a, b in itertools.pairwise(borders))
    sizes = np.array([len(piece.encode()) for piece in pieces], dtype=np.int64)
    return Split({"input_ids": inputs, "attention_mask": np.ones_like(inputs)}, labels, text_bytes=sizes), pieces


def _arranged(data: TaskData, options: LoadOptions) -> TaskData:
    """The wanted splits with at most `limit` windows, drawn by seed; a text without splits is divided in its order."""
    rows = {name: (name, np.arange(len(split))) for name, split in data.splits.items()}
    if ALL in rows and not options.whole:
        rows = {name: (ALL, part) for name, part in _divided(len(data.splits[ALL]), data.name).items()}
    names = sorted(rows, key=[*SHARES, ALL].index)
    wanted = {name: rows[name] for name in names if options.splits is None or name in options.splits}
    rng = np.random.default_rng(options.seed)
    chosen = {name: (of, _drawn(part, options.limit, rng)) for name, (of, part) in wanted.items()}
    splits = {name: data.splits[of].rows(part) for name, (of, part) in chosen.items()}
    texts = {name: tuple(data.texts[of][row] for row in part.tolist()) for name, (of, part) in chosen.items()}
    return replace(data, splits=splits, texts=texts)


def _divided(count: int, name: str) -> dict[str, Array]:
    """The first 80 % of the windows to train on, then 10 % each: neighbours share their subject."""
    if count < FEWEST:
        raise DataError(
            f"{name} has {count} windows, too few to split into train, validation and test.",
            "Give a longer text, a smaller max_length, or a folder with train.* and test.* files.",
        )
    tenth = count // 10
    return dict(zip(SHARES, np.split(np.arange(count), [count - 2 * tenth, count - tenth]), strict=True))


def _drawn(rows: Array, limit: int | None, rng: np.random.Generator) -> Array:
    return rows if limit is None else np.sort(rng.permutation(rows)[:limit])


WINDOWS = LabelForm(load=load_windows)
