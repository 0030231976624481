"""Logarithmic format: signed powers of two, with which a product is a shift."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, Format, ascending, whole
from espalier.model.formats.small_float import (
    HIGHEST,
    LOWEST,
    finite,
    signed_code,
    signed_value,
    times_power,
    to_dtype,
    to_float32,
    work_tensor,
)
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

# The largest float64 below the root of ½; rounded to float32 it is the largest float32 below it. No float equals the
# root.
ROOT = 0.7071067811865475


@FORMATS.register("log")
@dataclass(frozen=True, slots=True)
class Log(Format):
    """±2^(c−b), c = 1 … 2^(w−1)−1, the nearest in the log domain; c = 0 is exactly 0, saturating.

    Between 2^e and 2^(e+1) the threshold is 2^(e+½); below 2^(½−b) the value is 0, so that pruned weights stay 0. b is
    2^(w−2)−1 unless given; exponents beyond float32 (−149 … 127) are not used. Source: Miyashita, Lee and Murmann,
    Convolutional neural networks using logarithmic data representation, 2016.
    """

    name: ClassVar[str] = "log"
    title: ClassVar[str] = "Logarithmic"
    aliases: ClassVar[tuple[str, ...]] = ("LinearLog",)
    formula: ClassVar[str] = "±2^round(log2|x|), exponents 1−b … 2^(w−1)−1−b; 0 below 2^(½−b)"
    source: ClassVar[str] = "Miyashita, Lee and Murmann 2016"
    shift: ClassVar[str | None] = "exponent_bias"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 2, "max": 32})
    exponent_bias: int | None = field(
        default=None, metadata={"help": "bias of the exponent; empty for 2^(w−2)−1", "min": -126}
    )

    def __post_init__(self) -> None:
        whole("log", "width", self.width, 2, 32)
        # At least one power must lie within float32.
        whole("log", "exponent_bias", self.bias, 1 - HIGHEST, 2 ** (self.width - 1) - 1 - LOWEST)

    @property
    def bias(self) -> int:
        """The effective exponent bias."""
        return 2 ** (self.width - 2) - 1 if self.exponent_bias is None else self.exponent_bias

    def layout(self) -> tuple[BitField, ...]:
        """Sign and exponent."""
        return BitField("sign", "sign", 1), BitField("exponent", "exponent", self.width - 1)

    @property
    def label(self) -> str:
        """`log 8`, with an explicit bias `log 8 b15`."""
        return f"log {self.width}" + ("" if self.exponent_bias is None else f" b{self.exponent_bias}")

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest exponent used."""
        return max(1 - self.bias, LOWEST), min(2 ** (self.width - 1) - 1 - self.bias, HIGHEST)

    def define(self, x: Tensor) -> Tensor:
        """The nearest power of two, or zero."""
        return to_dtype(powers(work_tensor(x), *self.limits)[0], x.dtype)

    def inside(self, x: Tensor) -> Tensor:
        """Where the exponent is not clipped from above; values that become 0 count as inside."""
        return powers(work_tensor(x), *self.limits)[1] & x.isfinite()

    def encode(self, x: Array) -> Encoded:
        """Sign and exponent code."""
        return Encoded(signed_code(np.signbit(x), power_codes(finite(x), self.bias, *self.limits), self.width))

    def decode(self, encoded: Encoded) -> Array:
        """Values of codes."""
        codes = np.asarray(encoded.codes)
        values = power_values(codes & (2 ** (self.width - 1) - 1), self.bias)
        return to_float32(signed_value(codes, values, self.width))

    def codes(self) -> Array:
        """All values within float32."""
        whole("log", "width (to list its codes)", self.width, 1, 16)
        low, high = self.limits
        positive = np.ldexp(1.0, np.arange(low, high + 1))
        return ascending(np.concatenate([-positive, [0.0], positive]))


def powers(x: Tensor, low: Tensor | int, high: Tensor | int) -> tuple[Tensor, Tensor]:
    """(±2^e nearest to `x` (of `work_tensor`) with low ≤ e ≤ high, 0 below; bool mask of unclipped e)."""
    import torch

    e = nearest_power(x)
    value = times_power(torch.ones_like(x), e.clamp(min=low).clamp(max=high))
    value = torch.where((e < low) | (x == 0), 0.0, value).copysign(x)
    return torch.where(x.isnan(), x, value), (e <= high) | (x == 0)


def nearest_power(x: Tensor) -> Tensor:
    """round(log2|x|), exactly, int32; −1 for 0."""
    import torch

    mantissa, e = torch.frexp(x.abs())
    return e - 1 + (mantissa > ROOT)


def nearest_powers(x: Array) -> Array:
    """As `nearest_power`, for a float64 array; int64."""
    mantissa, e = np.frexp(np.abs(x))
    return e.astype(np.int64) - 1 + (mantissa > ROOT)


def power_codes(x: Array, bias: Any, low: Any, high: Any) -> Array:
    """Exponent codes of `x` (float64): e + bias, 0 for zero."""
    e = nearest_powers(x)
    return np.where((e < low) | (x == 0), 0, np.minimum(e, high) + bias)


def power_values(codes: Array, bias: Any) -> Array:
    """float64 values of exponent codes, within float32's range."""
    return np.where(codes == 0, 0.0, np.ldexp(1.0, np.clip(codes - bias, LOWEST, HIGHEST)))
