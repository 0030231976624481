"""Block minifloat: small floats with one shared exponent bias per block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from espalier.model.formats.base import BitField, whole
from espalier.model.formats.blocks import BLOCK, ROWS, Blocks, PowerBlocks
from espalier.model.formats.small_float import SmallFloat, small_float
from espalier.model.registry import FORMATS


@FORMATS.register("block_minifloat")
@dataclass(frozen=True, slots=True)
class BlockMinifloat(PowerBlocks):
    """±2^(max(c,1)−b)·((c>0) + m/2^M) with b = clip(2^E−1−floor(log2 max|x|), 0, 2^B−1) of each block.

    The block's largest magnitude lies in the top binade: the larger it is, the smaller the bias. Nearest, ties to
    an even mantissa, saturating; all codes are numbers; M = w−E−1, B = exponent_bias_width. Source: Fox et al., A
    block minifloat representation for training deep neural networks, 2021.
    """

    name: ClassVar[str] = "block_minifloat"
    title: ClassVar[str] = "Block minifloat"
    aliases: ClassVar[tuple[str, ...]] = ("bm", "LinearBlockMinifloat")
    formula: ClassVar[str] = (
        "±2^(max(c,1)−b)·((c>0) + m/2^M), b = clip(2^E−1−floor(log2 max|x|), 0, 2^B−1) of the block"
    )
    source: ClassVar[str] = "Fox et al. 2021"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 2, "max": 32})
    exponent_width: int = field(default=4, metadata={"help": "bits of an element's exponent", "min": 1, "max": 6})
    exponent_bias_width: int = field(default=8, metadata={"help": "bits of the shared bias", "min": 1, "max": 8})
    block: int = field(default=16, metadata=BLOCK)
    rows: int = field(default=1, metadata=ROWS)

    def __post_init__(self) -> None:
        whole("block_minifloat", "exponent_width", self.exponent_width, 1, 6)
        whole("block_minifloat", "width", self.width, self.exponent_width + 1, 32)
        whole("block_minifloat", "exponent_bias_width", self.exponent_bias_width, 1, 8)
        self.check_blocks("block_minifloat")

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block, self.rows)

    @property
    def grid(self) -> SmallFloat:
        """The value set for a bias of 0."""
        return small_float(self.exponent_width, self.width - self.exponent_width - 1, 0)

    def field_of(self, top: Any) -> Any:
        """The bias."""
        return (2**self.exponent_width - 1 - top).clip(0, 2**self.exponent_bias_width - 1)

    def scale_exponent(self, stored: Any) -> Any:
        """−b: a bias of b is a scale of 2^−b."""
        return -stored

    def layout(self) -> tuple[BitField, ...]:
        """Sign, exponent and mantissa, and the bias per block."""
        fields = (BitField("sign", "sign", 1), BitField("exponent", "exponent", self.exponent_width),
                  BitField("mantissa", "mantissa", self.width - self.exponent_width - 1),
                  BitField("bias", "shared", self.exponent_bias_width, self.blocks.elements))  # fmt: skip
        return tuple(f for f in fields if f.bits)

    @property
    def label(self) -> str:
        """`bm E4M3/16`; `bm E4M3 b4/16` if the shared bias has not 8 bits."""
        mantissa = self.width - self.exponent_width - 1
        bias = "" if self.exponent_bias_width == 8 else f" b{self.exponent_bias_width}"
        return f"bm E{self.exponent_width}M{mantissa}{bias}/{self.blocks.text}"
