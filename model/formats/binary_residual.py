"""A sum of one to three scaled signs, each of what those before it left over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, ascending, whole
from espalier.model.formats.binary import signs_alone
from espalier.model.formats.binary_scaled import sign
from espalier.model.formats.scaled import (
    Coarse,
    ScaledFormat,
    at_least_float32,
    coarse,
    mean_magnitude,
    mean_magnitude_of_array,
    per_of,
    shared_shape,
    spelled_granularity,
    spread,
    summed,
)
from espalier.model.formats.stored_scale import scale_pattern, scale_value
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor


@FORMATS.register("binary_residual")
@dataclass(frozen=True, slots=True)
class BinaryResidual(ScaledFormat):
    """Σ α_l·sign(r_l) with r_1 = x, r_{l+1} = r_l − α_l·sign(r_l), sign(0) = +1; float32, summed from level 1 on.

    α_l = mean|r_l| of the tensor or row (finite elements, float64 sum, rounded to float32), or given: (levels, …).
    The gradient of x is 1 where |x| ≤ 1, that of α_l is Σ grad·sign(r_l). It is not idempotent: the mean of what it
    gives is another. `codes` has α = 1, ½, ¼, the ratios of the means where x is uniform.
    Source: ReBNet, Ghasemzadeh et al. 2018, https://arxiv.org/abs/1711.01243, section III.
    """

    name: ClassVar[str] = "binary_residual"
    title: ClassVar[str] = "Binary residual sign"
    aliases: ClassVar[tuple[str, ...]] = ("binary_residual_sign", "residual_sign", "rebnet", "LinearBinaryResidualSign")
    formula: ClassVar[str] = "Σ α_l·sign(r_l), r_{l+1} = r_l − α_l·sign(r_l), α_l = mean|r_l|"
    source: ClassVar[str] = "Ghasemzadeh et al. 2018, arXiv:1711.01243"
    keeps_zero: ClassVar[bool] = False

    levels: int = field(default=2, metadata={"min": 1, "max": 3, "help": "number of binary terms"})
    granularity: Coarse = field(default="channel", metadata={"help": "granularity of scales: tensor or row"})

    def __post_init__(self) -> None:
        whole(self.name, "levels", self.levels, 1, 3)
        coarse(self.name, self.granularity)

    @classmethod
    def spelled(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """per_tensor, per_channel and row are accepted, and what the labs write out; without their `residual_sign`
        there is one level."""
        known = spelled_granularity(signs_alone(cls.name, values))
        if isinstance(known.get("residual_sign"), bool):
            known |= {} if known.pop("residual_sign") else {"levels": 1}
        return known

    def layout(self) -> tuple[BitField, ...]:
        """A sign a level, and a scale a level."""
        numbers = range(1, self.levels + 1)
        signs = (BitField(f"sign {i}", "sign", 1) for i in numbers)
        return (*signs, *(BitField(f"scale {i}", "shared", 32, 0) for i in numbers))

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """A bit an element and level, 32 a scale."""
        return self.levels * math.prod(shape) + 32 * math.prod(self.scale_shape(shape))

    @property
    def label(self) -> str:
        """`±α ×2 channel`."""
        return f"±α ×{self.levels} {self.granularity}"

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """(levels) or (levels, …, 1)."""
        return (self.levels, *shared_shape(shape, per_of(self.granularity)))

    def scale_of(self, x: Tensor) -> Tensor:
        """mean|r_l| by level."""
        import torch

        left, found = at_least_float32(x.detach()), []
        for _ in range(self.levels):
            found.append(mean_magnitude(left, per_of(self.granularity)).float())
            left = left - self._spread(found[-1], tuple(x.shape)) * sign(left)
        return torch.stack(found)

    def scale_of_array(self, x: Array) -> Array:
        """mean|r_l| by level."""
        left, found = np.asarray(x, np.float32), []
        for _ in range(self.levels):
            found.append(mean_magnitude_of_array(left, per_of(self.granularity)).astype(np.float32))
            left = left - self._spread(found[-1], np.shape(x)) * _sign(left)
        return np.stack(found)

    def _spread(self, scale: Any, shape: tuple[int, ...]) -> Any:
        return spread(scale, per_of(self.granularity), shape)

    def _signs(self, x: Tensor, scale: Tensor) -> list[Tensor]:
        """sign(r_l) by level."""
        left, found = at_least_float32(x), []
        for alpha in scale.detach().float():
            found.append(sign(left))
            left = left - self._spread(alpha, tuple(x.shape)) * found[-1]
        return found

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """Σ α_l·sign(r_l)."""
        import torch

        signs = self._signs(x, scale)
        total = torch.zeros_like(signs[0])
        for alpha, each in zip(scale.detach().float(), signs, strict=True):
            total = total + self._spread(alpha, tuple(x.shape)) * each
        most = torch.finfo(x.dtype).max
        return torch.where(torch.isnan(x), x, total.clamp(-most, most).to(x.dtype))

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """|x| ≤ 1, whatever the scales."""
        return x.abs() <= 1

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Σ grad·sign(r_l) by level."""
        import torch

        return torch.stack([summed(grad.float() * s, per_of(self.granularity)) for s in self._signs(x, scale)])

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """A bit a level, the first the most significant, 1 for +α; and a scale a level."""
        left, codes = np.asarray(x, np.float32), np.zeros(np.shape(x), np.int64)
        for alpha in np.asarray(scale, np.float32):
            signs = _sign(left)
            codes = codes * 2 + (signs > 0)
            left = left - self._spread(np.asarray(alpha), np.shape(x)) * signs
        named = (scale_pattern(f"scale {i + 1}", a, "float32") for i, a in enumerate(np.asarray(scale, np.float32)))
        return Encoded(np.asarray(codes, np.int64), tuple(named))

    def stored_scale(self, encoded: Encoded) -> Array:
        """A scale a level."""
        return np.stack([scale_value(s, "float32") for s in encoded.shared])

    def decode(self, encoded: Encoded) -> Array:
        """Σ ±α_l."""
        codes = np.asarray(encoded.codes)
        total = np.zeros(codes.shape, np.float32)
        for level, shared in enumerate(encoded.shared):
            signs = ((codes >> (self.levels - 1 - level)) & 1).astype(np.float32) * 2 - 1
            total = total + self._spread(scale_value(shared, "float32"), codes.shape) * signs
        return np.asarray(total, np.float32)

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """The decoded values where they have the same signs at all levels; elsewhere the middle of what has."""
        codes, value = np.asarray(encoded.codes), self.decode(encoded)
        low, high = np.full(codes.shape, -np.inf), np.full(codes.shape, np.inf)
        sum_, reach = np.zeros(codes.shape), np.zeros(codes.shape)
        for level, shared in enumerate(encoded.shared):
            alpha = self._spread(scale_value(shared, "float32"), codes.shape).astype(np.float64)
            up = ((codes >> (self.levels - 1 - level)) & 1).astype(np.bool_)
            low, high = np.where(up, np.maximum(low, sum_), low), np.where(up, high, np.minimum(high, sum_))
            sum_, reach = sum_ + np.where(up, alpha, -alpha), reach + np.abs(alpha)
        middle = (np.maximum(low, -2 * reach - 1) + np.minimum(high, 2 * reach + 1)) / 2
        return np.where((low <= value) & (value < high), value, middle).astype(np.float32)

    def codes(self) -> Array:
        """±1 ± ½ ± ¼."""
        scales = tuple(scale_pattern("", np.array(2.0**-i, np.float32), "float32") for i in range(self.levels))
        return ascending(self.decode(Encoded(np.arange(2**self.levels), scales)))


def _sign(x: Array) -> Array:
    return np.where(x >= 0, np.float32(1), np.float32(-1))
