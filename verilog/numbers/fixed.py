"""Fixed point: integer codes of a width with a power-of-two step, and exact conversions.

Everything here is exact in int64; callers check widths against `WIDEST` first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.model.formats.integer import Integer

Codes = NDArray[np.int64]
Rounding = Literal["nearest_even", "floor"]
WIDEST = 62  # supported accumulator bits: the sum of two accumulators fits int64
EXACT = 53  # bits up to which a float64 matrix product of integers is exact


@dataclass(frozen=True, slots=True)
class Fixed:
    """Codes of `width` bits, two's complement where `signed`; a code c stands for c·2^−frac."""

    width: int
    frac: int
    signed: bool = True

    @property
    def low(self) -> int:
        """The smallest code."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """The largest code."""
        return (1 << (self.width - self.signed)) - 1

    @property
    def label(self) -> str:
        """Text such as `int 8/4` or `uint 8/4`: width and fraction bits."""
        return f"{'int' if self.signed else 'uint'} {self.width}/{self.frac}"

    def holds(self, codes: Codes) -> bool:
        """Whether all codes are within range."""
        return codes.size == 0 or (int(codes.min()) >= self.low and int(codes.max()) <= self.high)

    def values(self, codes: Codes) -> NDArray[np.float64]:
        """Decode exactly."""
        return np.ldexp(codes.astype(np.float64), -self.frac)

    def encode(self, values: NDArray[Any], rounding: Rounding = "nearest_even") -> Codes:
        """Encode real numbers as `Integer.encode`: rounded and saturated."""
        return Integer(self.width, self.frac, self.signed, rounding).encode(np.asarray(values)).codes.astype(np.int64)


def fixed_of(form: Integer) -> Fixed:
    """The fixed-point format of an `integer` format."""
    return Fixed(form.width, form.frac_width, form.signed)


def covering(low: int, high: int, frac: int) -> Fixed:
    """The narrowest format of step 2^−frac for the codes low … high."""
    signed = low < 0
    width = max(high.bit_length(), (-low - 1).bit_length() if signed else 0) + signed
    return Fixed(max(width, 1), frac, signed)


def aligned(formats: Iterable[Fixed]) -> int:
    """Fraction bits in which sums of values of all `formats` are exact."""
    return max(f.frac for f in formats)


def shifted(codes: Codes, places: int) -> Codes:
    """codes·2^places for places ≥ 0."""
    return codes << np.int64(places)


def clipped_share(fixed: Fixed, values: np.ndarray) -> float:
    """The share of real numbers that lie more than half a step outside the format's range."""
    steps = np.ldexp(values.astype(np.float64), fixed.frac)
    return float(np.mean((steps > fixed.high + 0.5) | (steps < fixed.low - 0.5)))


def requantise(codes: Codes, frac: int, to: Fixed, rounding: Rounding = "nearest_even") -> Codes:
    """Convert codes of step 2^−frac to the format `to`: rounded (ties to even, or down), then saturated."""
    drop = frac - to.frac
    if drop <= 0:
        up = min(-drop, WIDEST)
        lowest, highest = -((-to.low) >> up), to.high >> up  # range of codes that fit after the shift
        inside = np.clip(codes, lowest, highest) << np.int64(up)
        return np.where(codes < lowest, to.low, np.where(codes > highest, to.high, inside))
    drop = min(drop, WIDEST)
    whole = codes >> np.int64(drop)
    if rounding == "nearest_even":
        rest, half = codes & ((1 << drop) - 1), 1 << (drop - 1)
        whole = whole + ((rest > half) | ((rest == half) & (whole & 1 == 1)))
    return np.clip(whole, to.low, to.high)


def product(x: Codes, y: Codes, width: int, node: str) -> Codes:
    """Matrix product of integers whose sums need `width` bits: in float64 where that is exact, else in int64."""
    if width > WIDEST:
        text = f"The accumulator of {node} needs {width} bits; {WIDEST} are supported."
        raise EmitError(text, "Choose narrower formats for its data_in and weight.", node)
    if width <= EXACT:
        return np.rint(x.astype(np.float64) @ y.astype(np.float64)).astype(np.int64)
    return x @ y
