"""Residual binary format: a sum of one to three scaled signs, each of the residual of those before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded, ascending, whole
from espalier.model.formats.binary import sign_parameters
from espalier.model.formats.binary_scaled import sign
from espalier.model.formats.scaled import (
    CoarseGranularity,
    ScaledFormat,
    at_least_float32,
    broadcast_scale,
    check_granularity,
    mean_magnitude,
    mean_magnitude_of_array,
    normalise_granularity,
    per_of,
    shared_shape,
    sum_shared,
)
from espalier.model.formats.stored_scale import scale_pattern, scale_value
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor


@FORMATS.register("binary_residual")
@dataclass(frozen=True, slots=True)
class BinaryResidual(ScaledFormat):
    """Σ α_l·sign(r_l) with r_1 = x, r_{l+1} = r_l − α_l·sign(r_l), sign(0) = +1; float32, summed from level 1 on.

    α_l = mean|r_l| of the tensor or row (finite elements, float64 sum, rounded to float32), or given as (levels, …).
    The gradient of x is 1 where |x| ≤ 1, that of α_l is Σ grad·sign(r_l). The format is not idempotent: the mean of its
    values differs from α. `codes` has α = 1, ½, ¼, the ratios of the means for uniform x.
    Source: ReBNet, Ghasemzadeh et al. 2018, https://arxiv.org/abs/1711.01243, section III.
    """

    name: ClassVar[str] = "binary_residual"
    title: ClassVar[str] = "Binary residual sign"
    aliases: ClassVar[tuple[str, ...]] = ("binary_residual_sign", "residual_sign", "rebnet", "LinearBinaryResidualSign")
    formula: ClassVar[str] = "Σ α_l·sign(r_l), r_{l+1} = r_l − α_l·sign(r_l), α_l = mean|r_l|"
    source: ClassVar[str] = "Ghasemzadeh et al. 2018, arXiv:1711.01243"
    keeps_zero: ClassVar[bool] = False

    levels: int = field(default=2, metadata={"min": 1, "max": 3, "help": "number of binary terms"})
    granularity: CoarseGranularity = field(default="channel", metadata={"help": "granularity of scales: tensor or row"})

    def __post_init__(self) -> None:
        whole(self.name, "levels", self.levels, 1, 3)
        check_granularity(self.name, self.granularity)

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Accept per_tensor, per_channel, row and the MASE labs' implied parameters; their `residual_sign=false`
        is one level."""
        parameters = normalise_granularity(sign_parameters(cls.name, values))
        if isinstance(parameters.get("residual_sign"), bool):
            parameters |= {} if parameters.pop("residual_sign") else {"levels": 1}
        return parameters

    def layout(self) -> tuple[BitField, ...]:
        """One sign and one scale per level."""
        numbers = range(1, self.levels + 1)
        signs = (BitField(f"sign {i}", "sign", 1) for i in numbers)
        return (*signs, *(BitField(f"scale {i}", "shared", 32, 0) for i in numbers))

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """One bit per element and level, 32 bits per scale."""
        return self.levels * math.prod(shape) + 32 * math.prod(self.scale_shape(shape))

    @property
    def label(self) -> str:
        """`±α ×2 channel`."""
        return f"±α ×{self.levels} {self.granularity}"

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """(levels,) per tensor, or (levels, …, 1) per row."""
        return (self.levels, *shared_shape(shape, per_of(self.granularity)))

    def scale_of(self, x: Tensor) -> Tensor:
        """mean|r_l| by level."""
        import torch

        residual, scales = at_least_float32(x.detach()), []
        for _ in range(self.levels):
            scales.append(mean_magnitude(residual, per_of(self.granularity)).float())
            residual = residual - self._spread(scales[-1], tuple(x.shape)) * sign(residual)
        return torch.stack(scales)

    def scale_of_array(self, x: Array) -> Array:
        """mean|r_l| by level."""
        residual, scales = np.asarray(x, np.float32), []
        for _ in range(self.levels):
            scales.append(mean_magnitude_of_array(residual, per_of(self.granularity)).astype(np.float32))
            residual = residual - self._spread(scales[-1], np.shape(x)) * _sign(residual)
        return np.stack(scales)

    def _spread(self, scale: Any, shape: tuple[int, ...]) -> Any:
        return broadcast_scale(scale, per_of(self.granularity), shape)

    def _signs(self, x: Tensor, scale: Tensor) -> list[Tensor]:
        """sign(r_l) by level."""
        residual, signs = at_least_float32(x), []
        for alpha in scale.detach().float():
            signs.append(sign(residual))
            residual = residual - self._spread(alpha, tuple(x.shape)) * signs[-1]
        return signs

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """Σ α_l·sign(r_l)."""
        import torch

        signs = self._signs(x, scale)
        total = torch.zeros_like(signs[0])
        for alpha, level_signs in zip(scale.detach().float(), signs, strict=True):
            total = total + self._spread(alpha, tuple(x.shape)) * level_signs
        largest = torch.finfo(x.dtype).max
        return torch.where(torch.isnan(x), x, total.clamp(-largest, largest).to(x.dtype))

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """|x| ≤ 1, independent of the scales."""
        return x.abs() <= 1

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Σ grad·sign(r_l) by level."""
        import torch

        return torch.stack([sum_shared(grad.float() * s, per_of(self.granularity)) for s in self._signs(x, scale)])

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """Codes of one bit per level (1 for +α, level 1 most significant) and one scale per level."""
        residual, codes = np.asarray(x, np.float32), np.zeros(np.shape(x), np.int64)
        for alpha in np.asarray(scale, np.float32):
            signs = _sign(residual)
            codes = codes * 2 + (signs > 0)
            residual = residual - self._spread(np.asarray(alpha), np.shape(x)) * signs
        shared = (scale_pattern(f"scale {i + 1}", a, "float32") for i, a in enumerate(np.asarray(scale, np.float32)))
        return Encoded(np.asarray(codes, np.int64), tuple(shared))

    def stored_scale(self, encoded: Encoded) -> Array:
        """One scale per level, float32."""
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
        """The decoded value where its signs agree at all levels; otherwise the middle of the interval that has these
        signs."""
        codes, value = np.asarray(encoded.codes), self.decode(encoded)
        low, high = np.full(codes.shape, -np.inf), np.full(codes.shape, np.inf)
        prefix, magnitude = np.zeros(codes.shape), np.zeros(codes.shape)
        for level, shared in enumerate(encoded.shared):
            alpha = self._spread(scale_value(shared, "float32"), codes.shape).astype(np.float64)
            up = ((codes >> (self.levels - 1 - level)) & 1).astype(np.bool_)
            low, high = np.where(up, np.maximum(low, prefix), low), np.where(up, high, np.minimum(high, prefix))
            prefix, magnitude = prefix + np.where(up, alpha, -alpha), magnitude + np.abs(alpha)
        middle = (np.maximum(low, -2 * magnitude - 1) + np.minimum(high, 2 * magnitude + 1)) / 2
        return np.where((low <= value) & (value < high), value, middle).astype(np.float32)

    def codes(self) -> Array:
        """±1 ± ½ ± ¼."""
        scales = tuple(scale_pattern("", np.array(2.0**-i, np.float32), "float32") for i in range(self.levels))
        return ascending(self.decode(Encoded(np.arange(2**self.levels), scales)))


def _sign(x: Array) -> Array:
    return np.where(x >= 0, np.float32(1), np.float32(-1))
