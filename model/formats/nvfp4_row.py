"""NVFP4 with a scale of each row in place of the tensor's, so that rows do not depend on one another."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, Shared
from espalier.model.formats.blocks import BLOCK, BlockFormat, Blocks
from espalier.model.formats.nvfp4 import ELEMENT, NVFP4, SCALE, TINY
from espalier.model.formats.small_float import finite, signed_code, signed_value, to_float32
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor


@FORMATS.register("nvfp4_row")
@dataclass(frozen=True, slots=True)
class NVFP4Row(BlockFormat):
    """As `nvfp4`, with s = max(max|x|/(6·448), 2^−126) of each row along the last axis.

    A row of a cache is an entry: each is rounded as `nvfp4` rounds a tensor that holds this entry alone.
    """

    name: ClassVar[str] = "nvfp4_row"
    title: ClassVar[str] = "NVFP4 by row"
    formula: ClassVar[str] = "E2M1(x/(d·s))·d·s, s = max|x|/(6·448) of the row, d = E4M3(max|x|/(6·s)) of the block"
    source: ClassVar[str] = "NVIDIA, Pretraining large language models with NVFP4, 2025, for each row"

    block: int = field(default=16, metadata=BLOCK)

    def __post_init__(self) -> None:
        self.check_blocks("nvfp4_row")

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block)

    @property
    def wide(self) -> bool:
        """False: the format is defined in float32."""
        return False

    def layout(self) -> tuple[BitField, ...]:
        """Sign, exponent and mantissa, the scale per block and the scale per row."""
        return (BitField("sign", "sign", 1), BitField("exponent", "exponent", 2), BitField("mantissa", "mantissa", 1),
                BitField("scale", "shared", 8, self.block), BitField("row scale", "shared", 32, 0))  # fmt: skip

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Elements, scales of blocks and scales of rows."""
        counts = self.blocks.counts(shape)
        return math.prod(shape) * 4 + math.prod(counts) * 8 + math.prod(counts[:-1]) * 32

    @property
    def label(self) -> str:
        """`nvfp4/16 row`"""
        return f"nvfp4/{self.block} row"

    def in_blocks(self, x: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
        """Round with the scales of row and block, in float32."""
        import torch

        largest = torch.finfo(torch.float32).max
        narrow, top = x.clamp(-largest, largest).float(), top.clamp(max=largest).float()
        s = (_largest_of_row(top) / (6 * 448)).clamp(min=TINY)
        t = SCALE.nearest(top / (6 * s)).clamp(max=SCALE.largest) * s
        rounded = ELEMENT.nearest(narrow / torch.where(t == 0, 1.0, t))
        value = (rounded.clamp(-ELEMENT.largest, ELEMENT.largest) * t).clamp(-largest, largest)
        return value.to(x.dtype), rounded.abs() <= ELEMENT.largest

    def encode(self, x: Array) -> Encoded:
        """Sign-magnitude codes, E4M3 codes of the block scales and bit patterns of the row scales."""
        blocks = self.blocks.split(to_float32(finite(x)))
        top = np.abs(blocks).max((-2, -1), initial=np.float32(0))
        s = np.maximum(top.max(-1, initial=np.float32(0)) / np.float32(6 * 448), np.float32(TINY))
        scales = SCALE.magnitude((top / (np.float32(6) * s[..., None])).astype(np.float64))
        t = _scale(scales, s)
        magnitude = ELEMENT.magnitude((blocks / np.where(t == 0, np.float32(1), t)).astype(np.float64))
        codes = signed_code(np.signbit(np.asarray(x)), self.blocks.merge(magnitude, np.shape(x)), 4)
        patterns = np.ascontiguousarray(s, np.float32).view(np.uint32).astype(np.int64)
        return Encoded(codes, (Shared("scale", scales, 8), Shared("row scale", patterns, 32)))

    def decode(self, encoded: Encoded) -> Array:
        """Element times both scales."""
        scales, patterns = (np.asarray(s.values) for s in encoded.shared)
        codes = self.blocks.split(np.asarray(encoded.codes))
        elements = signed_value(codes, ELEMENT.value(codes & 7), 4).astype(np.float32)
        t = _scale(scales, _floats(patterns))
        return to_float32(self.blocks.merge(elements.astype(np.float64) * t, np.shape(encoded.codes)))

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """As of `nvfp4`, row by row."""
        codes = np.asarray(encoded.codes)
        if not codes.size:
            return self.decode(encoded)
        scales, patterns = (np.asarray(s.values) for s in encoded.shared)
        rows = codes.reshape(-1, codes.shape[-1] if codes.ndim else 1)
        each = scales.reshape(len(rows), 1, -1), patterns.reshape(-1)
        whole = NVFP4(self.block)
        found = [
            whole.preimage(Encoded(row[None], (Shared("scale", s, 8), Shared("tensor scale", p[None], 32))), dtype)
            for row, s, p in zip(rows, *each, strict=True)
        ]
        return np.concatenate(found).reshape(codes.shape)

    def codes(self) -> Array:
        """The values of E2M1."""
        return ELEMENT.values()


def _largest_of_row(top: Tensor) -> Tensor:
    """The largest of the blocks of each row; 0 for a row without blocks."""
    return top.amax(-3, keepdim=True) if top.shape[-3] else top


def _floats(patterns: Array) -> Array:
    return np.ascontiguousarray(patterns.astype(np.uint32)).view(np.float32)


def _scale(scales: Array, s: Array) -> Array:
    """t of each block, float32 (*counts, 1, 1)."""
    return (SCALE.value(scales).astype(np.float32) * s[..., None])[..., None, None]
