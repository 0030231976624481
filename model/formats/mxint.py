"""Microscaling integers of the Open Compute Project: MXINT8 and other widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, whole
from espalier.model.formats.blocks import BLOCK, ROWS, Blocks, PowerBlocks
from espalier.model.formats.small_float import SmallFloat, small_float
from espalier.model.registry import FORMATS


@FORMATS.register("mxint")
@dataclass(frozen=True, slots=True)
class MXInt(PowerBlocks):
    """k·2^(e−(w−2)), |k| ≤ 2^(w−1)−1 in two's complement, e = clip(floor(log2 max|x|), −127, 127) for each block.

    Nearest, ties to even, clipped. The scale is E8M0: eight bits of exponent, bias 127. The code −2^(w−1) is left
    unused, as the specification allows. Source: OCP Microscaling Formats (MX) 1.0, §5.3.4 and §6.3.
    """

    name: ClassVar[str] = "mxint"
    title: ClassVar[str] = "MXINT"
    aliases: ClassVar[tuple[str, ...]] = ("mxint8", "mxint4", "LinearMXINT", "LinearMXInt")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"mxint8": {"width": 8}, "mxint4": {"width": 4}}
    formula: ClassVar[str] = "clip(rne(x·2^(w−2−e)), ±(2^(w−1)−1))·2^(e−(w−2)), e = floor(log2 max|x|) of the block"
    source: ClassVar[str] = "OCP Microscaling Formats (MX) 1.0"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 2, "max": 32})
    block: int = field(default=32, metadata=BLOCK)
    rows: int = field(default=1, metadata=ROWS)

    def __post_init__(self) -> None:
        whole("mxint", "width", self.width, 2, 32)
        self.check_blocks("mxint")

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """As `BlockFormat.normalise`; an explicit `exponent_width=8` is dropped."""
        parameters = PowerBlocks.normalise(values)
        if parameters.get("exponent_width") == 8:
            del parameters["exponent_width"]
        return parameters

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block, self.rows)

    @property
    def grid(self) -> SmallFloat:
        """Multiples of 2^−(w−2) below 2: a float with one binade and subnormals."""
        return small_float(1, self.width - 2, 1)

    def field_of(self, top: Any) -> Any:
        """The E8M0 code; 255 is NaN and unused."""
        return (top + 127).clip(0, 254)

    def scale_exponent(self, stored: Any) -> Any:
        """The E8M0 code less its bias of 127."""
        return stored - 127

    def layout(self) -> tuple[BitField, ...]:
        """Sign, integer bit and fraction, and the scale per block."""
        fields = (BitField("sign", "sign", 1), BitField("integer", "integer", 1),
                  BitField("fraction", "fraction", self.width - 2),
                  BitField("scale", "shared", 8, self.blocks.elements))  # fmt: skip
        return tuple(f for f in fields if f.bits)

    @property
    def label(self) -> str:
        """`mxint8/32`"""
        return f"mxint{self.width}/{self.blocks.text}"

    def _code(self, sign: Array, magnitude: Array) -> Array:
        return np.where(sign, -magnitude, magnitude)

    def _value(self, codes: Array) -> Array:
        return np.ldexp(codes.astype(np.float64), 2 - self.width)
