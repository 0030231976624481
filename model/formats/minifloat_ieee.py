"""IEEE 754 minifloats: implicit one, subnormals, and rounding that carries into the next binade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, whole
from espalier.model.formats.small_float import (
    HIGHEST,
    Minifloat,
    SmallFloat,
    finite,
    signed_code,
    signed_value,
    small_float,
    to_float32,
)
from espalier.model.registry import FORMATS

RESERVED = ("none", "nan", "inf")


@FORMATS.register("minifloat_ieee")
@dataclass(frozen=True, slots=True)
class MinifloatIEEE(Minifloat):
    """±2^(max(c,1)−b)·((c>0) + m/2^M) with M = w−E−1: nearest, ties to an even mantissa, saturating.

    b is 2^(E−1)−1 unless given. reserved: `none`, all codes are numbers, largest 2^(2^E−1−b)·(2−2^−M); `nan`, the
    largest code is NaN (OCP E4M3: 448); `inf`, the top exponent is infinity and NaN (E5M2: 57344). With M = 0 a tie
    goes to the larger, as IEEE 754-2019 §4.3.1 has it for one digit. Sources: IEEE 754-2019; OCP 8-bit floating
    point 1.0.
    """

    name: ClassVar[str] = "minifloat_ieee"
    title: ClassVar[str] = "Minifloat (IEEE)"
    aliases: ClassVar[tuple[str, ...]] = ("minifloat", "LinearMinifloatIEEE")
    formula: ClassVar[str] = "±2^(max(c,1)−b)·((c>0) + m/2^M), c the exponent code of E bits, M = w−E−1"
    source: ClassVar[str] = "IEEE 754-2019; OCP 8-bit floating point 1.0"
    shift: ClassVar[str | None] = "exponent_bias"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 2, "max": 32})
    exponent_width: int = field(default=4, metadata={"help": "bits of the exponent", "min": 1, "max": 8})
    exponent_bias: int | None = field(
        default=None, metadata={"help": "bias of the exponent; empty for 2^(E−1)−1", "min": -126, "max": 150}
    )
    reserved: Literal["none", "nan", "inf"] = field(
        default="none", metadata={"help": "codes kept for NaN (the largest), or for infinity and NaN (a binade)"}
    )

    def __post_init__(self) -> None:
        if self.reserved not in RESERVED:
            raise FormatError(
                f"minifloat_ieee: reserved is {self.reserved!r}.", f"reserved must be {', '.join(RESERVED)}."
            )
        whole("minifloat_ieee", "exponent_width", self.exponent_width, 1 if self.reserved == "none" else 2, 8)
        whole("minifloat_ieee", "width", self.width, self.exponent_width + 1, 32)
        if self.exponent_width == 8 and self.exponent_bias is None and self.reserved != "inf":
            raise FormatError("minifloat_ieee: with an exponent_width of 8 the top binade lies beyond float32.",
                              "Set reserved to inf, or exponent_bias to 128 or more.")  # fmt: skip
        # The top binade must lie within float32, and so must the smallest step.
        top = 2**self.exponent_width - (2 if self.reserved == "inf" else 1)
        whole("minifloat_ieee", "exponent_bias", self.bias, top - HIGHEST, 150 - self.mantissa_width)

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Restore reserved=`none`, which the format's text parses as None."""
        parameters = dict(values)
        if parameters.get("reserved", "") is None:
            parameters["reserved"] = "none"
        return parameters

    @property
    def mantissa_width(self) -> int:
        """Stored bits of the mantissa."""
        return self.width - self.exponent_width - 1

    @property
    def bias(self) -> int:
        """The effective exponent bias."""
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias

    @property
    def grid(self) -> SmallFloat:
        """The value set."""
        return small_float(self.exponent_width, self.mantissa_width, self.bias, self.reserved)

    def layout(self) -> tuple[BitField, ...]:
        """Sign, exponent, mantissa."""
        fields = (BitField("sign", "sign", 1), BitField("exponent", "exponent", self.exponent_width),
                  BitField("mantissa", "mantissa", self.mantissa_width))  # fmt: skip
        return tuple(f for f in fields if f.bits)

    @property
    def label(self) -> str:
        """`E4M3`, `E4M3 nan`, with an explicit bias `E4M3 b15`."""
        bias = "" if self.exponent_bias is None else f" b{self.exponent_bias}"
        reserved = "" if self.reserved == "none" else f" {self.reserved}"
        return f"E{self.exponent_width}M{self.mantissa_width}{bias}{reserved}"

    def encode(self, x: Array) -> Encoded:
        """The bit patterns; NaN has a code if one is reserved, otherwise 0."""
        magnitude = self.grid.magnitude(finite(x))
        if self.reserved != "none":
            magnitude = np.where(np.isnan(x), 2 ** (self.width - 1) - 1, magnitude)
        return Encoded(signed_code(np.signbit(x), magnitude, self.width))

    def decode(self, encoded: Encoded) -> Array:
        """Values of bit patterns; reserved patterns are NaN and infinity."""
        codes, grid = np.asarray(encoded.codes), self.grid
        magnitude = codes & (2 ** (self.width - 1) - 1)
        values = to_float32(grid.value(np.minimum(magnitude, grid.top)))
        infinite = (magnitude == grid.top + 1) & (self.reserved == "inf")
        values = np.where(magnitude > grid.top, np.where(infinite, np.inf, np.nan), values)
        return signed_value(codes, values, self.width).astype(np.float32)
