"""Block floating point: integers with one shared exponent per block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from espalier.model.formats.base import BitField, whole
from espalier.model.formats.blocks import BLOCK, ROWS, Blocks, PowerBlocks
from espalier.model.formats.small_float import HIGHEST, SmallFloat, small_float
from espalier.model.registry import FORMATS


@FORMATS.register("block_fp")
@dataclass(frozen=True, slots=True)
class BlockFP(PowerBlocks):
    """k·2^(e−(w−2)), |k| ≤ 2^(w−1)−1 in sign and magnitude, e = floor(log2 max|x|) of each block.

    Nearest, ties to even, clipped. e is stored in E bits with a bias (default 2^(E−1)−1) and clipped to their
    range. Source: Wilkinson, Rounding errors in algebraic processes, 1963; as MSFP in Darvish Rouhani et al. 2020.
    """

    name: ClassVar[str] = "block_fp"
    title: ClassVar[str] = "Block floating point"
    aliases: ClassVar[tuple[str, ...]] = ("bfp", "LinearBlockFP")
    formula: ClassVar[str] = "clip(rne(x·2^(w−2−e)), ±(2^(w−1)−1))·2^(e−(w−2)), e = floor(log2 max|x|) of the block"
    source: ClassVar[str] = "Wilkinson 1963; Darvish Rouhani et al. 2020 (MSFP)"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 2, "max": 32})
    exponent_width: int = field(default=8, metadata={"help": "bits of the shared exponent", "min": 1, "max": 8})
    block: int = field(default=16, metadata=BLOCK)
    rows: int = field(default=1, metadata=ROWS)
    exponent_bias: int | None = field(
        default=None, metadata={"help": "bias of the shared exponent; empty for 2^(E−1)−1", "min": -126, "max": 127}
    )

    def __post_init__(self) -> None:
        whole("block_fp", "width", self.width, 2, 32)
        whole("block_fp", "exponent_width", self.exponent_width, 1, 8)
        whole("block_fp", "exponent_bias", self.bias, -126, 127)
        self.check_blocks("block_fp")

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block, self.rows)

    @property
    def grid(self) -> SmallFloat:
        """Multiples of 2^−(w−2) below 2: a float with one binade and subnormals."""
        return small_float(1, self.width - 2, 1)

    @property
    def bias(self) -> int:
        """The effective bias of the shared exponent."""
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias

    def field_of(self, top: Any) -> Any:
        """The biased exponent, limited to float32's."""
        return (top + self.bias).clip(0, min(2**self.exponent_width - 1, HIGHEST + self.bias))

    def scale_exponent(self, stored: Any) -> Any:
        """The stored exponent less the bias."""
        return stored - self.bias

    def layout(self) -> tuple[BitField, ...]:
        """Sign and mantissa, and the exponent per block."""
        return (BitField("sign", "sign", 1), BitField("mantissa", "mantissa", self.width - 1),
                BitField("exponent", "shared", self.exponent_width, self.blocks.elements))  # fmt: skip

    @property
    def label(self) -> str:
        """`bfp 8/16`; `bfp 8e4/16` if the exponent has not 8 bits; `bfp 8e4b3/16` with an explicit bias."""
        exponent = "" if self.exponent_width == 8 else f"e{self.exponent_width}"
        exponent += "" if self.exponent_bias is None else f"b{self.exponent_bias}"
        return f"bfp {self.width}{exponent}/{self.blocks.text}"
