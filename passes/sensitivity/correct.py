"""A few true measurements correct the predictions: their level, and the steep end, where ½δᵀFδ no longer holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEEP = math.log(1e-3)  # from this divergence on
LOUD = math.log(0.01)  # from this error over signal on
FEWEST = 8  # measurements, below which nothing is corrected
_PRIOR = 1.0  # how many measurements a slope of 1 must be seen against
_STEEPEST = 0.8  # what a slope may take of the order of predictions: never all
Pair = tuple[float, float, float]  # predicted, noise, measured


@dataclass(frozen=True, slots=True)
class Correction:
    """log KL = log prediction + level + steep·(beyond STEEP) + loud·(noise beyond LOUD).

    `factor`: what predictions are off by in the median, of measurements that the correction did not see (left out one
    by one); `before`: the same without correction. `count`: the measurements; 0: nothing is corrected.
    """

    level: float = 0.0
    steep: float = 0.0
    loud: float = 0.0
    factor: float = 0.0
    before: float = 0.0
    count: int = 0

    def of(self, predicted: float, noise: float) -> float:
        """The corrected prediction."""
        if not self.count or not 0 < predicted < math.inf:
            return predicted
        found = _features([(predicted, noise, 1.0)])[0] @ np.array([self.level, self.steep, self.loud])
        return predicted * math.exp(float(found))


def learned(pairs: Sequence[Pair]) -> Correction:
    """The correction that is best at measurements it did not see: none, a level, with the steep end, with the noise."""
    known = [p for p in pairs if all(0 < v < math.inf for v in (p[0], p[2]))]
    if not known:
        return Correction()
    features = _features(known)
    wrong = np.log([m / p for p, _, m in known])
    before = float(np.exp(np.median(np.abs(wrong))))
    if len(known) < FEWEST:
        return Correction(0.0, 0.0, 0.0, before, before, len(known))
    tried = {used: _left_out(features[:, :used], wrong) for used in range(4)}
    best = min(tried, key=lambda used: float(np.mean(np.abs(tried[used]))))
    found = np.zeros(3)
    found[:best] = _solved(features[:, :best], wrong)
    factor = float(np.exp(np.median(np.abs(tried[best]))))
    level, steep, loud = (float(v) for v in found)
    return Correction(level, max(steep, -_STEEPEST), loud, factor, before, len(known))


def _features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    logs = [(math.log(max(p, 1e-300)), math.log(max(n, 1e-300))) for p, n, _ in pairs]
    return np.array([(1.0, max(p - STEEP, 0.0), max(n - LOUD, 0.0)) for p, n in logs])


def _solved(features: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with a prior at 0; measurements far off count less (weights of Huber's)."""
    count = features.shape[1]
    found, weights = np.zeros(count), np.ones(len(wrong))
    for _ in range(5):
        weighted = features * weights[:, None]
        found = np.linalg.solve(features.T @ weighted + _PRIOR * np.eye(count), weighted.T @ wrong)
        weights = 1 / np.maximum(np.abs(wrong - features @ found), 1.0)
    return np.asarray(found, np.float64)


def _left_out(features: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is left of each error by the correction that all others give."""
    if not features.shape[1]:
        return wrong
    keep = ~np.eye(len(wrong), dtype=bool)
    return np.array([wrong[i] - float(features[i] @ _solved(features[k], wrong[k])) for i, k in enumerate(keep)])


def ranks_agree(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None of fewer than 3 pairs, or where either is constant."""
    if len(first) < 3:
        return None
    a, b = _ranks(np.asarray(first)), _ranks(np.asarray(second))
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, equal values sharing theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)
