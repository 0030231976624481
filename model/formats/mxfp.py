"""Microscaling floats of the Open Compute Project: MXFP8, MXFP6 and MXFP4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from espalier.model.errors import FormatError
from espalier.model.formats.base import BitField
from espalier.model.formats.blocks import BLOCK, ROWS, Blocks, PowerBlocks
from espalier.model.formats.small_float import SmallFloat, small_float
from espalier.model.registry import FORMATS

# Element → exponent bits, mantissa bits, reserved codes, exponent of the largest value (OCP MX 1.0, §5.3).
ELEMENTS: dict[str, tuple[int, int, str, int]] = {
    "e5m2": (5, 2, "inf", 15),
    "e4m3": (4, 3, "nan", 8),
    "e3m2": (3, 2, "none", 4),
    "e2m3": (2, 3, "none", 2),
    "e2m1": (2, 1, "none", 2),
}


@FORMATS.register("mxfp")
@dataclass(frozen=True, slots=True)
class MXFP(PowerBlocks):
    """minifloat(x·2^−e)·2^e with e = clip(floor(log2 max|x|) − emax, −127, 127) for each block.

    Nearest, ties to even, saturating; emax is the exponent of the element's largest value. The scale is E8M0: eight
    bits of exponent, bias 127. Source: OCP Microscaling Formats (MX) 1.0, §5.3 and §6.3.
    """

    name: ClassVar[str] = "mxfp"
    title: ClassVar[str] = "MXFP"
    aliases: ClassVar[tuple[str, ...]] = ("LinearMXFP",)
    formula: ClassVar[str] = "minifloat(x·2^−e)·2^e, e = floor(log2 max|x|) − emax of the block"
    source: ClassVar[str] = "OCP Microscaling Formats (MX) 1.0"

    element: Literal["e5m2", "e4m3", "e3m2", "e2m3", "e2m1"] = field(
        default="e4m3", metadata={"help": "minifloat of an element: bits of its exponent and mantissa"}
    )
    block: int = field(default=32, metadata=BLOCK)
    rows: int = field(default=1, metadata=ROWS)

    def __post_init__(self) -> None:
        if self.element not in ELEMENTS:
            raise FormatError(f"mxfp: element is {self.element!r}.", f"element must be {', '.join(ELEMENTS)}.")
        self.check_blocks("mxfp")

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """As `BlockFormat.normalise`; the element also as `E4M3`, `fp8_e4m3`, `float8_e4m3fn` or by its field
        widths."""
        parameters = PowerBlocks.normalise(values)
        if "element" not in parameters and {"exponent_width", "frac_width"} <= parameters.keys():
            parameters["element"] = f"e{parameters.pop('exponent_width')}m{parameters.pop('frac_width')}"
        if isinstance(parameters.get("element"), str):
            parameters["element"] = parameters["element"].lower().rpartition("_")[2].removesuffix("fn")
        return parameters

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block, self.rows)

    @property
    def grid(self) -> SmallFloat:
        """The value set of an element."""
        exponent, mantissa, reserved, _ = ELEMENTS[self.element]
        return small_float(exponent, mantissa, 2 ** (exponent - 1) - 1, reserved)

    def field_of(self, top: Any) -> Any:
        """The E8M0 code; 255 is NaN and unused."""
        return (top - ELEMENTS[self.element][3] + 127).clip(0, 254)

    def scale_exponent(self, stored: Any) -> Any:
        """The E8M0 code less its bias of 127."""
        return stored - 127

    def layout(self) -> tuple[BitField, ...]:
        """Sign, exponent and mantissa, and the scale per block."""
        exponent, mantissa, *_ = ELEMENTS[self.element]
        return (BitField("sign", "sign", 1), BitField("exponent", "exponent", exponent),
                BitField("mantissa", "mantissa", mantissa),
                BitField("scale", "shared", 8, self.blocks.elements))  # fmt: skip

    @property
    def label(self) -> str:
        """`mxfp e4m3/32`"""
        return f"mxfp {self.element}/{self.blocks.text}"
