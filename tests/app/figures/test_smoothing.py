"""The moving average against its definition as a weighted sum, and against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from espalier.app.figures.smoothing import MAX_WEIGHT, smoothed


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("length", [1, 2, 7, 500])
def test_each_value_is_the_weighted_mean_of_those_before(weight: float, length: int) -> None:
    """numpy's average with weights w^(t−i): it needs neither the recursion nor the correction."""
    values = np.random.default_rng(length).normal(3.0, 2.0, length)
    wanted = [np.average(values[: t + 1], weights=weight ** np.arange(t, -1, -1.0)) for t in range(length)]
    np.testing.assert_allclose(smoothed(values.tolist(), weight), wanted, rtol=1e-12)


def test_by_hand() -> None:
    """w = 0.5 on 1, 2, 4: m = 0.5, 1.25, 2.625; divided by 0.5, 0.75, 0.875."""
    assert smoothed([1.0, 2.0, 4.0], 0.5) == pytest.approx([1.0, 5 / 3, 3.0])


def test_a_constant_stays_and_a_weight_of_zero_changes_nothing() -> None:
    assert smoothed([0.7] * 50, 0.99) == pytest.approx([0.7] * 50)
    assert smoothed([3.0, -1.0, 8.0], 0.0) == [3.0, -1.0, 8.0]
    assert smoothed([], 0.5) == []


def test_a_value_that_is_not_finite_does_not_spread() -> None:
    found = smoothed([1.0, math.nan, 2.0, math.inf, 4.0], 0.5)
    assert math.isnan(found[1]) and math.isnan(found[3])
    assert [found[0], found[2], found[4]] == pytest.approx(smoothed([1.0, 2.0, 4.0], 0.5))


@pytest.mark.parametrize("weight", [-0.1, 1.0, MAX_WEIGHT + 0.001, math.nan])
def test_weights_outside_the_range_are_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        smoothed([1.0], weight)
