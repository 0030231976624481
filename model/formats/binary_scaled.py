"""The sign times a scale: the mean magnitude of the tensor or row, or a learned one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, BitField, Encoded
from espalier.model.formats.binary import signs_alone
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
from espalier.model.formats.small_float import narrowed
from espalier.model.formats.stored_scale import scale_pattern, scale_value
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor


@FORMATS.register("binary_scaled")
@dataclass(frozen=True, slots=True)
class BinaryScaled(ScaledFormat):
    """α·sign(x) with sign(0) = +1 and α = mean|x| of the tensor or row (finite elements, float64 sum, rounded to
    float32), which is the least-squares one; or a given γ.

    The gradient of x is 1 where |x| ≤ 1 (of the sign, as in the paper; α's own dependence on x is left out), and that
    of γ is Σ grad·sign(x). Source: XNOR-Net, Rastegari et al. 2016, https://arxiv.org/abs/1603.05279, section 3.1;
    learned scales: Bulat & Tzimiropoulos 2019, https://arxiv.org/abs/1909.13863.
    """

    name: ClassVar[str] = "binary_scaled"
    title: ClassVar[str] = "Binary with a scale"
    aliases: ClassVar[tuple[str, ...]] = ("binary_scaling", "xnor", "LinearBinaryScaling")
    formula: ClassVar[str] = "α·sign(x), α = mean|x|"
    source: ClassVar[str] = "Rastegari et al. 2016, arXiv:1603.05279"
    keeps_zero: ClassVar[bool] = False

    granularity: Coarse = field(default="channel", metadata={"help": "granularity of scales: tensor or row"})

    def __post_init__(self) -> None:
        coarse(self.name, self.granularity)

    @classmethod
    def spelled(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """per_tensor, per_channel and row are accepted, and what the labs write out of signs."""
        return spelled_granularity(signs_alone(cls.name, values))

    def layout(self) -> tuple[BitField, ...]:
        """A sign, and the scale."""
        return BitField("sign", "sign", 1), BitField("scale", "shared", 32, 0)

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """A bit an element and 32 a scale."""
        return math.prod(shape) + 32 * math.prod(self.scale_shape(shape))

    @property
    def label(self) -> str:
        """`±α channel`."""
        return f"±α {self.granularity}"

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """() or (…, 1)."""
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

        return torch.where(torch.isnan(x), x, narrowed(self._spread(scale, x) * sign(x), x.dtype))

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """|x| ≤ 1, whatever the scale."""
        return x.abs() <= 1

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Σ grad·sign(x)."""
        return summed(grad.float() * sign(x), per_of(self.granularity))

    def _spread(self, scale: Tensor, x: Tensor) -> Tensor:
        return spread(scale.detach().float(), per_of(self.granularity), tuple(x.shape))

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """1 for +γ, and γ."""
        return Encoded(np.asarray(np.asarray(x) >= 0, np.int64), (scale_pattern("scale", scale, "float32"),))

    def decode(self, encoded: Encoded) -> Array:
        """±γ."""
        signs = np.asarray(encoded.codes, np.float32) * 2 - 1
        scale = scale_value(encoded.shared[0], "float32")
        return np.asarray(signs * spread(scale, per_of(self.granularity), signs.shape), np.float32)

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """±|γ|: a given γ may be negative."""
        magnitude = np.abs(self.decode(encoded))
        return np.where(np.asarray(encoded.codes) > 0, magnitude, -magnitude)

    def codes(self) -> Array:
        """−1 and +1."""
        return np.array([-1, 1], np.float32)


def sign(x: Tensor) -> Tensor:
    """−1 or +1 (also of 0), at least float32."""
    import torch

    return torch.where(x >= 0, 1.0, -1.0).to(at_least_float32(x).dtype)
