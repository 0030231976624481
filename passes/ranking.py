"""Masks of the elements with the largest magnitude (or value) across several weights, exact and without a copy.

Selection as in Floyd and Rivest (1975, Algorithm 489): a sample brackets the threshold, one pass counts the elements
below the bracket and gathers those within, a second pass writes the masks. Both work in chunks that fit the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Bits = NDArray[np.uint8]
Bracket = tuple[float, float]

_CHUNK = 1 << 16  # elements; a multiple of 8, so that the bits of a chunk start at a byte
_SAMPLE = 200_000
_SPREAD = 6.0  # standard deviations of the sampled rank on either side of it
_ALL: Bracket = (-np.inf, np.inf)


def is_finite(values: Values) -> bool:
    """Whether no value is infinite or not a number (numpy's extremes pass NaN on)."""
    return not values.size or bool(np.isfinite(values.max()) and np.isfinite(values.min()))


def keep_largest(parts: Sequence[Values], drop: int, signed: bool = False) -> list[tuple[Bits, int]]:
    """(numpy.packbits of the mask, number of zeros) per flat part.

    The mask is zero at the `drop` smallest |values| of all parts (`signed`: the smallest values); among equal ones the
    first are dropped. The values must be finite, and 0 ≤ drop ≤ their number.
    """
    limit, ties = _limit(parts, drop, signed) if drop else (-np.inf, 0)
    masks: list[tuple[Bits, int]] = []
    for part in parts:
        bits, zeros, ties = _mask(part, limit, ties, signed)
        masks.append((bits, zeros))
    return masks


def _limit(parts: Sequence[Values], drop: int, signed: bool) -> tuple[float, int]:
    """(the `drop`-th smallest magnitude, number of elements of exactly that magnitude to drop)."""
    below, inside = _count_and_gather(parts, _bracket(parts, drop, signed), signed)
    if not below < drop <= below + inside.size:
        below, inside = _count_and_gather(parts, _ALL, signed)  # the bracket missed the rank
    rank = drop - below - 1
    inside.partition(rank)
    limit = inside[rank]
    return float(limit), rank + 1 - int(np.count_nonzero(inside < limit))


def _bracket(parts: Sequence[Values], drop: int, signed: bool = False) -> Bracket:
    """Two magnitudes that very likely enclose the `drop`-th smallest."""
    total = sum(p.size for p in parts)
    if total <= _SAMPLE:
        return _ALL
    # Odd, so that the sample is not a single column of a weight with an even number of columns.
    stride = total // _SAMPLE | 1
    sample = np.concatenate([p[::stride] for p in parts])
    sample = sample if signed else np.abs(sample)
    share = drop / total
    spread = _SPREAD * (sample.size * share * (1 - share)) ** 0.5 + 2
    low, high = (int(share * sample.size + s) for s in (-spread, spread))
    ordered = np.partition(sample, (max(low, 0), min(high, sample.size - 1)))
    return (
        float(ordered[low]) if low > 0 else -np.inf,
        float(ordered[high]) if high < sample.size - 1 else np.inf,
    )


def _count_and_gather(parts: Sequence[Values], bracket: Bracket, signed: bool) -> tuple[int, Values]:
    """(number of magnitudes below the bracket, the magnitudes within it)."""
    low, high = bracket
    below, inside = 0, [np.empty(0, np.float32)]
    for chunk in (p for part in parts for p in _magnitudes(part, signed)):
        under, up_to = chunk < low, chunk <= high
        below += int(np.count_nonzero(under))
        inside.append(chunk[under ^ up_to])
    return below, np.concatenate(inside)


def _mask(part: Values, limit: float, ties: int, signed: bool) -> tuple[Bits, int, int]:
    """(mask of a part, number of its zeros, ties still to be dropped in later parts)."""
    bits, kept, at = np.empty((part.size + 7) // 8, np.uint8), 0, 0
    for chunk in _magnitudes(part, signed):
        keep = chunk >= limit
        if ties:
            first = np.flatnonzero(chunk == limit)[:ties]
            keep[first] = False
            ties -= first.size
        packed = np.packbits(keep)
        bits[at : at + packed.size] = packed
        kept, at = kept + int(np.count_nonzero(keep)), at + packed.size
    return bits, part.size - kept, ties


def _magnitudes(part: Values, signed: bool) -> Iterator[Values]:
    """|values| (`signed`: values) in chunks; the next chunk overwrites the buffer."""
    if signed:
        yield from (part[start : start + _CHUNK] for start in range(0, part.size, _CHUNK))
        return
    buffer = np.empty(min(_CHUNK, part.size), np.float32)
    for start in range(0, part.size, _CHUNK):
        chunk = part[start : start + _CHUNK]
        yield np.abs(chunk, out=buffer[: chunk.size])
