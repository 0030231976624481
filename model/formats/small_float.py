"""Small floating-point numbers: the value set of minifloats and of elements of block formats.

torch functions compute in float32, or in float64 for more than 24 bits, with powers of two built from bits: on any
device results are exact in spite of inexact logarithms, intermediate overflow and flushed denormals. numpy uses
float64.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from espalier.model.formats.base import Array, Format, ascending, whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HIGHEST, LOWEST = 127, -149  # exponents of the largest and the smallest power of two that float32 holds


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """±k·2^(e−M) with e ≥ e_min and 2^M ≤ k < 2^(M+1), or e = e_min and k < 2^M (subnormal).

    The magnitude code is (e − e_min)·2^M + k, as in its bit pattern; `top` is the code of the largest.
    """

    mantissa: int
    e_min: int
    top: int

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return float(self.value(np.int64(self.top)))

    @property
    def wide(self) -> bool:
        """Whether float32 cannot hold all values."""
        return self.mantissa > 23

    def nearest(self, x: Tensor) -> Tensor:
        """`x` (of `work_tensor`) rounded to M bits, ties to even, without an upper limit."""
        step = exponent(x).clamp(min=self.e_min) - self.mantissa
        return times_power(times_power(x, -step).round(), step)

    def magnitude(self, x: Array) -> Array:
        """Magnitude codes (int64) of the values nearest to |x| (float64, finite), saturating."""
        size = np.minimum(np.abs(x), 2 * self.largest)
        e = np.maximum(exponents(size), self.e_min)
        k = np.rint(size * _powers(self.mantissa - e)).astype(np.int64)
        return np.minimum(((e - self.e_min) << self.mantissa) + k, self.top)

    def value(self, magnitude: Array | np.int64) -> Array:
        """float64 values of magnitude codes."""
        above = np.maximum((magnitude >> self.mantissa) - 1, 0)
        return (magnitude - (above << self.mantissa)) * _powers(above + self.e_min - self.mantissa)

    def values(self) -> Array:
        """All values, ascending, float32."""
        positive = self.value(np.arange(self.top + 1))
        return ascending(np.concatenate([-positive[1:], positive]))


def small_float(exponent_width: int, mantissa: int, bias: int, reserved: str = "none") -> SmallFloat:
    """The value set of a float with an implicit one and subnormals.

    `reserved`: `none`, every code is a number; `nan`, the largest is NaN; `inf`, the top exponent is infinity and NaN.
    """
    reserved_codes = {"none": 0, "nan": 1, "inf": 2**mantissa}[reserved]
    return SmallFloat(mantissa, 1 - bias, 2 ** (exponent_width + mantissa) - 1 - reserved_codes)


@dataclass(frozen=True, slots=True)
class Minifloat(Format):
    """A format whose elements are small floats without shared fields."""

    @property
    @abstractmethod
    def grid(self) -> SmallFloat:
        """The value set."""

    def define(self, x: Tensor) -> Tensor:
        """Round to the grid's mantissa, then clip."""
        grid = self.grid
        return to_dtype(grid.nearest(work_tensor(x, grid.wide)).clamp(-grid.largest, grid.largest), x.dtype)

    def inside(self, x: Tensor) -> Tensor:
        """Where the value was not clipped."""
        grid = self.grid
        return (grid.nearest(work_tensor(x, grid.wide)).abs() <= grid.largest) & x.isfinite()

    def codes(self) -> Array:
        """All finite values; raises FormatError for more than 16 bits."""
        whole(self.name, "width (to list its codes)", self.element_bits, 1, 16)
        return self.grid.values()


def work_tensor(x: Tensor, wide: bool = False) -> Tensor:
    """`x` in float32, or in float64 if x is float64 or `wide`; ±inf becomes the largest finite number of x's dtype."""
    import torch

    largest = torch.finfo(x.dtype).max
    return x.to(torch.float64 if wide or x.dtype == torch.float64 else torch.float32).clamp(-largest, largest)


def to_dtype(y: Tensor, dtype: torch.dtype) -> Tensor:
    """`y` rounded once to `dtype`; finite values stay finite."""
    import torch

    if y.dtype == dtype:
        return y
    largest = torch.finfo(dtype).max
    return y.clamp(-largest, largest).to(dtype)


def exponent(x: Tensor) -> Tensor:
    """floor(log2|x|) of finite x, exactly, int32; −1 for 0, any number for NaN."""
    import torch

    return torch.frexp(x).exponent - 1


def times_power(x: Tensor, k: Tensor) -> Tensor:
    """x·2^k for |k| ≤ 252, in two steps, as 2^k may exceed float32."""
    half = k >> 1
    return x * _power(half, x.dtype) * _power(k - half, x.dtype)


def _power(k: Tensor, dtype: torch.dtype) -> Tensor:
    import torch

    if dtype == torch.float64:
        return ((k.long() + 1023) << 52).view(dtype)
    return ((k + 127) << 23).view(dtype)


def exponents(x: Array) -> Array:
    """floor(log2|x|) of float64 numbers from their bits, int64; −1023 for 0 and subnormals."""
    return ((np.asarray(x).view(np.int64) >> 52) & 0x7FF) - 1023


def _powers(k: Array) -> Array:
    return ((k + 1023) << 52).view(np.float64)


def finite(x: Array) -> Array:
    """`x` in float64, with ±inf as the largest number of its dtype and NaN as 0."""
    return np.nan_to_num(np.asarray(x)).astype(np.float64)


def to_float32(x: Array) -> Array:
    """float64 `x` rounded to float32; finite values stay finite."""
    largest = np.finfo(np.float32).max
    return np.clip(x, -largest, largest).astype(np.float32)


def signed_code(sign: Array, magnitude: Array, bits: int) -> Array:
    """Sign-magnitude codes of `bits` bits."""
    return magnitude | (sign.astype(np.int64) << (bits - 1))


def signed_value(codes: Array, values: Array, bits: int) -> Array:
    """`values`, negative where the code's sign bit is set."""
    return np.where(codes >> (bits - 1) & 1, -values, values)
