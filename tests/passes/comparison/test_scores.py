"""Comparisons of scores against scipy and a count by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from espalier.passes.comparison.scores import BETTER, Measured, compare_scores, paired_reach
from espalier.passes.figure import Figure, hits_of
from espalier.passes.score import Score


def side(hits: list[bool], **costs: float) -> Measured:
    """A state with these predictions."""
    accuracy = Figure(sum(hits) / len(hits), len(hits), hits_of(hits))
    return Measured(Score(accuracy=accuracy.value, loss=0.5, **costs), accuracy)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_paired_accuracies_are_tested_as_scipy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.random(400) < 0.8
    second = np.where(rng.random(400) < 0.05 * (seed + 1), ~first, first)
    row = compare_scores(side(first.tolist()), side(second.tolist()))[0]
    gained, lost = int((second & ~first).sum()), int((first & ~second).sum())
    assert row.p == pytest.approx(stats.binomtest(gained, gained + lost).pvalue)
    assert row.verdict == ("within noise" if row.p >= 0.05 else "better" if gained > lost else "worse")
    for interval, hits in ((row.interval_a, first), (row.interval_b, second)):
        expected = stats.binomtest(int(hits.sum()), 400).proportion_ci(method="wilson")
        assert interval == pytest.approx((expected.low, expected.high))
    # the variance of a mean of differences in −1, 0, 1, as numpy has it
    differences = second.astype(float) - first.astype(float)
    assert row.change == pytest.approx(differences.mean())
    assert row.reach == pytest.approx(stats.norm.ppf(0.975) * differences.std() / np.sqrt(400))


def test_unpaired_accuracies_are_not_paired() -> None:
    first, second = Figure(0.9, 100), Figure(0.6, 100)
    row = compare_scores(Measured(Score(0.9, 0.1), first), Measured(Score(0.6, 0.1), second))[0]
    assert (row.test, row.p, row.verdict) == ("Newcombe", None, "worse")
    # Newcombe 1998, method 10, by hand from scipy's Wilson intervals
    a, b = (stats.binomtest(round(f.value * 100), 100).proportion_ci(method="wilson") for f in (first, second))
    sides = np.hypot(0.6 - b.low, a.high - 0.9), np.hypot(b.high - 0.6, 0.9 - a.low)
    assert row.reach == pytest.approx(max(sides))
    assert paired_reach(first, second) is None


def test_costs_have_no_noise_and_loss_is_not_tested() -> None:
    hits = [True, False] * 50
    rows = {r.name: r for r in compare_scores(
        side(hits, size_bytes=100, weight_bits=8.0, sparsity=0.1, memory_density=2.0),
        side(hits, size_bytes=90, weight_bits=8.0, sparsity=0.3, memory_density=1.5),
    )}  # fmt: skip
    assert rows["accuracy"].verdict == "same" and rows["loss"].verdict == "same"
    assert rows["size_bytes"].verdict == "better" and rows["size_bytes"].change == -10
    assert rows["weight_bits"].verdict == "same" and rows["memory_density"].verdict == "worse"
    assert rows["sparsity"].verdict == "", "neither side of it is better"
    assert "kl" not in rows and set(rows) <= set(BETTER)
    loss = compare_scores(Measured(Score(loss=1.0)), Measured(Score(loss=0.9)))
    assert {r.name: r.verdict for r in loss}["loss"] == "not tested"


def test_one_side_that_is_not_measured_gives_no_verdict() -> None:
    row = compare_scores(Measured(Score()), side([True, False]))[0]
    assert (row.name, row.a, row.change, row.verdict) == ("accuracy", None, None, "")


def test_scores_on_other_data_are_not_tested() -> None:
    """As many samples of another set are not the same samples."""
    a, b = side([True, False] * 50, size_bytes=100), side([False, False] * 50, size_bytes=90)
    rows = {r.name: r for r in compare_scores(replace(a, data="reviews"), replace(b, data="digits"))}
    assert rows["accuracy"].verdict == rows["loss"].verdict == "other data"
    assert rows["accuracy"].p is None and rows["accuracy"].reach is None
    assert rows["size_bytes"].verdict == "better", "a cost depends on no data"
    assert compare_scores(replace(a, data="reviews"), replace(b, data="reviews"))[0].test == "McNemar"
    assert compare_scores(replace(a, data="reviews"), b)[0].test == "McNemar", "unknown data"
