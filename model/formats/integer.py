"""Fixed point: an integer code times a power of two; `integer` in the MASE labs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, Format, whole
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@FORMATS.register("integer")
@dataclass(frozen=True, slots=True)
class Integer(Format):
    """clip(round(x·2^f), lo, hi)·2^−f with lo = −2^(w−1), hi = 2^(w−1)−1 (unsigned: 0 … 2^w−1).

    `frac_width` may be negative or exceed `width`. Rounding: to nearest, ties to even, or down.
    Source: the Q format of fixed-point arithmetic (e.g. Texas Instruments SPRU352).
    """

    name: ClassVar[str] = "integer"
    title: ClassVar[str] = "Integer (fixed point)"
    aliases: ClassVar[tuple[str, ...]] = ("fixed", "fixed_point", "integer_floor", "LinearInteger")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"integer_floor": {"rounding": "floor"}}
    formula: ClassVar[str] = "clip(round(x·2^f), −2^(w−1), 2^(w−1)−1)·2^−f"
    source: ClassVar[str] = "Q format (Texas Instruments SPRU352)"
    shift: ClassVar[str | None] = "frac_width"

    width: int = 8
    frac_width: int = 4
    signed: bool = True
    rounding: Literal["nearest_even", "floor"] = "nearest_even"

    def __post_init__(self) -> None:
        whole("integer", "width", self.width, 1, 32)
        whole("integer", "frac_width", self.frac_width, -32, 64)
        if not isinstance(self.signed, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise FormatError(f"integer: signed is {self.signed!r}.", "signed must be true or false.")
        if self.rounding not in ("nearest_even", "floor"):
            raise FormatError(f"integer: rounding is {self.rounding!r}.", "rounding must be nearest_even or floor.")

    def layout(self) -> tuple[BitField, ...]:
        """Sign, integer and fraction bits; the scale is a parameter of the format and is not stored."""
        fraction = min(max(self.frac_width, 0), self.width - self.signed)
        integer_bits = self.width - self.signed - fraction
        fields = (BitField("sign", "sign", int(self.signed)),
                  BitField("integer", "integer", integer_bits, places=integer_bits + max(-self.frac_width, 0)),
                  BitField("fraction", "fraction", fraction, places=self.frac_width))  # fmt: skip
        return tuple(f for f in fields if f.bits)

    @property
    def label(self) -> str:
        """`int 8/4`, unsigned `uint 8/4`."""
        return f"{'int' if self.signed else 'uint'} {self.width}/{self.frac_width}"

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest code."""
        if self.signed:
            return -(2 ** (self.width - 1)), 2 ** (self.width - 1) - 1
        return 0, 2**self.width - 1

    def define(self, x: Tensor) -> Tensor:
        """The value of `x`, computed in at least float32 and rounded to x's dtype."""
        import torch

        lo, hi = self._limits_in(x.dtype)
        return torch.ldexp(self._rounded(x).clamp(lo, hi), torch.tensor(-self.frac_width, device=x.device)).to(x.dtype)

    def inside(self, x: Tensor) -> Tensor:
        """Where the code is not clipped."""
        rounded = self._rounded(x)
        lo, hi = self.limits
        return (rounded >= lo) & (rounded <= hi)

    def _rounded(self, x: Tensor) -> Tensor:
        """round(x·2^f), not clipped."""
        import torch

        # 25 bits and more do not fit a float32 mantissa: the clip limits would round up and out of range.
        work = x.to(torch.float64 if self.width > 24 or x.dtype == torch.float64 else torch.float32)
        scaled = torch.ldexp(work, torch.tensor(self.frac_width, device=x.device))
        return torch.floor(scaled) if self.rounding == "floor" else torch.round(scaled)

    def _limits_in(self, dtype: torch.dtype) -> tuple[int, int]:
        """The limits, reduced where their values would be infinite in `dtype` (float16 ends at 65504)."""
        import torch

        lo, hi = self.limits
        if dtype != torch.float16:
            return lo, hi
        largest_code = math.floor(math.ldexp(torch.finfo(dtype).max, self.frac_width))
        return max(lo, -largest_code), min(hi, largest_code)

    def encode(self, x: Array) -> Encoded:
        """Two's complement codes."""
        scaled = np.ldexp(np.asarray(x, dtype=np.float64), self.frac_width)
        rounded = np.floor(scaled) if self.rounding == "floor" else np.rint(scaled)
        return Encoded(np.clip(rounded, *self.limits).astype(np.int64))

    def decode(self, encoded: Encoded) -> Array:
        """code·2^−f."""
        return np.ldexp(np.asarray(encoded.codes, dtype=np.float64), -self.frac_width).astype(np.float32)

    def codes(self) -> Array:
        """All 2^w values; raises FormatError for more than 16 bits."""
        whole("integer", "width (to list its codes)", self.width, 1, 16)
        lo, hi = self.limits
        return self.decode(Encoded(np.arange(lo, hi + 1)))
