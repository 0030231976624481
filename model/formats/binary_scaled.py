"""Scaled binary format: sign(x) times the mean magnitude of the tensor or row, or times a learned scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded
from espalier.model.formats.binary import sign_parameters
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
from espalier.model.formats.small_float import to_dtype
from espalier.model.formats.stored_scale import scale_pattern, scale_value
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor


@FORMATS.register("binary_scaled")
@dataclass(frozen=True, slots=True)
class BinaryScaled(ScaledFormat):
    """α·sign(x) with sign(0) = +1 and α = mean|x| of the tensor or row (finite elements, float64 sum, rounded to
    float32), the least-squares scale; or a given γ.

    The gradient of x is 1 where |x| ≤ 1 (that of the sign, as in the paper; α counts as a constant), and that
    of γ is Σ grad·sign(x). Source: XNOR-Net, Rastegari et al. 2016, https://arxiv.org/abs/1603.05279, section 3.1;
    learned scales: Bulat & Tzimiropoulos 2019, https://arxiv.org/abs/1909.13863.
    """

    name: ClassVar[str] = "binary_scaled"
    title: ClassVar[str] = "Binary with a scale"
    aliases: ClassVar[tuple[str, ...]] = ("binary_scaling", "xnor", "LinearBinaryScaling")
    formula: ClassVar[str] = "α·sign(x), α = mean|x|"
    source: ClassVar[str] = "Rastegari et al. 2016, arXiv:1603.05279"
    keeps_zero: ClassVar[bool] = False

    granularity: CoarseGranularity = field(default="channel", metadata={"help": "granularity of scales: tensor or row"})

    def __post_init__(self) -> None:
        check_granularity(self.name, self.granularity)

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Accept per_tensor, per_channel, row and the MASE labs' implied parameters."""
        return normalise_granularity(sign_parameters(cls.name, values))

    def layout(self) -> tuple[BitField, ...]:
        """Sign and scale."""
        return BitField("sign", "sign", 1), BitField("scale", "shared", 32, 0)

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """One bit per element and 32 bits per scale."""
        return math.prod(shape) + 32 * math.prod(self.scale_shape(shape))

    @property
    def label(self) -> str:
        """`±α channel`."""
        return f"±α {self.granularity}"

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """() per tensor, (…, 1) per row."""
        return shared_shape(shape, per_of(self.granularity))

    def scale_of(self, x: Tensor) -> Tensor:
        """mean|x|."""
        return mean_magnitude(x, per_of(self.granularity)).float()

    def scale_of_array(self, x: Array) -> Array:
        """mean|x|."""
        return mean_magnitude_of_array(x, per_of(self.granularity)).astype(np.float32)

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """γ·sign(x)."""
        import torch

        return torch.where(torch.isnan(x), x, to_dtype(self._spread(scale, x) * sign(x), x.dtype))

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """|x| ≤ 1, independent of the scale."""
        return x.abs() <= 1

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Σ grad·sign(x)."""
        return sum_shared(grad.float() * sign(x), per_of(self.granularity))

    def _spread(self, scale: Tensor, x: Tensor) -> Tensor:
        return broadcast_scale(scale.detach().float(), per_of(self.granularity), tuple(x.shape))

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """Code 1 for +γ, 0 for −γ; and γ."""
        return Encoded(np.asarray(np.asarray(x) >= 0, np.int64), (scale_pattern("scale", scale, "float32"),))

    def decode(self, encoded: Encoded) -> Array:
        """±γ."""
        signs = np.asarray(encoded.codes, np.float32) * 2 - 1
        scale = scale_value(encoded.shared[0], "float32")
        return np.asarray(signs * broadcast_scale(scale, per_of(self.granularity), signs.shape), np.float32)

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """±|γ|, as a given γ may be negative."""
        magnitude = np.abs(self.decode(encoded))
        return np.where(np.asarray(encoded.codes) > 0, magnitude, -magnitude)

    def codes(self) -> Array:
        """−1 and +1."""
        return np.array([-1, 1], np.float32)


def sign(x: Tensor) -> Tensor:
    """−1 or +1 (+1 for 0), at least float32."""
    import torch

    return torch.where(x >= 0, 1.0, -1.0).to(at_least_float32(x).dtype)
