"""The map's cells are those of a plain count, for any region and any size of a picture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.app.features.inspector.figures.masks import Matrix, Region, loader, matrix_of, picture
from espalier.app.figures.tensor_chunks import Stopped
from espalier.model.graph.views import View
from espalier.model.store.weights import Tensor


def matrix(rows: int, columns: int, masked: bool = True, seed: int = 0) -> Matrix:
    random = np.random.default_rng(seed)
    values = random.standard_normal((rows, columns)).astype(np.float32)
    return Matrix(values, random.random((rows, columns)) > 0.4 if masked else None, 2.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 12), st.integers(1, 12), st.data())
def test_cells_count_their_elements(rows: int, columns: int, high: int, wide: int, data: st.DataObject) -> None:
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    part = Region(top, data.draw(st.integers(top + 1, rows)), left, data.draw(st.integers(left + 1, columns)))
    held = matrix(rows, columns)
    found = picture(held, part, (high, wide))
    assert found.kept.shape == (min(high, part.high), min(wide, part.wide))
    assert held.keep is not None
    keep = held.keep[part.top : part.bottom, part.left : part.right]
    values = np.abs(held.values[part.top : part.bottom, part.left : part.right])
    downs = [part.high * i // len(found.kept) for i in range(len(found.kept) + 1)]
    across = [part.wide * j // found.kept.shape[1] for j in range(found.kept.shape[1] + 1)]
    for i, j in np.ndindex(found.kept.shape):
        cell = np.s_[downs[i] : downs[i + 1], across[j] : across[j + 1]]
        assert found.kept[i, j] == pytest.approx(keep[cell].mean())
        mean = values[cell][keep[cell]].mean() / 2 if keep[cell].any() else 0.0
        assert found.shade[i, j] == pytest.approx(min(mean, 1), rel=1e-4)
    assert np.average(found.rows, weights=np.diff(downs)) == pytest.approx(keep.mean(), rel=1e-4)
    assert np.average(found.columns, weights=np.diff(across)) == pytest.approx(keep.mean(), rel=1e-4)
    single = found.kept.shape == (part.high, part.wide)
    assert (found.values is not None) == single
    if single:
        assert np.array_equal(np.abs(found.values), values)


def test_a_convolution_lies_unfolded_with_its_mask() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    mask = np.packbits(values.reshape(-1) % 2 == 0)
    found = matrix_of(Tensor(values, "float32"), mask, View((1, 0, 2, 3), flat=True))
    assert found.shape == (3, 8) and found.keep is not None
    assert np.array_equal(found.keep, found.values % 2 == 0)


def test_values_that_are_not_finite_and_empty_ones_do_no_harm() -> None:
    values = np.array([[np.nan, np.inf, 1.0, -2.0]], np.float32)
    found = matrix_of(Tensor(values, "float32"), None, None)
    assert np.isfinite(picture(found, Region(0, 1, 0, 4), (1, 4)).shade).all()
    assert matrix_of(Tensor(np.zeros((2, 2), np.float32), "float32"), None, None).full == 1.0


def test_large_weights_stop_when_nobody_waits() -> None:
    with pytest.raises(Stopped):
        picture(matrix(64, 64, masked=False), Region(0, 64, 0, 64), (64, 64), lambda: True)


def test_a_weight_is_read_once() -> None:
    reads: list[int] = []

    def load() -> Tensor:
        reads.append(1)
        return Tensor(np.ones((2, 2), np.float32), "float32")

    read = loader(load, None, None)
    assert read() is read() and reads == [1]
