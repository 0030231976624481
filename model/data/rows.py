"""Raw rows before conversion to arrays: texts and label names by split; checks, order and division into splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from espalier.model.data.base import ALL, Array, LoadOptions
from espalier.model.errors import DataError

SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}  # of a file without splits
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
_INTEGER = re.compile(r"(-?\d+)(\.0+)?")


@dataclass(frozen=True, slots=True)
class Rows:
    """Samples (texts, or paths of images) and their labels: class names, or as the task reads them.

    notes: on how they were read, a sentence each.
    """

    samples: tuple[Any, ...]
    labels: tuple[Any, ...]
    notes: tuple[str, ...] = ()

    def at(self, order: Iterable[int]) -> Rows:
        """The rows at these indices, in this order."""
        order = tuple(order)
        return Rows(tuple(self.samples[i] for i in order), tuple(self.labels[i] for i in order), self.notes)


def label_name(value: object) -> str:
    """A label as text: `1`, `1.0` and `"1"` are one class."""
    text = str(value).strip()
    whole = _INTEGER.fullmatch(text)
    return str(int(whole[1])) if whole else text


def find_classes(splits: Mapping[str, Rows], source: str) -> tuple[str, ...]:
    """The classes of all splits, numbers in numeric order, otherwise sorted; raises DataError for fewer than two."""
    names = {label for rows in splits.values() for label in rows.labels}
    count = sum(len(rows.labels) for rows in splits.values())
    if len(names) < 2:
        raise DataError(
            f"All {count} rows of {source} have the label {next(iter(names), '')!r}; classes need two.",
            "Name the column of the classes with --label.",
        )
    if count >= 20 and len(names) > count / 2:
        raise DataError(
            f"The labels of {source} are {len(names)} different values in {count} rows, too many for classes.",
            "Name the column of the classes with --label; for numbers choose the task regression.",
        )
    return sorted_names(names)


def _by_number(name: str) -> int:
    return int(name)


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Class names in order: numbers by value, otherwise sorted."""
    names = tuple(names)
    return tuple(sorted(names, key=_by_number if all(map(_INTEGER.fullmatch, names)) else str))


def class_targets(splits: Mapping[str, Rows], source: str) -> tuple[tuple[str, ...], dict[str, Array]]:
    """The classes, and int64 [n] of each split: the index of each row's class; raises DataError."""
    classes = find_classes(splits, source)
    return classes, {split: class_indices(rows, classes) for split, rows in splits.items()}


def class_indices(rows: Rows, classes: Sequence[str]) -> Array:
    """int64 [n]: the index of each row's label in `classes`."""
    index_of = {name: index for index, name in enumerate(classes)}
    return np.array([index_of[label] for label in rows.labels], dtype=np.int64)


Arrangement = dict[str, tuple[str, Array]]  # split → (split as read, its row indices in order)


def arrange(counts: Mapping[str, int], options: LoadOptions, source: str) -> Arrangement:
    """The wanted splits, each shuffled by seed (files are often sorted by class) and truncated to the limit.

    counts: rows of each split as read; rows outside splits (`all`) are divided unless `options.whole`.
    """
    rows: Arrangement = {name: (name, np.arange(count)) for name, count in counts.items()}
    if ALL in counts and not options.whole:
        rows = {name: (ALL, part) for name, part in divide(counts[ALL], options.seed, source).items()}
    names = sorted(rows, key=[*SHARES, ALL].index)
    rng = np.random.default_rng(options.seed)
    return {
        name: (rows[name][0], rows[name][1][rng.permutation(len(rows[name][1]))[: options.limit]])
        for name in names
        if options.splits is None or name in options.splits
    }


def divide(count: int, seed: int, source: str) -> dict[str, Array]:
    """Row indices of each split, 80/10/10 by seed; raises DataError for fewer than 10 rows."""
    if count < 10:
        raise DataError(
            f"{source} has {count} rows, too few to split into train, validation and test.",
            "Give at least 10 rows, or a folder with train.* and test.* files.",
        )
    order = np.random.default_rng(seed).permutation(count)
    first, second = count - 2 * (count // 10), count - count // 10
    return dict(zip(SHARES, np.split(order, [first, second]), strict=True))
