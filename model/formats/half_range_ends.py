"""Searches 16-bit range ends that reproduce a given scale.

A quantised 16-bit weight had such ends, so they exist; all numbers within half a step of the larger end's code are
tried, as few candidates would rarely include them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from espalier.model.formats.base import Array

Holds = Callable[[Array, Array, Array], Array]
_LARGEST = {"float16": 0x7BFF, "bfloat16": 0x7F7F}
_HALF = 0.501  # of a step, with a margin for ties after rounding
_MAX_CANDIDATES = 1 << 12  # per side: half a step of 2 bits has 2048 float16 numbers


def rounded(x: Array, dtype: str, away: int = 0) -> Array:
    """The nearest numbers of a 16-bit float, moved up by `away` numbers; saturated, as float32."""
    x = np.clip(np.asarray(x, np.float64), -3e38, 3e38).astype(np.float32)
    if dtype == "float16":
        with np.errstate(over="ignore"):
            bits = x.astype(np.float16).view(np.uint16).astype(np.int64)
    else:
        whole = x.view(np.uint32).astype(np.int64)
        bits = (whole + 0x7FFF + ((whole >> 16) & 1)) >> 16
    size = bits & 0x7FFF
    place = np.clip(np.where(bits >> 15, -size, size) + away, -_LARGEST[dtype], _LARGEST[dtype])
    bits = np.where(place < 0, 0x8000 - place, place)
    if dtype == "float16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def ends(low: Array, high: Array, s: Array, top: int, dtype: str, below: Array, holds: Holds) -> tuple[Array, Array]:
    """(least, most) value of each group in `dtype` with (most − least)/top = s; the decoded values if none exist.

    `low`, `high`: the steps of these values (groups, 1). `below`: the next smaller scale that can be stored.
    `holds(rows, least, most)`: whether the values reproduce scale, zero point and steps of these groups.
    """
    search = _Search(low, high, s, top, dtype, below, holds)
    for away in range(_MAX_CANDIDATES + 1):
        if not search.left.size:
            break
        search.further(away)
    return search.least, search.most


class _Search:
    """Searches ends at increasing distance from the larger end's code; `left`: groups without ends so far."""

    def __init__(self, low: Array, high: Array, s: Array, top: int, dtype: str, below: Array, holds: Holds) -> None:
        self.low, self.high, self.s = low, high, s.astype(np.float64)
        self.top, self.dtype, self.holds = top, dtype, holds
        self.room = self.s - below  # range of scales that are rounded up to s; tiny for 32-bit scales
        self.least, self.most = rounded(low * self.s, dtype), rounded(high * self.s, dtype)
        self.upper = np.abs(high) >= np.abs(low)
        self.left = np.flatnonzero(~holds(np.arange(len(s)), self.least, self.most))

    def further(self, away: int) -> None:
        """Try the numbers at distance `away` from the larger end's code; drops groups where both exceed half a step."""
        rows = self.left
        matched, close = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        code = np.where(self.upper[rows], self.high[rows], self.low[rows]) * self.s[rows]
        for offset in dict.fromkeys((away, -away)):
            first = rounded(code, self.dtype, offset)
            near = (np.abs(first - code) <= _HALF * self.s[rows])[:, 0]
            matched |= self._match(rows, first, near & ~matched)
            close |= near
        self.left = rows[close & ~matched]

    def _match(self, rows: Array, first: Array, wanted: Array) -> Array:
        """Where `first` has a matching opposite end; stores both."""
        up, low, high, s = self.upper[rows], self.low[rows], self.high[rows], self.s[rows]
        code, sign = np.where(up, low, high) * s, np.where(up, -1, 1)
        far, close = first + sign * s * self.top, first + sign * (s - self.room[rows]) * self.top
        least = np.maximum(np.minimum(far, close), code - _HALF * s)
        most = np.minimum(np.maximum(far, close), code + _HALF * s)
        good = np.zeros(len(rows), bool)
        for value, away in ((least + most) / 2, 0), (least, 0), (least, 1), (most, 0), (most, -1):
            other = rounded(value, self.dtype, away)
            start = np.where(low > 0, rounded(low * s, self.dtype), np.where(up, other, first))
            end = np.where(high < 0, rounded(high * s, self.dtype), np.where(up, first, other))
            start, end = np.where(low == 0, np.minimum(start, 0), start), np.where(high == 0, np.maximum(end, 0), end)
            now = self.holds(rows, start, end)[:, 0] & wanted & ~good
            self.least[rows[now]], self.most[rows[now]] = start[now], end[now]
            good |= now
            if (good | ~wanted).all():
                break
        return good
