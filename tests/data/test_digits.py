"""The digits: real, scaled to 0…1, stratified, and split the same way for a seed."""

from __future__ import annotations

import numpy as np

from model.data.base import load_data
from model.data.digits import SIZES, load_digits


def test_shapes_and_scale() -> None:
    data = load_data("demo:digits")
    assert data.kind == "image" and len(data.classes) == 10 and data.texts == {}
    assert {name: len(split) for name, split in data.splits.items()} == SIZES
    x = data.split("train").inputs["x"]
    assert x.shape == (1257, 1, 8, 8) and x.dtype == np.float32 and x.min() == 0 and x.max() == 1


def test_stratified() -> None:
    for split in load_digits().values():
        share = np.bincount(split.labels, minlength=10) / len(split)
        assert np.abs(share - 0.1).max() < 0.012


def test_the_seed_decides_and_no_row_is_lost() -> None:
    one, same, other = load_digits(1), load_digits(1), load_digits(2)
    assert all(np.array_equal(one[name].inputs["x"], same[name].inputs["x"]) for name in one)
    assert not np.array_equal(one["test"].inputs["x"], other["test"].inputs["x"])
    assert sum(len(split) for split in one.values()) == 1797
