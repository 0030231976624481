"""Intervals and tests of measured figures, held to scipy.stats and to values printed in the papers."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binomtest

from espalier.passes.figure import Figure, hits_of, main_figure, mcnemar, newcombe, wilson


# Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_equals_the_published_values(right: int, n: int, low: float, high: float) -> None:
    assert wilson(right / n, n) == pytest.approx((low, high), abs=5e-5)


# Newcombe 1998, "Interval estimation for the difference between independent proportions", table II, method 10.
@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((6, 7), (2, 7), 0.0582, 0.8062),
     ((5, 56), (0, 29), -0.0381, 0.1926), ((0, 10), (0, 20), -0.1611, 0.2775), ((10, 10), (0, 20), 0.6791, 1.0)],
)  # fmt: skip
def test_newcombe_equals_the_published_values(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    found = newcombe(one[0] / one[1], one[1], other[0] / other[1], other[1])
    assert found == pytest.approx((low, high), abs=5e-5)


@pytest.mark.slow
def test_wilson_and_mcnemar_equal_scipy() -> None:
    draw = random.Random(18)
    for _ in range(300):
        n = draw.randint(1, 5000)
        right = draw.randint(0, n)
        found = binomtest(right, n)
        ends = found.proportion_ci(method="wilson")
        assert wilson(right / n, n) == pytest.approx((ends.low, ends.high), abs=1e-12)
        assert mcnemar(right, n - right) == pytest.approx(found.pvalue, rel=1e-8, abs=1e-300)
    assert mcnemar(0, 0) == 1.0


def test_the_same_samples_are_compared_pair_by_pair() -> None:
    """Two of 270 images gained and none lost is noise; a hundred of 10 000 that only one got is none, although the
    intervals of both overlap."""
    float_, best = Figure(264 / 270, 270), Figure(266 / 270, 270)
    assert best.against(float_).noise and best.against(float_).test == "Newcombe"
    before = Figure(0.9, 10_000, hits_of([True] * 9000 + [False] * 1000))
    after = Figure(0.905, 10_000, hits_of([True] * 9050 + [False] * 950))
    assert after.against(Figure(0.9, 10_000)).noise and not after.against(before).noise
    change = after.against(before, "project at start")
    assert (change.baseline, change.test) == ("project at start", "McNemar") and change.p == pytest.approx(2 * 0.5**50)


def test_a_figure_at_the_majority_class_is_guessing() -> None:
    assert Figure(0.4688, 32, guessing=0.53).guesses and Figure(0.56, 50, guessing=0.5).guesses
    assert not Figure(0.93, 1000, guessing=0.5).guesses and not Figure(0.93, 1000).guesses


def test_an_evaluation_without_an_accuracy_has_no_figure() -> None:
    told = {"accuracy": 0.75, "n": 4, "hits": hits_of([True, True, False, True]), "guessing": 0.5}
    assert main_figure(told) == Figure(0.75, 4, "d", 0.5)
    assert main_figure({"accuracy": None, "n": 4}) is None and main_figure({"accuracy": 0.5}) is None
