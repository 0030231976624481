"""Search for 16-bit range ends that reproduce a given scale.

A quantised 16-bit weight has such ends, so they exist. All numbers within half a step of the larger end's code are
tried, since a small set of candidates rarely contains them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from espalier.model.formats.base import Array

Reproduces = Callable[[Array, Array, Array], Array]
_LARGEST = {"float16": 0x7BFF, "bfloat16": 0x7F7F}
_HALF = 0.501  # of a step, with a margin for ties after rounding
_MAX_CANDIDATES = 1 << 12  # per side: half a step of 2 bits has 2048 float16 numbers


def rounded(x: Array, dtype: str, offset: int = 0) -> Array:
    """`x` rounded to the 16-bit float `dtype` and moved up by `offset` representable numbers; saturating, float32."""
    x = np.clip(np.asarray(x, np.float64), -3e38, 3e38).astype(np.float32)
    if dtype == "float16":
        with np.errstate(over="ignore"):
            bits = x.astype(np.float16).view(np.uint16).astype(np.int64)
    else:
        pattern = x.view(np.uint32).astype(np.int64)
        bits = (pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16
    magnitude = bits & 0x7FFF
    number = np.clip(np.where(bits >> 15, -magnitude, magnitude) + offset, -_LARGEST[dtype], _LARGEST[dtype])
    bits = np.where(number < 0, 0x8000 - number, number)
    if dtype == "float16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def ends(
    low: Array, high: Array, s: Array, top: int, dtype: str, below: Array, reproduces: Reproduces
) -> tuple[Array, Array]:
    """(lower, upper) range end of each group in `dtype` with (upper − lower)/top = s; the decoded values if none exist.

    `low`, `high`: the ends in steps of s (groups, 1). `below`: the next smaller scale that can be stored.
    `reproduces(rows, lower, upper)`: whether the ends reproduce scale, zero point and steps of these groups.
    """
    search = _Search(low, high, s, top, dtype, below, reproduces)
    for distance in range(_MAX_CANDIDATES + 1):
        if not search.pending.size:
            break
        search.try_distance(distance)
    return search.lower, search.upper


class _Search:
    """Search for range ends at increasing distance from the larger end's code; `pending`: groups without ends so
    far."""

    def __init__(
        self, low: Array, high: Array, s: Array, top: int, dtype: str, below: Array, reproduces: Reproduces
    ) -> None:
        self.low, self.high, self.s = low, high, s.astype(np.float64)
        self.top, self.dtype, self.reproduces = top, dtype, reproduces
        self.scale_width = self.s - below  # width of the interval of scales that round up to s
        self.lower, self.upper = rounded(low * self.s, dtype), rounded(high * self.s, dtype)
        self.top_end_is_larger = np.abs(high) >= np.abs(low)
        self.pending = np.flatnonzero(~reproduces(np.arange(len(s)), self.lower, self.upper))

    def try_distance(self, distance: int) -> None:
        """Try the numbers at `distance` from the larger end's code; drop groups where both exceed half a step."""
        rows = self.pending
        matched, close = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        code = np.where(self.top_end_is_larger[rows], self.high[rows], self.low[rows]) * self.s[rows]
        for offset in dict.fromkeys((distance, -distance)):
            first = rounded(code, self.dtype, offset)
            is_near = (np.abs(first - code) <= _HALF * self.s[rows])[:, 0]
            matched |= self._match(rows, first, is_near & ~matched)
            close |= is_near
        self.pending = rows[close & ~matched]

    def _match(self, rows: Array, first: Array, pending: Array) -> Array:
        """Store ends where `first` has a matching opposite end; returns the bool mask of these rows."""
        up, low, high, s = self.top_end_is_larger[rows], self.low[rows], self.high[rows], self.s[rows]
        code, sign = np.where(up, low, high) * s, np.where(up, -1, 1)
        opposite, opposite_below = first + sign * s * self.top, first + sign * (s - self.scale_width[rows]) * self.top
        lower = np.maximum(np.minimum(opposite, opposite_below), code - _HALF * s)
        upper = np.minimum(np.maximum(opposite, opposite_below), code + _HALF * s)
        done = np.zeros(len(rows), bool)
        for value, offset in ((lower + upper) / 2, 0), (lower, 0), (lower, 1), (upper, 0), (upper, -1):
            opposite_end = rounded(value, self.dtype, offset)
            start = np.where(low > 0, rounded(low * s, self.dtype), np.where(up, opposite_end, first))
            end = np.where(high < 0, rounded(high * s, self.dtype), np.where(up, first, opposite_end))
            start, end = np.where(low == 0, np.minimum(start, 0), start), np.where(high == 0, np.maximum(end, 0), end)
            matched = self.reproduces(rows, start, end)[:, 0] & pending & ~done
            self.lower[rows[matched]], self.upper[rows[matched]] = start[matched], end[matched]
            done |= matched
            if (done | ~pending).all():
                break
        return done
