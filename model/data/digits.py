"""Data of `demo:digits`: scikit-learn's 1 797 handwritten digits, small enough to train in seconds.

The file is read and split without importing scikit-learn, which takes longer than the rest of opening the demo.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from espalier.model.data.base import Array, Split
from espalier.model.errors import DataError

CLASSES = tuple("0123456789")
SIZES = {"train": 1257, "validation": 270, "test": 270}
SEED = 17
FILE = "datasets/data/digits.csv.gz"  # within scikit-learn


def load_digits(seed: int = SEED) -> dict[str, Split]:
    """Stratified splits of `x` float32 [n, 1, 8, 8] in 0…1, shuffled by seed."""
    raw = _rows()
    images = (raw[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    labels = raw[:, -1].copy()
    rows = _stratified(labels, seed)
    return {name: Split({"x": images[at]}, labels[at]) for name, at in rows.items()}


def _rows() -> Array:
    """[n, 65]: the pixels, 0…16, and the digit; read by scikit-learn if its file is not at FILE."""
    found = find_spec("sklearn")  # imports nothing
    if found is None or found.origin is None:
        raise DataError(
            "The digits need scikit-learn, which is not installed.", "Install it: pip install scikit-learn."
        )
    file = Path(found.origin).parent / FILE
    if file.is_file():
        return np.loadtxt(file, delimiter=",", dtype=np.int64)
    try:
        from sklearn import datasets

        pixels, digits = datasets.load_digits(return_X_y=True)
    except (ImportError, OSError) as error:
        raise DataError(f"scikit-learn cannot read its digits ({error}).", "Install scikit-learn again.") from error
    return np.column_stack([pixels, digits]).astype(np.int64)


def _stratified(labels: Array, seed: int) -> dict[str, Array]:
    train, rest = _cut(np.arange(len(labels)), labels, SIZES["train"], seed)
    validation, test = _cut(rest, labels[rest], SIZES["validation"], seed)
    return {"train": train, "validation": validation, "test": test}


def _cut(rows: Array, labels: Array, size: int, seed: int) -> tuple[Array, Array]:
    """(`size` rows, the others), stratified and identical to scikit-learn's train_test_split(stratify=…)."""
    random = np.random.RandomState(seed)
    counts = np.bincount(labels, minlength=len(CLASSES))
    taken = _shares(counts, size, random)
    _shares(counts - taken, len(rows) - size, random)  # only to advance the random state as scikit-learn does
    order = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    first: list[int] = []
    second: list[int] = []
    for members, many in zip(order, taken, strict=True):
        mixed = members[random.permutation(len(members))]
        first.extend(mixed[:many])
        second.extend(mixed[many:])
    return rows[random.permutation(first)], rows[random.permutation(second)]


def _shares(counts: Array, size: int, random: np.random.RandomState) -> Array:
    """Samples of each class that sum to `size`, by largest remainders; ties are drawn at random."""
    exact = counts / counts.sum() * size
    whole = np.floor(exact)
    missing, lost = int(size - whole.sum()), exact - whole
    for value in np.sort(np.unique(lost))[::-1]:
        if missing <= 0:
            break
        (equal,) = np.nonzero(lost == value)
        more = random.choice(equal, size=min(len(equal), missing), replace=False)
        whole[more] += 1
        missing -= len(more)
    return whole.astype(np.int64)
