"""Denormalised minifloat: small floats without an implicit one; `minifloat_denorm` in the MASE labs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, whole
from espalier.model.formats.small_float import (
    HIGHEST,
    Minifloat,
    SmallFloat,
    finite,
    signed_code,
    signed_value,
    to_float32,
)
from espalier.model.registry import FORMATS


@FORMATS.register("minifloat_denorm")
@dataclass(frozen=True, slots=True)
class MinifloatDenorm(Minifloat):
    """±2^e·k/2^M with −b ≤ e ≤ 2^E−1−b, 0 ≤ k < 2^M and M = w−E−1: the nearest, ties to even k, saturating.

    b is 2^(E−1)−1 unless given. A value with k < 2^(M−1) has a second code with a smaller exponent, so one bit of
    the mantissa is lost compared with an implicit one. The code of the smallest exponent is used, and ties are
    decided by its k. With M = 1 a tie goes to the larger. Source: unnormalised floating point (Ashenhurst and
    Metropolis 1959), as in the MASE labs.
    """

    name: ClassVar[str] = "minifloat_denorm"
    title: ClassVar[str] = "Minifloat (denormalised)"
    aliases: ClassVar[tuple[str, ...]] = ("LinearMinifloatDenorm",)
    formula: ClassVar[str] = "±2^e·k/2^M, −b ≤ e ≤ 2^E−1−b, 0 ≤ k < 2^M, M = w−E−1"
    source: ClassVar[str] = "unnormalised floating point (Ashenhurst and Metropolis 1959)"
    shift: ClassVar[str | None] = "exponent_bias"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 3, "max": 32})
    exponent_width: int = field(default=4, metadata={"help": "bits of the exponent", "min": 1, "max": 8})
    exponent_bias: int | None = field(
        default=None, metadata={"help": "bias of the exponent; empty for 2^(E−1)−1", "min": -127, "max": 148}
    )

    def __post_init__(self) -> None:
        whole("minifloat_denorm", "exponent_width", self.exponent_width, 1, 8)
        whole("minifloat_denorm", "width", self.width, self.exponent_width + 2, 32)
        # The top binade must lie within float32, and so must the smallest step.
        top = 2**self.exponent_width - 2
        whole("minifloat_denorm", "exponent_bias", self.bias, top - HIGHEST, 149 - self.mantissa_width)

    @property
    def mantissa_width(self) -> int:
        """Bits of k."""
        return self.width - self.exponent_width - 1

    @property
    def bias(self) -> int:
        """The effective exponent bias."""
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias

    @property
    def grid(self) -> SmallFloat:
        """The value set: M significant bits are a leading one and M−1 more."""
        half = 2 ** (self.mantissa_width - 1)
        return SmallFloat(self.mantissa_width - 1, -self.bias - 1, (2**self.exponent_width + 1) * half - 1)

    def layout(self) -> tuple[BitField, ...]:
        """Sign, exponent, mantissa."""
        return (BitField("sign", "sign", 1), BitField("exponent", "exponent", self.exponent_width),
                BitField("mantissa", "mantissa", self.mantissa_width))  # fmt: skip

    @property
    def label(self) -> str:
        """`dn E4M3`, with an explicit bias `dn E4M3 b15`."""
        bias = "" if self.exponent_bias is None else f" b{self.exponent_bias}"
        return f"dn E{self.exponent_width}M{self.mantissa_width}{bias}"

    def encode(self, x: Array) -> Encoded:
        """Sign, exponent field, k."""
        magnitude, m = self.grid.magnitude(finite(x)), self.mantissa_width
        above = np.maximum((magnitude >> (m - 1)) - 1, 0)
        k = magnitude - (above << (m - 1))
        return Encoded(signed_code(np.signbit(x), (above << m) | k, self.width))

    def decode(self, encoded: Encoded) -> Array:
        """Values of all codes, including second codes of a value."""
        codes, m = np.asarray(encoded.codes), self.mantissa_width
        e = (codes >> m & (2**self.exponent_width - 1)) - self.bias
        values = np.ldexp((codes & (2**m - 1)).astype(np.float64), e - m)
        return to_float32(signed_value(codes, values, self.width))
