"""Which elements of some weights are the smallest in magnitude, or the least: exact counts, ties by place, no copy.

A sample brackets the wanted rank (as in Floyd and Rivest 1975, Algorithm 489), one pass counts what lies below and
gathers what lies within, a second writes the masks; both in pieces that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Bits = NDArray[np.uint8]
Bracket = tuple[float, float]

_PIECE = 1 << 16  # elements; a multiple of 8, so that the bits of a piece begin at a byte
_SAMPLE = 200_000
_SPREAD = 6.0  # standard deviations of the sampled rank on either side of it
_ALL: Bracket = (-np.inf, np.inf)


def is_finite(values: Values) -> bool:
    """Whether no value is infinite or not a number (numpy's extremes pass NaN on)."""
    return not values.size or bool(np.isfinite(values.max()) and np.isfinite(values.min()))


def keep_largest(parts: Sequence[Values], drop: int, signed: bool = False) -> list[tuple[Bits, int]]:
    """(numpy.packbits of the mask, its zeros) of each flat part; the `drop` smallest |values| of all parts are the
    zeros (`signed`: the least values), of equal ones those that come first. The values must be finite, and 0 ≤ drop ≤
    their number.
    """
    limit, ties = _limit(parts, drop, signed) if drop else (-np.inf, 0)
    masks: list[tuple[Bits, int]] = []
    for part in parts:
        bits, zeros, ties = _cut(part, limit, ties, signed)
        masks.append((bits, zeros))
    return masks


def _limit(parts: Sequence[Values], drop: int, signed: bool) -> tuple[float, int]:
    """The `drop`-th smallest magnitude, and how many elements of just that magnitude go."""
    below, inside = _census(parts, _bracket(parts, drop, signed), signed)
    if not below < drop <= below + inside.size:
        below, inside = _census(parts, _ALL, signed)  # the sample misled
    place = drop - below - 1
    inside.partition(place)
    limit = inside[place]
    return float(limit), place + 1 - int(np.count_nonzero(inside < limit))


def _bracket(parts: Sequence[Values], drop: int, signed: bool = False) -> Bracket:
    """Two magnitudes with the `drop`-th smallest very likely between them."""
    total = sum(p.size for p in parts)
    if total <= _SAMPLE:
        return _ALL
    # Odd, so that it does not walk along one column of a weight with an even number of them.
    stride = total // _SAMPLE | 1
    sample = np.concatenate([p[::stride] for p in parts])
    sample = sample if signed else np.abs(sample)
    share = drop / total
    spread = _SPREAD * (sample.size * share * (1 - share)) ** 0.5 + 2
    low, high = (int(share * sample.size + s) for s in (-spread, spread))
    found = np.partition(sample, (max(low, 0), min(high, sample.size - 1)))
    return (
        float(found[low]) if low > 0 else -np.inf,
        float(found[high]) if high < sample.size - 1 else np.inf,
    )


def _census(parts: Sequence[Values], bracket: Bracket, signed: bool) -> tuple[int, Values]:
    """How many magnitudes lie below the bracket, and those within it."""
    low, high = bracket
    below, inside = 0, [np.empty(0, np.float32)]
    for piece in (p for part in parts for p in _magnitudes(part, signed)):
        under, up_to = piece < low, piece <= high
        below += int(np.count_nonzero(under))
        inside.append(piece[under ^ up_to])
    return below, np.concatenate(inside)


def _cut(part: Values, limit: float, ties: int, signed: bool) -> tuple[Bits, int, int]:
    """The mask of a part, its zeros, and the ties that are left to drop after it."""
    bits, kept, at = np.empty((part.size + 7) // 8, np.uint8), 0, 0
    for piece in _magnitudes(part, signed):
        keep = piece >= limit
        if ties:
            first = np.flatnonzero(piece == limit)[:ties]
            keep[first] = False
            ties -= first.size
        packed = np.packbits(keep)
        bits[at : at + packed.size] = packed
        kept, at = kept + int(np.count_nonzero(keep)), at + packed.size
    return bits, part.size - kept, ties


def _magnitudes(part: Values, signed: bool) -> Iterator[Values]:
    """|values| piece by piece, in one buffer that the next piece overwrites; `signed` ones as they are."""
    if signed:
        yield from (part[start : start + _PIECE] for start in range(0, part.size, _PIECE))
        return
    buffer = np.empty(min(_PIECE, part.size), np.float32)
    for start in range(0, part.size, _PIECE):
        piece = part[start : start + _PIECE]
        yield np.abs(piece, out=buffer[: piece.size])
