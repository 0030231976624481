"""A histogram whose range grows with what it sees: nothing need be known beforehand, and no count is ever divided."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.passes.observed.pieces import pieces

BINS = 4096
FINEST = -140  # exponent of the smallest width, for streams of zeros
Counts = NDArray[np.int64]


class Histogram:
    """Counts over bins [k·2^e, (k+1)·2^e). When more than BINS would be needed, e grows and neighbours are joined."""

    def __init__(self) -> None:
        self.exponent: int | None = None
        self.first = 0
        self.counts: Counts = np.zeros(0, np.int64)
        self.low, self.high = math.inf, -math.inf

    @property
    def width(self) -> float:
        """The width of a bin."""
        return math.ldexp(1.0, FINEST if self.exponent is None else self.exponent)

    def add(self, x: NDArray[Any]) -> None:
        """Take in the values of a floating array of any shape."""
        for piece, _ in pieces(x):
            if piece.size:
                self._add(piece)

    def _add(self, x: NDArray[np.float64]) -> None:
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        exponent = _exponent(self.low, self.high, self.exponent)
        if self.exponent is not None and exponent > self.exponent:
            self._join(exponent - self.exponent)
        self.exponent = exponent
        self._count(_places(x, exponent))

    def _join(self, steps: int) -> None:
        """Bins that are 2^steps times as wide: k → floor(k / 2^steps)."""
        places = (np.arange(len(self.counts)) + self.first) >> min(steps, 62)
        first, weights = int(places[0]), self.counts
        self.counts = np.zeros(int(places[-1]) - first + 1, np.int64)
        np.add.at(self.counts, places - first, weights)
        self.first = first

    def _count(self, places: Counts) -> None:
        first, last = int(places.min()), int(places.max()) + 1
        if len(self.counts):
            first, last = min(first, self.first), max(last, self.first + len(self.counts))
        counts = np.bincount(places - first, minlength=last - first)
        counts[self.first - first : self.first - first + len(self.counts)] += self.counts
        self.first, self.counts = first, counts

    def quantile(self, share: float) -> float:
        """The value below which `share` of all lie, spread evenly within a bin; NaN of nothing."""
        if not len(self.counts):
            return math.nan
        edges = (np.arange(len(self.counts) + 1) + self.first) * self.width
        below = np.concatenate([[0], np.cumsum(self.counts)])
        found = float(np.interp(share * below[-1], below, edges))
        return min(max(found, self.low), self.high)

    def magnitudes(self) -> Counts:
        """Counts of |x| over bins of the same width from 0."""
        places = np.arange(len(self.counts)) + self.first
        folded = np.where(places < 0, -places - 1, places)
        counts = np.zeros(int(folded.max(initial=-1)) + 1, np.int64)
        np.add.at(counts, folded, self.counts)
        return counts

    def magnitudes_but_zero(self) -> Counts:
        """As `magnitudes`, the first bin as full as the second: a peak at zero says nothing of where to clip."""
        counts = self.magnitudes()
        counts[:1] = counts[1:2] if len(counts) > 1 else counts[:1]
        return counts

    def reach(self, share: float) -> float:
        """The magnitude below which `share` of all lie; 0 of nothing."""
        counts = self.magnitudes()
        if not len(counts):
            return 0.0
        below = np.concatenate([[0], np.cumsum(counts)])
        found = float(np.interp(share * below[-1], below, np.arange(len(below)) * self.width))
        return min(found, max(-self.low, self.high))


def _places(x: Any, exponent: int) -> Any:
    return np.floor(np.ldexp(x, -exponent)).astype(np.int64)


def _exponent(low: float, high: float, held: int | None) -> int:
    """The exponent of the smallest width, not below `held`, under which low…high take at most BINS bins."""
    # A lone value gets bins that are fine beside it.
    span = max(high - low, max(-low, high) / BINS)
    least = math.ceil(math.log2(span / BINS)) if span > 0 else FINEST
    exponent = max(least, FINEST if held is None else held)
    while int(_places(high, exponent)) - int(_places(low, exponent)) >= BINS:
        exponent += 1
    return exponent
