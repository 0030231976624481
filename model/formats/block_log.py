"""Block log: powers of two with one shared exponent bias per block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, Shared, ascending, whole
from espalier.model.formats.blocks import BLOCK, ROWS, BlockFormat, Blocks
from espalier.model.formats.log import nearest_power, nearest_powers, power_codes, power_values, powers
from espalier.model.formats.small_float import HIGHEST, LOWEST, finite, signed_code, signed_value, to_float32
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor


@FORMATS.register("block_log")
@dataclass(frozen=True, slots=True)
class BlockLog(BlockFormat):
    """±2^(c−b), c = 1 … 2^E−1, E = w−1, with b = clip(2^E−1−round(log2 max|x|), 0, 2^B−1) of each block.

    The block's largest magnitude gets the top code, unclipped. Otherwise as `log`: the nearest in the log
    domain, c = 0 exactly 0, nothing beyond float32. B = exponent_bias_width. Source: Miyashita, Lee and Murmann
    2016, with the shared bias of Fox et al. 2021.
    """

    name: ClassVar[str] = "block_log"
    title: ClassVar[str] = "Block logarithmic"
    aliases: ClassVar[tuple[str, ...]] = ("LinearBlockLog",)
    formula: ClassVar[str] = "±2^round(log2|x|), exponents 1−b … 2^E−1−b, b = clip(2^E−1−round(log2 max|x|), 0, 2^B−1)"
    source: ClassVar[str] = "Miyashita, Lee and Murmann 2016; Fox et al. 2021"

    width: int = field(default=8, metadata={"help": "bits of an element", "min": 2, "max": 32})
    exponent_bias_width: int = field(default=8, metadata={"help": "bits of the shared bias", "min": 1, "max": 8})
    block: int = field(default=16, metadata=BLOCK)
    rows: int = field(default=1, metadata=ROWS)

    def __post_init__(self) -> None:
        whole("block_log", "width", self.width, 2, 32)
        whole("block_log", "exponent_bias_width", self.exponent_bias_width, 1, 8)
        self.check_blocks("block_log")

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block, self.rows)

    @property
    def wide(self) -> bool:
        """False: a power of two has one significant bit."""
        return False

    @property
    def top_code(self) -> int:
        """The largest exponent code."""
        return 2 ** (self.width - 1) - 1

    def layout(self) -> tuple[BitField, ...]:
        """Sign and exponent, and the bias per block."""
        return (BitField("sign", "sign", 1), BitField("exponent", "exponent", self.width - 1),
                BitField("bias", "shared", self.exponent_bias_width, self.blocks.elements))  # fmt: skip

    @property
    def label(self) -> str:
        """`blog 8/16`; `blog 8 b4/16` if the shared bias has not 8 bits."""
        bias = "" if self.exponent_bias_width == 8 else f" b{self.exponent_bias_width}"
        return f"blog {self.width}{bias}/{self.blocks.text}"

    def in_blocks(self, x: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
        """Powers of two with the block's bias."""
        # int64, since top_code − exponent can exceed int32 for 31-bit codes.
        bias = (self.top_code - nearest_power(top).long()).clip(0, 2**self.exponent_bias_width - 1)
        low, high = (1 - bias).clip(min=LOWEST), (self.top_code - bias).clip(max=HIGHEST)
        return powers(x, low.int(), high.int())

    def encode(self, x: Array) -> Encoded:
        """Sign-magnitude codes and one bias per block."""
        blocks = self.blocks.split(finite(x))
        top = nearest_powers(np.abs(blocks).max((-2, -1), initial=0.0))
        stored = np.clip(self.top_code - top, 0, 2**self.exponent_bias_width - 1)
        bias = stored[..., None, None]
        low, high = np.maximum(1 - bias, LOWEST), np.minimum(self.top_code - bias, HIGHEST)
        magnitudes = self.blocks.merge(power_codes(blocks, bias, low, high), np.shape(x))
        codes = signed_code(np.signbit(np.asarray(x)), magnitudes, self.width)
        return Encoded(codes, (Shared("bias", stored, self.exponent_bias_width),))

    def decode(self, encoded: Encoded) -> Array:
        """Values of codes with the bias of their block."""
        codes = self.blocks.split(np.asarray(encoded.codes))
        values = power_values(codes & self.top_code, encoded.shared[0].values[..., None, None])
        return to_float32(self.blocks.merge(signed_value(codes, values, self.width), np.shape(encoded.codes)))

    def codes(self) -> Array:
        """All values for a bias of 0 within float32."""
        whole("block_log", "width (to list its codes)", self.width, 1, 16)
        positive = np.ldexp(1.0, np.arange(1, min(self.top_code, HIGHEST) + 1))
        return ascending(np.concatenate([-positive, [0.0], positive]))
