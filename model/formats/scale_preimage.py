"""Values that reproduce the scale of a scaled integer, which decoded values may miss by rounding.

Only range ends are moved, within the values of the same code; without such values the decoded ones are returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.model.formats.base import Array
from espalier.model.formats.half_range_ends import ends, rounded
from espalier.model.formats.stored_scale import ScaleType, array_scale

Rows = NDArray[np.int64] | slice

_ODD = range(-15, 16, 2)
_STEPS = (0, -1, 1, -2, 2, -3, 3)  # offsets of candidates for a range end, in float32 numbers


def symmetric_source(codes: Array, s: Array, top: int, dtype: ScaleType, value_dtype: str = "float32") -> Array:
    """Values (groups, elements) in `value_dtype` of codes in ±top with scales s (groups, 1), such that
    max|x|/top = s."""
    size = np.abs(codes).max(-1, keepdims=True)

    def reproduces(value: Array, rows: Rows = slice(None)) -> Array:
        same_scale = array_scale((value.astype(np.float64) / top).astype(np.float32), dtype) == s[rows]
        return same_scale & (np.clip(np.rint(value / s[rows]), 0, top) == size[rows])

    end = size.astype(np.float32) * s
    if value_dtype != "float32":
        _, end = ends(
            np.zeros_like(size),
            size,
            s,
            top,
            value_dtype,
            _below(s, dtype),
            lambda rows, _, most: reproduces(most, rows),
        )
    pending = ~reproduces(end)
    for candidate in (
        _end_candidates(s * np.float64(top), size * np.float64(s), s, dtype, top)
        if pending.any() and value_dtype == "float32"
        else ()
    ):
        good = pending & reproduces(candidate)
        end, pending = np.where(good, candidate, end), pending & ~good
    values = codes.astype(np.float32) * s
    return np.asarray(np.where(np.abs(codes) == size, np.sign(codes) * end, values), np.float32)


def affine_source(
    codes: Array, s: Array, zero: Array, top: int, dtype: ScaleType, value_dtype: str = "float32"
) -> Array:
    """As `symmetric_source`, for codes 0…top with zero points (groups, 1), such that (max − min)/top = s."""
    steps = codes.astype(np.int64) - zero.astype(np.int64)
    low, high = steps.min(-1, keepdims=True), steps.max(-1, keepdims=True)
    affine = Affine(s, zero, low, high, top, dtype)
    values = steps.astype(np.float32) * s
    if value_dtype != "float32":
        next_low = rounded(np.where(steps > low, steps, high).min(-1, keepdims=True) * np.float64(s), value_dtype)
        next_high = rounded(np.where(steps < high, steps, low).max(-1, keepdims=True) * np.float64(s), value_dtype)

        def same_scale(rows: Rows, minimum: Array, maximum: Array) -> Array:
            """Where values between these ends reproduce the scale."""
            outside = (minimum <= next_low[rows]) & (maximum >= next_high[rows])
            return outside & affine.reproduces_rows(rows, minimum, maximum)

        minimum, maximum = ends(low, high, s, top, value_dtype, _below(s, dtype), same_scale)
        values = np.where((steps == high) & (high >= 0), maximum, values)
        return np.asarray(np.where((steps == low) & (low <= 0), minimum, values), np.float32)
    minimum, maximum = low.astype(np.float32) * s, high.astype(np.float32) * s
    first, last, pending = minimum, maximum, ~affine.reproduces(minimum, maximum)
    for start in (*_neighbours(first), *_around_step(low, s)) if pending.any() else ():
        start = np.where(low < 0, start, first)
        for end in (
            *_end_candidates(np.minimum(start, 0) + s * np.float64(top), None, s, dtype, top),
            *_around_step(high, s),
        ):
            end = np.where(high > 0, end, last)
            good = pending & affine.reproduces(start, end)
            minimum, maximum, pending = np.where(good, start, minimum), np.where(good, end, maximum), pending & ~good
    values = np.where((steps == high) & (high > 0), maximum, values)
    return np.asarray(np.where((steps == low) & (low < 0), minimum, values), np.float32)


@dataclass(frozen=True, slots=True)
class Affine:
    """Scales and zero points of groups, with the smallest and largest code − zero of each."""

    s: Array
    zero: Array
    low: Array
    high: Array
    top: int
    dtype: ScaleType

    def reproduces(self, minimum: Array, maximum: Array) -> Array:
        """Where the smallest and largest value reproduce the scale, the zero point and their codes."""
        start, end = np.minimum(minimum, np.float32(0)), np.maximum(maximum, np.float32(0))
        same_scale = array_scale(((end.astype(np.float64) - start) / self.top).astype(np.float32), self.dtype) == self.s
        point = np.clip(np.rint(-start / self.s), 0, self.top) == self.zero
        return same_scale & point & self._code(minimum, self.low) & self._code(maximum, self.high)

    def reproduces_rows(self, rows: Rows, minimum: Array, maximum: Array) -> Array:
        """`reproduces` for some of the groups."""
        part = Affine(self.s[rows], self.zero[rows], self.low[rows], self.high[rows], self.top, self.dtype)
        return part.reproduces(minimum, maximum)

    def _code(self, value: Array, step: Array) -> Array:
        return np.clip(np.rint(value / self.s) + self.zero, 0, self.top) - self.zero == step


def _below(s: Array, dtype: ScaleType) -> Array:
    """The next smaller storable scale, float64; values between it and s are rounded up to s."""
    if dtype == "float32":
        return np.nextafter(s, np.float32(0)).astype(np.float64)
    return rounded(s, dtype, -1).astype(np.float64)


def _around_step(step: Array, s: Array) -> list[Array]:
    """Values that round to a step, including ones close to its boundaries."""
    edges = [sign * (0.5 - 2.0**-k) for k in range(6, 20, 2) for sign in (-1, 1)]
    return [np.asarray((step + fraction) * np.float64(s), np.float32) for fraction in (*(i / 32 for i in _ODD), *edges)]


def _neighbours(values: Array) -> list[Array]:
    """float32 numbers around `values`, the nearest first."""
    candidates = []
    for step in _STEPS:
        moved = np.asarray(values, np.float32)
        for _ in range(abs(step)):
            moved = np.nextafter(moved, np.float32(np.inf if step > 0 else -np.inf))
        candidates.append(moved)
    return candidates


def _end_candidates(exact: Array, code_value: Array | None, s: Array, dtype: ScaleType, top: int) -> list[Array]:
    """Candidates for a range end: around the exact one, and for scales between the next smaller one and s.

    `code_value`: the value of the end's code; candidates stay within half a step of it.
    """
    candidates = _neighbours(exact)
    if dtype == "float32":
        return candidates
    width = s * np.float64(top) * (2.0**-8 if dtype == "bfloat16" else 2.0**-11)
    between = [exact - width * fraction for fraction in (0.25, 0.5, 0.75)]
    inside = (
        []
        if code_value is None
        else [np.clip(v, code_value - 0.49 * s, code_value + 0.49 * s) for v in (exact, between[1])]
    )
    return [*candidates, *(np.asarray(v, np.float32) for v in (*between, *inside))]
