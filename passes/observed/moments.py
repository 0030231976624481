"""Exact figures of a stream of values, in float64: parts are merged as Chan, Golub and LeVeque (1983) do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.passes.observed.pieces import pieces


@dataclass(slots=True)
class Moments:
    """Count, range, mean, Σ(x − mean)², Σ|x| and zeros of the values so far; `not_finite` counts those left out."""

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0
    magnitude: float = 0.0
    zeros: int = 0
    not_finite: int = 0

    def add(self, x: NDArray[Any]) -> None:
        """Take in the values of a floating array of any shape."""
        for piece, left_out in pieces(x):
            self.not_finite += left_out
            if piece.size:
                self.merge(_of(piece))

    def merge(self, other: Moments) -> None:
        """Take in what another stream has told."""
        count = self.count + other.count
        if count:
            apart = other.mean - self.mean
            self.squares += other.squares + apart * apart * self.count * other.count / count
            self.mean += apart * other.count / count
        self.count, self.low, self.high = count, min(self.low, other.low), max(self.high, other.high)
        self.magnitude += other.magnitude
        self.zeros += other.zeros
        self.not_finite += other.not_finite

    @property
    def variance(self) -> float:
        """Mean squared distance from the mean; 0 of nothing."""
        return self.squares / self.count if self.count else 0.0

    @property
    def abs_mean(self) -> float:
        """Mean of |x|; 0 of nothing."""
        return self.magnitude / self.count if self.count else 0.0


def _of(x: NDArray[np.float64]) -> Moments:
    mean = float(x.mean())
    low, high, magnitude = float(x.min()), float(x.max()), float(np.abs(x).sum())
    return Moments(x.size, low, high, mean, float(np.square(x - mean).sum()), magnitude, int(np.count_nonzero(x == 0)))
