"""Readers of labels that are not one class a sample: sets of classes, numbers, and a tag of each word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from espalier.model.borders import tried
from espalier.model.data.base import Array, LoadOptions, OtherLabelsError
from espalier.model.data.columns import choose_columns
from espalier.model.data.rows import Rows, label_name, sorted_names
from espalier.model.data.tables import is_list, labelled_texts
from espalier.model.errors import DataError

_SEPARATORS = re.compile(r"\s*[|;,]\s*")
WORDS = ("tokens", "words", "text", "sentence")
TAGS = ("ner_tags", "tags", "labels", "label", "pos_tags", "chunk_tags", "upos", "ner")


def set_rows(table: Any, source: str, options: LoadOptions) -> Rows:
    """Texts with sets of class names: lists, texts such as `a|b`, or rows of zeros and ones; raises DataError."""
    if any(is_list(cell) for cell in _column(table, options.text, "text", options, source)):
        raise _tags_error(source)
    texts, cells, _ = labelled_texts(table, source, options)
    return Rows(texts, sets_of(cells))


def sets_of(cells: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    """The class names of each cell: of lists, texts such as `a|b`, or rows of zeros and ones."""
    values = [_cells(cell) for cell in cells]
    if _are_indicators(values):
        return tuple(tuple(str(at) for at, on in enumerate(row) if float(on)) for row in values)
    return tuple(tuple(dict.fromkeys(map(label_name, row))) for row in values)


def _column(table: Any, name: str | None, kind: str, options: LoadOptions, source: str) -> list[Any]:
    names, form = [str(c) for c in table.columns], options.form
    text, _ = choose_columns(names, options.text, options.label, source, form.texts, form.labels)
    return table[text].tolist()


def _cells(cell: Any) -> list[Any]:
    """The entries of a cell: a list, JSON of one, or a text with separators."""
    if is_list(cell):
        return cell.tolist() if hasattr(cell, "tolist") else list(cell)
    text = str(cell).strip()
    parsed = tried(lambda: json.loads(text), None) if text.startswith("[") else None
    if isinstance(parsed, list):
        return parsed
    return [part for part in _SEPARATORS.split(text) if part]


def _are_indicators(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether rows of equal length hold zeros and ones, one of them repeated: a list of classes repeats none."""
    if len({len(row) for row in rows}) != 1 or not rows or len(rows[0]) < 2:
        return False
    names = [[label_name(value) for value in row] for row in rows]
    return all(set(row) <= {"0", "1"} for row in names) and any(len(set(row)) < len(row) for row in names)


def set_targets(splits: Mapping[str, Rows], source: str) -> tuple[tuple[str, ...], dict[str, Array]]:
    """The classes, and float32 [n, classes] of each split, 1 for each class of a row; raises DataError.

    Numbers are class numbers: a class that no row has keeps its place.
    """
    classes = sorted_names(dict.fromkeys(name for rows in splits.values() for row in rows.labels for name in row))
    if classes and all(name.isdigit() for name in classes):
        classes = tuple(map(str, range(int(classes[-1]) + 1)))
    if len(classes) < 2:
        raise DataError(
            f"The labels of {source} are {len(classes)} different classes; sets of classes need two.",
            "Name the column of the labels with --label.",
        )
    index_of = {name: at for at, name in enumerate(classes)}
    arrays: dict[str, Array] = {}
    for split, rows in splits.items():
        arrays[split] = array = np.zeros((len(rows.labels), len(classes)), np.float32)
        for at, row in enumerate(rows.labels):
            array[at, [index_of[name] for name in row]] = 1
    return classes, arrays


def number_rows(table: Any, source: str, options: LoadOptions) -> Rows:
    """Texts with numbers; raises DataError for a label that is none."""
    texts, cells, label = labelled_texts(table, source, options)
    numbers = tuple(tried(lambda cell=cell: float(str(cell)), np.nan) for cell in cells)
    wrong = next((at for at, value in enumerate(numbers) if not np.isfinite(value)), None)
    if wrong is not None:
        raise DataError(
            f"Column {label!r} of {source} holds {str(cells[wrong])[:40]!r} in row {wrong + 1}, which is no number.",
            "Name the column of the numbers with --label, or choose the task classification.",
        )
    return Rows(texts, numbers)


def number_targets(splits: Mapping[str, Rows], source: str) -> tuple[tuple[str, ...], dict[str, Array]]:
    """No classes, and float32 [n] of each split."""
    return (), {split: np.array([float(label) for label in rows.labels], np.float32) for split, rows in splits.items()}


def tag_rows(table: Any, source: str, options: LoadOptions) -> Rows:
    """Lists of words with lists of tags; raises DataError for rows whose lists differ in length."""
    names, form = [str(c) for c in table.columns], options.form
    text, label = choose_columns(names, options.text, options.label, source, form.texts, form.labels)
    words = [_listed(cell, text, source) for cell in table[text].tolist()]
    tags = [_listed(cell, label, source) for cell in table[label].tolist()]
    for at, (some, own) in enumerate(zip(words, tags, strict=True)):
        if len(some) != len(own) or not some:
            raise DataError(
                f"Row {at + 1} of {source} has {len(some)} words and {len(own)} tags.", "Give each word one tag."
            )
    return Rows(
        tuple(tuple(map(str, row)) for row in words), tuple(tuple(label_name(tag) for tag in row) for row in tags)
    )


def _listed(cell: Any, column: str, source: str) -> list[Any]:
    if not is_list(cell):
        raise DataError(
            f"Column {column!r} of {source} holds {str(cell)[:40]!r}, not a list with an entry for each word.",
            "Name the columns of words and tags with --text and --label; JSON and Parquet hold lists.",
        )
    return cell.tolist() if hasattr(cell, "tolist") else list(cell)


def _tags_error(source: str) -> OtherLabelsError:
    text = f"The texts of {source} are lists of words, and their labels are tags."
    return OtherLabelsError(text, "Choose the task token-classification.", "tags")
