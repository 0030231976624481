"""Moments of a stream of values in float64, merged by the method of Chan, Golub and LeVeque (1983)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.passes.observed.chunks import finite_chunks


@dataclass(slots=True)
class Moments:
    """Count, range, mean, Σ(x − mean)², Σ|x| and zeros of the finite values; `not_finite`: number of the others."""

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0
    magnitude: float = 0.0
    zeros: int = 0
    not_finite: int = 0

    def add(self, x: NDArray[Any]) -> None:
        """Add the values of a floating-point array of any shape."""
        for piece, left_out in finite_chunks(x):
            self.not_finite += left_out
            if piece.size:
                self.merge(_of(piece))

    def merge(self, other: Moments) -> None:
        """Add the moments of another stream."""
        count = self.count + other.count
        if count:
            shift = other.mean - self.mean
            self.squares += other.squares + shift * shift * self.count * other.count / count
            self.mean += shift * other.count / count
        self.count, self.low, self.high = count, min(self.low, other.low), max(self.high, other.high)
        self.magnitude += other.magnitude
        self.zeros += other.zeros
        self.not_finite += other.not_finite

    @property
    def variance(self) -> float:
        """Population variance; 0 if empty."""
        return self.squares / self.count if self.count else 0.0

    @property
    def abs_mean(self) -> float:
        """Mean of |x|; 0 if empty."""
        return self.magnitude / self.count if self.count else 0.0


def _of(x: NDArray[np.float64]) -> Moments:
    mean = float(x.mean())
    low, high, magnitude = float(x.min()), float(x.max()), float(np.abs(x).sum())
    return Moments(x.size, low, high, mean, float(np.square(x - mean).sum()), magnitude, int(np.count_nonzero(x == 0)))
