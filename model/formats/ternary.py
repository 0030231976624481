"""Three values: nothing for small magnitudes, plus or minus a scale for the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, unsaid
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


@FORMATS.register("ternary")
@dataclass(frozen=True, slots=True)
class Ternary(ScaledFormat):
    """0 where |x| ≤ Δ, else ±α; Δ = threshold·mean|x| and α = the mean of the |x| above Δ, of the tensor or row.

    Means over finite elements, float64 sums, rounded to float32. A given α leaves Δ as it is. `threshold` is below 1,
    since from 1 on a row of equal magnitudes would vanish.
    The gradient of x is 1 everywhere (TWN updates the full-precision weights with the gradient of the ternary ones),
    that of α is Σ grad·sign(x) over what is kept (trained ternary quantization).
    Sources: TWN, Li et al. 2016, https://arxiv.org/abs/1605.04711, section 2; Zhu et al. 2017,
    https://arxiv.org/abs/1612.01064.
    """

    name: ClassVar[str] = "ternary"
    title: ClassVar[str] = "Ternary"
    aliases: ClassVar[tuple[str, ...]] = ("twn", "LinearTernary")
    formula: ClassVar[str] = "0 if |x| ≤ Δ else ±α; Δ = threshold·mean|x|, α = mean of the |x| > Δ"
    source: ClassVar[str] = "Li et al. 2016, arXiv:1605.04711"

    threshold: float = field(default=0.7, metadata={"min": 0.0, "max": 0.99, "help": "Δ as a multiple of mean|x|"})
    granularity: Coarse = field(default="channel", metadata={"help": "granularity of Δ and α: tensor or row"})

    def __post_init__(self) -> None:
        value: Any = self.threshold
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 0.99:
            raise FormatError(f"ternary: threshold is {value!r}.", "threshold must be a number from 0 to 0.99.")
        coarse(self.name, self.granularity)

    @classmethod
    def spelled(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """per_tensor, per_channel and row are accepted, and what the labs write out of α and Δ."""
        own = dict.fromkeys(("mean", "median", "max"))
        known = unsaid(spelled_granularity(values), width=2, scaling_factor=True, **own)
        if known.get("scaling_factor") is False:
            raise FormatError("ternary: scaling_factor is false.", "Leave it out: α is the mean of what is kept.")
        return known

    def layout(self) -> tuple[BitField, ...]:
        """A sign, whether it is not zero, and the scale."""
        return BitField("sign", "sign", 1), BitField("integer", "integer", 1), BitField("scale", "shared", 32, 0)

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Two bits an element and 32 a scale."""
        return 2 * math.prod(shape) + 32 * math.prod(self.scale_shape(shape))

    @property
    def label(self) -> str:
        """`0 ±α channel`."""
        return f"0 ±α {self.granularity}"

    @property
    def _per(self) -> int:
        return per_of(self.granularity)

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """() or (…, 1)."""
        return shared_shape(shape, self._per)

    def delta(self, x: Tensor) -> Tensor:
        """Δ of the tensor or each row."""
        return (mean_magnitude(x, self._per) * self.threshold).float()

    def _signs(self, x: Tensor) -> Tensor:
        """−1, 0 or +1."""
        import torch

        delta = spread(self.delta(x), self._per, tuple(x.shape))
        work = at_least_float32(x)
        return torch.where(work.abs() > delta, work.sign(), 0)

    def _signs_of_array(self, x: Array) -> Array:
        delta = (mean_magnitude_of_array(x, self._per) * self.threshold).astype(np.float32)
        return np.where(np.abs(x) > spread(delta, self._per, x.shape), np.sign(x), np.float32(0))

    def scale_of(self, x: Tensor) -> Tensor:
        """Mean of the kept magnitudes."""
        import torch

        kept = torch.where(self._signs(x.detach()) != 0, x.detach(), torch.nan)
        return mean_magnitude(kept, self._per).float()

    def scale_of_array(self, x: Array) -> Array:
        """Mean of the kept magnitudes."""
        x = np.asarray(x, np.float32)
        kept = np.where(self._signs_of_array(x) != 0, x, np.float32(np.nan))
        return mean_magnitude_of_array(kept, self._per).astype(np.float32)

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """0 or ±α."""
        import torch

        value = self._signs(x) * spread(scale.detach().float(), self._per, tuple(x.shape))
        return torch.where(torch.isnan(x), x, narrowed(value, x.dtype))

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """Everywhere."""
        import torch

        return torch.ones_like(x, dtype=torch.bool)

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Σ grad·sign(x) over what is kept."""
        return summed(grad.float() * self._signs(x), self._per)

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """−1, 0, 1, and α."""
        signs = self._signs_of_array(np.asarray(x, np.float32))
        return Encoded(signs.astype(np.int64), (scale_pattern("scale", scale, "float32"),))

    def decode(self, encoded: Encoded) -> Array:
        """0, ±α."""
        signs = np.asarray(encoded.codes, np.float32)
        return np.asarray(signs * spread(scale_value(encoded.shared[0], "float32"), self._per, signs.shape), np.float32)

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """0 and ±|α|: a given α may be negative."""
        return np.sign(np.asarray(encoded.codes)).astype(np.float32) * np.abs(self.decode(encoded))

    def codes(self) -> Array:
        """−1, 0, +1."""
        return np.array([-1, 0, 1], np.float32)
