"""Histogram of the magnitudes of a stream with a relative resolution of 1/512, for the choice of a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SHIFT = 14  # dropped bits of a float32's magnitude: 8 of the exponent and 9 of the mantissa remain
_BINS = 1 << (31 - _SHIFT)
_CHUNK = 1 << 20


class Magnitudes:
    """Counts over bins of logarithmic width; the first contains zeros and small denormals."""

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(_BINS, np.int64)

    def add(self, x: NDArray[Any]) -> None:
        """Add a floating-point array; infinities and NaN count as the largest magnitudes."""
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            bits = flat[start : start + _CHUNK].view(np.uint32) & np.uint32(0x7FFFFFFF)
            self.counts += np.bincount(bits >> np.uint32(_SHIFT), minlength=_BINS)

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    def threshold(self, share: float) -> float:
        """The largest magnitude to drop, with a dropped share as close to `share` as the bins allow."""
        below = np.cumsum(self.counts)
        wanted = share * below[-1]
        number = int(np.searchsorted(below, wanted))
        if number and abs(below[number - 1] - wanted) <= abs(below[number] - wanted):
            number = int(np.searchsorted(below, below[number - 1]))
        return _upper(number)

    def share(self, threshold: float) -> float:
        """The share of magnitudes up to a result of `threshold`."""
        bits = int(np.float32(threshold).view(np.uint32)) >> _SHIFT
        return float(self.counts[: bits + 1].sum() / max(self.total, 1))


def _upper(number: int) -> float:
    """The largest finite float32 of a bin."""
    bits = min(((number + 1) << _SHIFT) - 1, 0x7F7FFFFF)
    return float(np.uint32(bits).view(np.float32))
