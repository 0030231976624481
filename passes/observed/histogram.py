"""A histogram whose range grows with the data; bins are only merged, so counts are exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.passes.observed.chunks import finite_chunks

BINS = 4096
FINEST = -140  # exponent of the smallest width, for streams of zeros
Counts = NDArray[np.int64]


class Histogram:
    """Counts over bins [k·2^e, (k+1)·2^e). If more than BINS were needed, e is increased and neighbours are merged."""

    def __init__(self) -> None:
        self.exponent: int | None = None
        self.first = 0
        self.counts: Counts = np.zeros(0, np.int64)
        self.low, self.high = math.inf, -math.inf

    @property
    def width(self) -> float:
        """Bin width."""
        return math.ldexp(1.0, FINEST if self.exponent is None else self.exponent)

    def add(self, x: NDArray[Any]) -> None:
        """Add the values of a floating-point array of any shape."""
        for piece, _ in finite_chunks(x):
            if piece.size:
                self._add(piece)

    def _add(self, x: NDArray[np.float64]) -> None:
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        exponent = _exponent(self.low, self.high, self.exponent)
        if self.exponent is not None and exponent > self.exponent:
            self._merge(exponent - self.exponent)
        self.exponent = exponent
        self._count(_bins(x, exponent))

    def _merge(self, steps: int) -> None:
        """Widen the bins by 2^steps: k → floor(k / 2^steps)."""
        bins = (np.arange(len(self.counts)) + self.first) >> min(steps, 62)
        first, weights = int(bins[0]), self.counts
        self.counts = np.zeros(int(bins[-1]) - first + 1, np.int64)
        np.add.at(self.counts, bins - first, weights)
        self.first = first

    def _count(self, bins: Counts) -> None:
        first, last = int(bins.min()), int(bins.max()) + 1
        if len(self.counts):
            first, last = min(first, self.first), max(last, self.first + len(self.counts))
        counts = np.bincount(bins - first, minlength=last - first)
        counts[self.first - first : self.first - first + len(self.counts)] += self.counts
        self.first, self.counts = first, counts

    def quantile(self, share: float) -> float:
        """The `share` quantile, interpolated within a bin; NaN if empty."""
        if not len(self.counts):
            return math.nan
        edges = (np.arange(len(self.counts) + 1) + self.first) * self.width
        below = np.concatenate([[0], np.cumsum(self.counts)])
        value = float(np.interp(share * below[-1], below, edges))
        return min(max(value, self.low), self.high)

    def magnitudes(self) -> Counts:
        """Counts of |x| over bins of the same width from 0."""
        bins = np.arange(len(self.counts)) + self.first
        folded = np.where(bins < 0, -bins - 1, bins)
        counts = np.zeros(int(folded.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, folded, self.counts)
        return counts

    def magnitudes_but_zero(self) -> Counts:
        """As `magnitudes`, with the first count set to the second: a peak at zero is irrelevant for clipping."""
        counts = self.magnitudes()
        counts[:1] = counts[1:2] if len(counts) > 1 else counts[:1]
        return counts

    def reach(self, share: float) -> float:
        """The `share` quantile of |x|; 0 if empty."""
        counts = self.magnitudes()
        if not len(counts):
            return 0.0
        below = np.concatenate([[0], np.cumsum(counts)])
        value = float(np.interp(share * below[-1], below, np.arange(len(below)) * self.width))
        return min(value, max(-self.low, self.high))


def _bins(x: Any, exponent: int) -> Any:
    return np.floor(np.ldexp(x, -exponent)).astype(np.int64)


def _exponent(low: float, high: float, minimum: int | None) -> int:
    """The exponent of the smallest width, at least `minimum`, with which low…high take at most BINS bins."""
    # For a single value, bins are fine relative to it.
    span = max(high - low, max(-low, high) / BINS)
    least = math.ceil(math.log2(span / BINS)) if span > 0 else FINEST
    exponent = max(least, FINEST if minimum is None else minimum)
    while int(_bins(high, exponent)) - int(_bins(low, exponent)) >= BINS:
        exponent += 1
    return exponent
