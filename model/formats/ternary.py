"""Ternary format: 0 for small magnitudes, plus or minus a scale for larger ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, without_implied
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


@FORMATS.register("ternary")
@dataclass(frozen=True, slots=True)
class Ternary(ScaledFormat):
    """0 where |x| ≤ Δ, else ±α; Δ = threshold·mean|x| and α = the mean of the |x| above Δ, of the tensor or row.

    Means over finite elements, float64 sums, rounded to float32. A given α does not change Δ. `threshold` is below 1,
    since with 1 a row of equal magnitudes would become 0.
    The gradient of x is 1 everywhere (TWN updates the full-precision weights with the gradient of the ternary ones),
    that of α is Σ grad·sign(x) over nonzero values (trained ternary quantization).
    Sources: TWN, Li et al. 2016, https://arxiv.org/abs/1605.04711, section 2; Zhu et al. 2017,
    https://arxiv.org/abs/1612.01064.
    """

    name: ClassVar[str] = "ternary"
    title: ClassVar[str] = "Ternary"
    aliases: ClassVar[tuple[str, ...]] = ("twn", "LinearTernary")
    formula: ClassVar[str] = "0 if |x| ≤ Δ else ±α; Δ = threshold·mean|x|, α = mean of the |x| > Δ"
    source: ClassVar[str] = "Li et al. 2016, arXiv:1605.04711"

    threshold: float = field(default=0.7, metadata={"min": 0.0, "max": 0.99, "help": "Δ as a multiple of mean|x|"})
    granularity: CoarseGranularity = field(
        default="channel", metadata={"help": "granularity of Δ and α: tensor or row"}
    )

    def __post_init__(self) -> None:
        value: Any = self.threshold
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 0.99:
            raise FormatError(f"ternary: threshold is {value!r}.", "threshold must be a number from 0 to 0.99.")
        check_granularity(self.name, self.granularity)

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Accept per_tensor, per_channel, row and the MASE labs' implied parameters of α and Δ."""
        calibrations = dict.fromkeys(("mean", "median", "max"))
        parameters = without_implied(normalise_granularity(values), width=2, scaling_factor=True, **calibrations)
        if parameters.get("scaling_factor") is False:
            raise FormatError(
                "ternary: scaling_factor is false.", "Leave it out: α is the mean of the magnitudes above Δ."
            )
        return parameters

    def layout(self) -> tuple[BitField, ...]:
        """Sign, nonzero bit and scale."""
        return BitField("sign", "sign", 1), BitField("integer", "integer", 1), BitField("scale", "shared", 32, 0)

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Two bits per element and 32 per scale."""
        return 2 * math.prod(shape) + 32 * math.prod(self.scale_shape(shape))

    @property
    def label(self) -> str:
        """`0 ±α channel`."""
        return f"0 ±α {self.granularity}"

    @property
    def _per(self) -> int:
        return per_of(self.granularity)

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """() per tensor, (…, 1) per row."""
        return shared_shape(shape, self._per)

    def delta(self, x: Tensor) -> Tensor:
        """Δ of the tensor or each row."""
        return (mean_magnitude(x, self._per) * self.threshold).float()

    def _signs(self, x: Tensor) -> Tensor:
        """−1, 0 or +1."""
        import torch

        delta = broadcast_scale(self.delta(x), self._per, tuple(x.shape))
        work = at_least_float32(x)
        return torch.where(work.abs() > delta, work.sign(), 0)

    def _signs_of_array(self, x: Array) -> Array:
        delta = (mean_magnitude_of_array(x, self._per) * self.threshold).astype(np.float32)
        return np.where(np.abs(x) > broadcast_scale(delta, self._per, x.shape), np.sign(x), np.float32(0))

    def scale_of(self, x: Tensor) -> Tensor:
        """Mean of the magnitudes above Δ, float32."""
        import torch

        above = torch.where(self._signs(x.detach()) != 0, x.detach(), torch.nan)
        return mean_magnitude(above, self._per).float()

    def scale_of_array(self, x: Array) -> Array:
        """Mean of the magnitudes above Δ, float32."""
        x = np.asarray(x, np.float32)
        above = np.where(self._signs_of_array(x) != 0, x, np.float32(np.nan))
        return mean_magnitude_of_array(above, self._per).astype(np.float32)

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """0 or ±α."""
        import torch

        value = self._signs(x) * broadcast_scale(scale.detach().float(), self._per, tuple(x.shape))
        return torch.where(torch.isnan(x), x, to_dtype(value, x.dtype))

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """True everywhere."""
        import torch

        return torch.ones_like(x, dtype=torch.bool)

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Σ grad·sign(x) over nonzero values."""
        return sum_shared(grad.float() * self._signs(x), self._per)

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """Codes −1, 0, 1, and α."""
        signs = self._signs_of_array(np.asarray(x, np.float32))
        return Encoded(signs.astype(np.int64), (scale_pattern("scale", scale, "float32"),))

    def decode(self, encoded: Encoded) -> Array:
        """0, ±α."""
        signs = np.asarray(encoded.codes, np.float32)
        return np.asarray(
            signs * broadcast_scale(scale_value(encoded.shared[0], "float32"), self._per, signs.shape), np.float32
        )

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """0 and ±|α|, as a given α may be negative."""
        return np.sign(np.asarray(encoded.codes)).astype(np.float32) * np.abs(self.decode(encoded))

    def codes(self) -> Array:
        """−1, 0, +1."""
        return np.array([-1, 0, 1], np.float32)
