"""NVIDIA's four-bit floats: E2M1 with an E4M3 scale per block and a float32 scale per tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, Shared
from espalier.model.formats.blocks import BLOCK, ROWS, BlockFormat, Blocks
from espalier.model.formats.small_float import finite, signed_code, signed_value, small_float, to_float32
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

ELEMENT = small_float(2, 1, 1)  # E2M1, largest 6
SCALE = small_float(4, 3, 7, "nan")  # E4M3, largest 448
TINY = 2.0**-126  # smaller tensor scales would be subnormal and lose bits


@FORMATS.register("nvfp4")
@dataclass(frozen=True, slots=True)
class NVFP4(BlockFormat):
    """E2M1(x/t)·t, t = d·s; s = max(max|x|/(6·448), 2^−126) of the tensor, d = E4M3(max|x|/(6·s)) of each block.

    All nearest, ties to even, saturating; each operation rounds to float32, for any dtype of x. A block with d = 0
    is zero. Quantising twice may change the last bit, as the second s is computed from rounded values. Source: NVIDIA,
    Pretraining large language models with NVFP4, 2025, appendix.
    """

    name: ClassVar[str] = "nvfp4"
    title: ClassVar[str] = "NVFP4"
    formula: ClassVar[str] = "E2M1(x/(d·s))·d·s, s = max|x|/(6·448) of the tensor, d = E4M3(max|x|/(6·s)) of the block"
    source: ClassVar[str] = "NVIDIA, Pretraining large language models with NVFP4, 2025"

    block: int = field(default=16, metadata=BLOCK)
    rows: int = field(default=1, metadata=ROWS)

    def __post_init__(self) -> None:
        self.check_blocks("nvfp4")

    @property
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""
        return Blocks(self.block, self.rows)

    @property
    def wide(self) -> bool:
        """False: the format is defined in float32."""
        return False

    def layout(self) -> tuple[BitField, ...]:
        """Sign, exponent and mantissa, the scale per block and the scale per tensor."""
        return (BitField("sign", "sign", 1), BitField("exponent", "exponent", 2), BitField("mantissa", "mantissa", 1),
                BitField("scale", "shared", 8, self.blocks.elements),
                BitField("tensor scale", "shared", 32, 0))  # fmt: skip

    @property
    def label(self) -> str:
        """`nvfp4/16`"""
        return f"nvfp4/{self.blocks.text}"

    def in_blocks(self, x: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
        """Round with the scales of tensor and block, in float32."""
        import torch

        largest = torch.finfo(torch.float32).max
        narrow, top = x.clamp(-largest, largest).float(), top.clamp(max=largest).float()
        s = (torch.cat([top.flatten(), top.new_zeros(1)]).max() / (6 * 448)).clamp(min=TINY)
        t = SCALE.nearest(top / (6 * s)).clamp(max=SCALE.largest) * s
        rounded = ELEMENT.nearest(narrow / torch.where(t == 0, 1.0, t))
        value = (rounded.clamp(-ELEMENT.largest, ELEMENT.largest) * t).clamp(-largest, largest)
        return value.to(x.dtype), rounded.abs() <= ELEMENT.largest

    def encode(self, x: Array) -> Encoded:
        """Sign-magnitude codes, E4M3 codes of the block scales and the bit pattern of the tensor scale."""
        blocks = self.blocks.split(to_float32(finite(x)))
        top = np.abs(blocks).max((-2, -1), initial=np.float32(0))
        s = np.maximum(top.max(initial=np.float32(0)) / np.float32(6 * 448), np.float32(TINY))
        scales = SCALE.magnitude((top / (np.float32(6) * s)).astype(np.float64))
        t = _scale(scales, s)
        magnitude = ELEMENT.magnitude((blocks / np.where(t == 0, np.float32(1), t)).astype(np.float64))
        codes = signed_code(np.signbit(np.asarray(x)), self.blocks.merge(magnitude, np.shape(x)), 4)
        whole_tensor = np.array([s], np.float32).view(np.uint32).astype(np.int64)
        return Encoded(codes, (Shared("scale", scales, 8), Shared("tensor scale", whole_tensor, 32)))

    def decode(self, encoded: Encoded) -> Array:
        """Element times both scales."""
        scales, whole_tensor = (s.values for s in encoded.shared)
        codes = self.blocks.split(np.asarray(encoded.codes))
        elements = signed_value(codes, ELEMENT.value(codes & 7), 4).astype(np.float32)
        t = _scale(scales, whole_tensor.astype(np.uint32).view(np.float32)[0])
        return to_float32(self.blocks.merge(elements.astype(np.float64) * t, np.shape(encoded.codes)))

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """The decoded values, except those that determine a scale: the largest of the tensor reproduces s, and the
        largest of a block with subnormal d is as large as its element code allows."""
        scales, whole_tensor = (np.asarray(s.values) for s in encoded.shared)
        s = whole_tensor.astype(np.uint32).view(np.float32)[0]
        number = self.blocks.split(np.asarray(encoded.codes)) & 7
        top = number.max((-2, -1), keepdims=True, initial=0)
        element, above = ELEMENT.value(number), ELEMENT.value(np.minimum(number + 1, ELEMENT.top))
        high = np.where((number == top) & (number > 0), (element + above) / 2 * (1 - 2.0**-12), element)
        high = np.where(number == ELEMENT.top, element, high) * _scale(scales, s)
        magnitude = to_float32(self.blocks.merge(high, np.shape(encoded.codes)))
        magnitude = _set_largest(magnitude, s)
        return np.where(np.asarray(encoded.codes) & 8, -magnitude, magnitude)

    def codes(self) -> Array:
        """The values of E2M1."""
        return ELEMENT.values()


def _scale(scales: Array, s: np.float32) -> Array:
    """t of each block, float32 (*counts, 1, 1)."""
    return (SCALE.value(scales).astype(np.float32) * s)[..., None, None]


def _set_largest(magnitude: Array, s: np.float32) -> Array:
    """`magnitude` with its largest element replaced so that the tensor scale computes to s."""
    product = np.float32(s * np.float64(6 * 448))
    candidates = [c for c in (np.nextafter(product, np.float32(0)), product, np.nextafter(product, np.float32(np.inf)))
             if np.isfinite(c) and c / np.float32(6 * 448) == s]  # fmt: skip
    if s <= TINY or not candidates or not magnitude.size:
        return magnitude
    clipped = np.minimum(magnitude, candidates[0])
    clipped.reshape(-1)[magnitude.argmax()] = candidates[0]
    return clipped
