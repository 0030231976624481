"""Arrays of `.npz` files: numbers that are none, classes without end and samples that take no bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.model.data.base import LoadOptions
from espalier.model.data.local import load_local
from espalier.model.errors import DataError

X, Y = np.zeros((4, 100), np.float32), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"x": X, "y": Y, "rate": np.nan}, "no number of samples a second"),
        ({"x": X, "y": Y, "rate": np.inf}, "no number of samples a second"),
        ({"x": X, "y": np.array([0, np.inf, 0, 1])}, "holds fractions"),
        ({"x": X, "y": np.array([0, 20_000_000, 0, 1])}, r"holds 20,000,000, which is no class number"),
        ({"x": np.zeros((4, 0)), "y": Y}, "the samples of x are empty"),
        ({"x": np.zeros((1 << 40, 0)), "y": np.zeros((1 << 40, 0))}, "the samples of x are empty"),
        ({"x": X.astype(np.int64), "y": Y, "rate": 16_000}, r"row \d .*int64, of an unknown range"),
    ],
    ids=["nan", "inf", "label", "classes", "none", "bomb", "int64"],
)
def test_bad_numbers_are_one_error(tmp_path: Path, arrays: dict[str, Any], told: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=told):
        load_local(tmp_path / "a.npz", LoadOptions(whole=True))


def test_no_samples_are_an_empty_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=X, y_train=Y, x_test=X[:0], y_test=Y[:0])
    found = load_local(tmp_path / "a.npz", LoadOptions(whole=True))
    assert [len(split) for split in found.splits.values()] == [4, 0]
