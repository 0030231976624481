"""The data of `demo:digits`: scikit-learn's 1 797 real handwritten digits, small enough to train in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from model.data.base import Array, Split

CLASSES = tuple("0123456789")
SIZES = {"train": 1257, "validation": 270, "test": 270}
SEED = 17


def load_digits(seed: int = SEED) -> dict[str, Split]:
    """Stratified splits of `x` float32 [n, 1, 8, 8] in 0…1, shuffled by seed."""
    from sklearn import datasets

    raw: Any = datasets.load_digits()
    images = (raw.images[:, None] / 16).astype(np.float32)
    labels = raw.target.astype(np.int64)
    rows = _stratified(labels, seed)
    return {name: Split({"x": images[at]}, labels[at]) for name, at in rows.items()}


def _stratified(labels: Array, seed: int) -> dict[str, Array]:
    from sklearn.model_selection import train_test_split

    train, rest = _cut(train_test_split, np.arange(len(labels)), labels, SIZES["train"], seed)
    validation, test = _cut(train_test_split, rest, labels[rest], SIZES["validation"], seed)
    return {"train": train, "validation": validation, "test": test}


def _cut(split: Any, rows: Array, labels: Array, size: int, seed: int) -> tuple[Array, Array]:
    first, second = split(rows, train_size=size, stratify=labels, random_state=seed)
    return first, second
