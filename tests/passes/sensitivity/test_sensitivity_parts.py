"""The parts under sensitivities: samples of rows by weight, and what measurements correct."""

from __future__ import annotations

import math

import numpy as np
import pytest

from espalier.passes.sensitivity.correction import MIN_MEASUREMENTS, Correction, fit_correction, spearman
from espalier.passes.sensitivity.reservoir import Reservoir


def test_a_reservoir_estimates_sums_without_bias() -> None:
    random = np.random.default_rng(0)
    gradients = (random.normal(size=(2000, 4)) * np.exp(2 * random.normal(size=(2000, 1)))).astype(np.float32)
    values = random.random((2000, 3)).astype(np.float32)
    true = float((np.square(gradients).sum(1) * values[:, 0]).sum())
    found: list[float] = []
    for seed in range(60):
        held = Reservoir(100, seed)
        for part in range(0, 2000, 250):
            held.add(gradients[part : part + 250], values[part : part + 250])
        shares, (g, x) = held.sample()
        assert len(shares) == 100 and shares.min() >= 1
        found.append(float((shares * np.square(g).sum(1) * x[:, 0]).sum()))
    assert np.mean(found) == pytest.approx(true, rel=4 * np.std(found) / math.sqrt(60) / true)
    assert np.std(found) < 0.2 * true


def test_few_rows_stay_as_they_are() -> None:
    held = Reservoir(10, 0)
    held.add(np.ones((4, 2), np.float32), np.arange(8.0).reshape(4, 2))
    held.add(np.ones((2, 3), np.float32), np.zeros((2, 3)))  # of another length: passed over
    shares, (_, x) = held.sample()
    assert shares.tolist() == [1, 1, 1, 1] and sorted(x[:, 0]) == [0, 2, 4, 6]
    assert Reservoir(10, 0).sample()[1] == []


def test_rows_without_gradient_are_sampled_too() -> None:
    held = Reservoir(50, 0)
    gradients = np.zeros((1000, 2), np.float32)
    gradients[:100] = 1
    held.add(gradients, np.arange(1000.0)[:, None])
    shares, (g, x) = held.sample()
    assert 0 < (g.sum(1) == 0).sum() < 40
    assert float(shares.sum()) == pytest.approx(1000, rel=0.5)
    assert x.dtype == np.float64


def _pairs(count: int, steep: float, level: float, spread: float) -> list[tuple[float, float, float]]:
    random = np.random.default_rng(1)
    predicted = np.exp(random.uniform(math.log(1e-5), math.log(1e-1), count))
    excess = np.maximum(np.log(predicted) - math.log(1e-3), 0)
    true = predicted * np.exp(level + steep * excess + spread * random.normal(size=count))
    return [(float(p), 1e-3, float(m)) for p, m in zip(predicted, true, strict=True)]


def test_a_steep_end_is_learned() -> None:
    found = fit_correction(_pairs(40, 0.5, 0.3, 0.1))
    assert found.factor < 1.3 < found.before
    assert found.steep == pytest.approx(0.5, abs=0.15) and found.level == pytest.approx(0.3, abs=0.15)
    assert found.of(0.1, 1e-3) == pytest.approx(0.1 * math.exp(0.3 + 0.5 * math.log(100)), rel=0.4)


def test_where_nothing_is_to_correct_nothing_is() -> None:
    found = fit_correction(_pairs(40, 0.0, 0.0, 0.5))
    assert found.of(1e-4, 0.001) == pytest.approx(1e-4, rel=0.2)
    few = fit_correction(_pairs(MIN_MEASUREMENTS - 1, 0.5, 1.0, 0.0))
    assert few.of(0.05, 0.5) == 0.05 and few.before == few.factor > 1


def test_corrections_keep_the_order_and_what_is_no_number() -> None:
    found = fit_correction(_pairs(40, -2.0, 0.0, 0.1))
    values = [found.of(p, 0.001) for p in np.logspace(-6, 1, 50)]
    assert values == sorted(values)
    assert Correction(1.0, 1.0, 1.0, count=9).of(math.inf, 1.0) == math.inf
    assert fit_correction([]) == Correction() and Correction().of(0.0, 0.0) == 0


def test_ranks_share_equal_values() -> None:
    from scipy.stats import spearmanr

    a, b = [1.0, 2.0, 2.0, 5.0, 3.0], [2.0, 1.0, 4.0, 4.0, 9.0]
    assert spearman(a, b) == pytest.approx(float(spearmanr(a, b)[0]))
    assert spearman([1, 1, 1], [1, 2, 3]) is None and spearman([1], [2]) is None
