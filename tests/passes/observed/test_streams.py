"""Streamed statistics against numpy on all values at once, however the stream is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.passes.observed.histogram import BINS, Histogram
from espalier.passes.observed.moments import Moments
from espalier.passes.observed.sample import ELEMENTS, RowSample

LISTS = st.lists(st.lists(st.floats(-1e6, 1e6, width=32), max_size=20), min_size=1, max_size=6)


@given(LISTS)
def test_moments_are_those_of_all_values(parts: list[list[float]]) -> None:
    found = Moments()
    for part in parts:
        found.add(np.array(part, np.float32))
    x = np.concatenate([np.array(p, np.float64) for p in parts])
    assert found.count == x.size and found.zeros == np.count_nonzero(x == 0)
    if x.size:
        near = {"rel": 1e-9, "abs": 1e-9 * float(np.abs(x).max()) ** 2}
        assert (found.low, found.high) == (x.min(), x.max())
        assert found.mean == pytest.approx(x.mean(), **near) and found.variance == pytest.approx(x.var(), **near)
        assert found.abs_mean == pytest.approx(np.abs(x).mean(), **near)


def test_small_variance_on_a_large_mean_is_not_lost() -> None:
    x = 1e4 + np.random.default_rng(0).standard_normal((50, 1000)) * 1e-3
    found = Moments()
    for part in x:
        found.add(part)
    assert found.variance == pytest.approx(x.var(), rel=1e-6)


def test_what_is_no_number_is_counted_apart() -> None:
    found, counts = Moments(), Histogram()
    x = np.array([[np.nan, np.inf, -np.inf, -3.4e38], [1, 2, 3, 0]], np.float32)
    found.add(x)
    counts.add(x)
    assert (found.count, found.not_finite, found.low, found.high, found.zeros) == (4, 4, 0, 3, 1)
    assert counts.counts.sum() == 4 and (counts.low, counts.high) == (0, 3)


@given(LISTS)
def test_a_histogram_counts_each_value_in_its_bin(parts: list[list[float]]) -> None:
    """Joining bins as the range grows gives what the last width would have given from the start."""
    found = Histogram()
    for part in parts:
        found.add(np.array(part, np.float32))
    x = np.concatenate([np.array(p, np.float64) for p in parts])
    assert found.counts.sum() == x.size and len(found.counts) <= BINS
    if x.size:
        places, counts = np.unique(np.floor(x / found.width).astype(int), return_counts=True)
        assert [found.counts[p - found.first] for p in places] == list(counts)
        assert found.magnitudes().sum() == x.size


def test_from_zeros_to_a_wide_range() -> None:
    found = Histogram()
    for x in (np.zeros(10), np.full(10, 1e-12), np.full(10, -7.5), np.linspace(-1e5, 1e5, 1000)):
        found.add(x)
    assert found.counts.sum() == 1030 and len(found.counts) <= BINS and found.width == 2.0**6


def test_quantiles_lie_within_a_bin_of_the_truth() -> None:
    x = np.random.default_rng(0).standard_t(4, 100_000)
    found = Histogram()
    for part in np.split(x, 10):
        found.add(part)
    for q in (0.001, 0.25, 0.5, 0.9, 0.9999):
        for told, values in ((found.quantile(q), x), (found.reach(q), np.abs(x))):
            least, most = np.quantile(values, (q - 2e-5, q + 2e-5))  # between the values beside it
            assert least - found.width <= told <= most + found.width
    assert (found.quantile(0), found.quantile(1), found.reach(1)) == (x.min(), x.max(), np.abs(x).max())


def test_a_sample_keeps_whole_rows_all_equally_likely() -> None:
    width, many = ELEMENTS // 8, 40
    kept = np.zeros(many)
    for seed in range(300):
        sample = RowSample(seed)
        rows = np.repeat(np.arange(many, dtype=np.float32)[:, None], width, axis=1)
        for part in np.split(rows, [3, 11, 12, 30]):
            sample.add(part)
        found = sample.rows
        assert found.shape == (8, width) and (found == found[:, :1]).all()
        assert len(set(found[:, 0])) == 8
        kept[found[:, 0].astype(int)] += 1
    # 300 draws of 8 out of 40: 60 each, standard deviation 7.
    assert kept.min() > 60 - 4 * 7 and kept.max() < 60 + 4 * 7


def test_a_sample_of_few_rows_is_all_of_them() -> None:
    sample = RowSample(0)
    assert sample.rows.size == 0
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    sample.add(x[:1])
    sample.add(x[1:])
    sample.add(np.zeros((2, 5), np.float32))
    assert (sample.rows == x).all()
    long = RowSample(0)
    long.add(np.ones((2, ELEMENTS + 7), np.float32))
    assert long.rows.shape == (1, ELEMENTS)
