"""Correction of predicted divergences by a few measurements: level, and large divergences, where ½δᵀFδ fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEEP = math.log(1e-3)  # divergence from which the term `steep` applies
LOUD = math.log(0.01)  # noise-to-signal ratio from which the term `loud` applies
MIN_MEASUREMENTS = 8  # for a correction
_PRIOR = 1.0  # ridge penalty
_STEEPEST = 0.8  # limit of the negative slope, so that the order of predictions is preserved
Pair = tuple[float, float, float]  # predicted, noise, measured


@dataclass(frozen=True, slots=True)
class Correction:
    """log KL = log prediction + level + steep·max(log prediction − STEEP, 0) + loud·max(log noise − LOUD, 0).

    `factor`: median ratio error of the corrected predictions, by leave-one-out cross-validation; `before`: without
    correction. `count`: the number of measurements; 0: no correction.
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
        shift = _features([(predicted, noise, 1.0)])[0] @ np.array([self.level, self.steep, self.loud])
        return predicted * math.exp(float(shift))


def fit_correction(pairs: Sequence[Pair]) -> Correction:
    """Fit the correction with the smallest leave-one-out error: none, level, level + steep, or all three terms."""
    valid = [p for p in pairs if all(0 < v < math.inf for v in (p[0], p[2]))]
    if not valid:
        return Correction()
    features = _features(valid)
    errors = np.log([m / p for p, _, m in valid])
    before = float(np.exp(np.median(np.abs(errors))))
    if len(valid) < MIN_MEASUREMENTS:
        return Correction(0.0, 0.0, 0.0, before, before, len(valid))
    residuals = {terms: _left_out(features[:, :terms], errors) for terms in range(4)}
    best = min(residuals, key=lambda terms: float(np.mean(np.abs(residuals[terms]))))
    coefficients = np.zeros(3)
    coefficients[:best] = _solved(features[:, :best], errors)
    factor = float(np.exp(np.median(np.abs(residuals[best]))))
    level, steep, loud = (float(v) for v in coefficients)
    return Correction(level, max(steep, -_STEEPEST), loud, factor, before, len(valid))


def _features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    logs = [(math.log(max(p, 1e-300)), math.log(max(n, 1e-300))) for p, n, _ in pairs]
    return np.array([(1.0, max(p - STEEP, 0.0), max(n - LOUD, 0.0)) for p, n in logs])


def _solved(features: NDArray[np.float64], errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ridge regression with Huber weights (iteratively reweighted)."""
    count = features.shape[1]
    solution, weights = np.zeros(count), np.ones(len(errors))
    for _ in range(5):
        weighted = features * weights[:, None]
        solution = np.linalg.solve(features.T @ weighted + _PRIOR * np.eye(count), weighted.T @ errors)
        weights = 1 / np.maximum(np.abs(errors - features @ solution), 1.0)
    return np.asarray(solution, np.float64)


def _left_out(features: NDArray[np.float64], errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Leave-one-out residuals."""
    if not features.shape[1]:
        return errors
    keep = ~np.eye(len(errors), dtype=bool)
    return np.array([errors[i] - float(features[i] @ _solved(features[k], errors[k])) for i, k in enumerate(keep)])


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None for fewer than 3 pairs, or if either is constant."""
    if len(first) < 3:
        return None
    a, b = _ranks(np.asarray(first)), _ranks(np.asarray(second))
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks; ties share the mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)
