"""Sources with targets, such as texts with summaries or sentences with translations, for encoder–decoder models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.data.base import DECODER, IGNORED, Array, Inputs, LoadOptions, Split, TaskData
from espalier.model.data.columns import choose_columns
from espalier.model.data.rows import Rows
from espalier.model.data.tables import is_list, labelled_texts
from espalier.model.data.tokens import open_text_pairs
from espalier.model.errors import DataError

SEQ2SEQ = "seq2seq"
SOURCES = ("source", "src", "input", "inputs", "document", "article", "dialogue", "question", "text")
TARGETS = ("target", "tgt", "output", "outputs", "summary", "highlights", "answer", "translation", "targets")
PLAIN = ("source", "target")  # columns that need no note
LAST = -1


def pair_rows(table: Any, source: str, options: LoadOptions) -> Rows:
    """Texts with target texts; a note names the columns that were chosen. Raises DataError."""
    names, form = [str(c) for c in table.columns], options.form
    chosen = choose_columns(names, options.text, options.label, source, form.texts, form.labels)
    texts, cells, label = labelled_texts(table, source, options)
    wrong = next((at for at, cell in enumerate(cells) if is_list(cell) or isinstance(cell, Mapping)), None)
    if wrong is not None:
        text = f"Column {label!r} of {source} holds {str(cells[wrong])[:40]!r} in row {wrong + 1}, not a text."
        raise DataError(text, "Name the column of the targets with --label.")
    given = (options.text, options.label) == chosen or tuple(name.strip().lower() for name in chosen) == PLAIN
    note = f"Sources are the column {chosen[0]!r} of {source}, targets {chosen[1]!r}; --text and --label name others."
    return Rows(texts, tuple(map(str, cells)), () if given else (note,))


def pair_data(splits: Mapping[str, Rows], name: str, options: LoadOptions) -> TaskData:
    """Tokenised sources, with the tokens of targets as labels and shifted right as the decoder's inputs.

    inputs: `input_ids`, `attention_mask`, int64 [n, seq]; `decoder_input_ids`, `decoder_attention_mask`, int64
    [n, target]; labels int64 [n, target], IGNORED after a target's end. lengths: of the sources. Raises DataError.
    """
    assert options.tokenizer is not None
    encode = open_text_pairs(options.tokenizer)
    made: dict[str, Split] = {}
    cut = count = 0
    for split, rows in splits.items():
        inputs, lengths = encode(rows.samples, options.max_length, False)
        targets, sizes = encode(rows.labels, options.max_length, True)
        labels = np.where(targets["attention_mask"] != 0, targets["input_ids"], IGNORED)
        pad = padding_of(targets)
        made[split] = Split({**inputs, **decoder_inputs(labels, options.start, pad)}, labels, lengths, task=SEQ2SEQ)
        cut, count = cut + int((sizes > options.max_length).sum()), count + len(sizes)
    notes = tuple(dict.fromkeys(note for rows in splits.values() for note in rows.notes))
    notes += (f"{cut} of {count} targets are truncated to {options.max_length} tokens.",) if cut else ()
    texts = {split: _shown(rows.samples, rows.labels) for split, rows in splits.items()}
    return TaskData(name, "text", (), made, texts, notes=notes, task=SEQ2SEQ)


def _shown(sources: Sequence[str], targets: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{a}\n→ {b}" for a, b in zip(sources, targets, strict=True))


def decoder_start(tokenizer: str) -> int:
    """The token before the first of a target for LAST: that with which the tokenizer ends targets.

    Raises DataError if it ends them with none of its own.
    """
    inputs, _ = open_text_pairs(tokenizer)([""], 1 << 10, True)
    if not inputs["input_ids"].size:
        raise DataError(f"The decoder starts with the token that ends targets; the tokenizer {Path(tokenizer).name} "
                        "ends them with none.",
                        "Set decoder_start_token_id in the model's configuration.")  # fmt: skip
    return int(inputs["input_ids"][0, -1])


def padding_of(inputs: Inputs) -> int:
    """The token at masked positions; 0 if there are none."""
    hidden = inputs["input_ids"][inputs["attention_mask"] == 0]
    return int(hidden[0]) if hidden.size else 0


def decoder_inputs(labels: Array, start: int | None, pad: int) -> Inputs:
    """The labels shifted right behind the token `start` (LAST: each target's own last token), and their mask.

    As transformers' `shift_tokens_right`; raises DataError without a start. Labels must not begin with IGNORED.
    """
    if start is None:
        raise DataError("It is unknown with which token the model's decoder starts.",
                        "Use an encoder–decoder model of transformers, with decoder_start_token_id in its "
                        "configuration, or give decoder_input_ids.")  # fmt: skip
    seen = labels != IGNORED
    shifted = np.full(labels.shape, pad, np.int64)
    shifted[:, 1:] = np.where(seen[:, :-1], labels[:, :-1], pad)
    last = np.maximum(seen.sum(1) - 1, 0)
    shifted[:, 0] = labels[np.arange(len(labels)), last] if start == LAST else start
    return {f"{DECODER}input_ids": shifted, f"{DECODER}attention_mask": seen.astype(np.int64)}
