"""How many magnitudes of a stream lie below any value, to 1/512 of it: what a threshold is chosen from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SHIFT = 14  # bits of a float32's magnitude that are dropped: 8 of the exponent and 9 of the mantissa stay
_BINS = 1 << (31 - _SHIFT)
_PIECE = 1 << 20


class Magnitudes:
    """Counts over bins that are as fine as their values; zeros have the first, together with denormals near them."""

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(_BINS, np.int64)

    def add(self, x: NDArray[Any]) -> None:
        """Take in a floating array; infinities lie above all, NaN too."""
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        for start in range(0, flat.size, _PIECE):
            bits = flat[start : start + _PIECE].view(np.uint32) & np.uint32(0x7FFFFFFF)
            self.counts += np.bincount(bits >> np.uint32(_SHIFT), minlength=_BINS)

    @property
    def total(self) -> int:
        """How many values there were."""
        return int(self.counts.sum())

    def threshold(self, share: float) -> float:
        """The largest magnitude to drop, so that the share that goes is as near to `share` as the bins allow."""
        below = np.cumsum(self.counts)
        wanted = share * below[-1]
        place = int(np.searchsorted(below, wanted))
        if place and abs(below[place - 1] - wanted) <= abs(below[place] - wanted):
            place = int(np.searchsorted(below, below[place - 1]))
        return _upper(place)

    def share(self, threshold: float) -> float:
        """The share of magnitudes up to a threshold that `threshold` gave."""
        bits = int(np.float32(threshold).view(np.uint32)) >> _SHIFT
        return float(self.counts[: bits + 1].sum() / max(self.total, 1))


def _upper(place: int) -> float:
    """The largest float32 of a bin; never infinite."""
    bits = min(((place + 1) << _SHIFT) - 1, 0x7F7FFFFF)
    return float(np.uint32(bits).view(np.float32))
