"""Arrays of `.npz` files: numbers that are none, classes without end and samples that take no bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import espalier as es
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


def test_bytes_of_images_become_0_to_1_and_a_note_says_so(tmp_path: Path) -> None:
    """Those of a file and of a program alike; rows of bytes stay as they are."""
    x = np.arange(0, 256, 4, dtype=np.uint8).reshape(4, 1, 4, 4)
    y = np.arange(4) % 2
    np.savez(tmp_path / "bytes.npz", x=x, y=y)
    np.savez(tmp_path / "rows.npz", x=x.reshape(4, 16), y=y)
    data = load_local(tmp_path / "bytes.npz", LoadOptions(whole=True))
    assert data.notes == ("Images of bytes.npz are bytes (uint8): 0 to 255 becomes 0 to 1.",)
    values = np.sort(data.splits["all"].inputs["x"], axis=None)
    np.testing.assert_array_equal(values, x.reshape(-1).astype(np.float32) / np.float32(255))
    rows = load_local(tmp_path / "rows.npz", LoadOptions(whole=True))
    assert not rows.notes and rows.splits["all"].inputs["x"].max() == 252

    m = es.trace(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval(), torch.zeros(2, 1, 4, 4))
    scores = [m.score(of).summary["loss"] for of in (str(tmp_path / "bytes.npz"), (x, y), (x / np.float32(255), y))]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6) == pytest.approx(scores[2], rel=1e-6)


def test_numbers_that_are_not_finite_are_said(tmp_path: Path) -> None:
    x = np.zeros((6, 4), np.float32)
    x[2, 1], x[5] = np.nan, np.inf
    np.savez(tmp_path / "gaps.npz", x=x, y=np.arange(6) % 2)
    m = es.trace(nn.Linear(4, 2).eval(), torch.zeros(2, 4))
    with pytest.warns(UserWarning, match=r"in 2 of 6 samples of gaps\.npz"):
        warning = m.evaluate(str(tmp_path / "gaps.npz")).summary["warning"]
    assert "in 2 of 6 samples of gaps.npz" in warning and "for 2 of 6 samples: scores that are NaN" in warning
    with torch.no_grad():
        broken = nn.Linear(4, 2)
        broken.weight[0, 0] = float("nan")
    np.savez(tmp_path / "whole.npz", x=np.ones((6, 4), np.float32), y=np.arange(6) % 2)
    with pytest.warns(UserWarning, match="weight"):
        m = es.trace(broken.eval(), torch.zeros(2, 4))
    with pytest.warns(UserWarning, match="for 6 of 6 samples"):
        warning = m.evaluate(str(tmp_path / "whole.npz")).summary["warning"]
    assert "for 6 of 6 samples" in warning and "whole.npz" not in warning


def test_data_without_samples_are_not_measured(tmp_path: Path) -> None:
    np.savez(tmp_path / "empty.npz", x=np.zeros((0, 4), np.float32), y=np.zeros(0, int))
    m = es.trace(nn.Linear(4, 2).eval(), torch.zeros(2, 4))
    for measure in (m.evaluate, m.score):
        with pytest.raises(DataError, match=r"no samples in empty\.npz"):
            measure(str(tmp_path / "empty.npz"))
    np.savez(tmp_path / "part.npz", x_train=np.zeros((3, 4), np.float32), y_train=np.arange(3) % 2,
             x_test=np.zeros((0, 4), np.float32), y_test=np.zeros(0, int))  # fmt: skip
    with pytest.raises(DataError, match=r"no samples in the split test of part\.npz") as error:
        m.evaluate(str(tmp_path / "part.npz"))
    assert "train" in error.value.hint
