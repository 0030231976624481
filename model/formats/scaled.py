"""Formats whose scale comes from the tensor itself, or is given: calibrated by a pass or learned in training.

What shares a scale: `per` consecutive elements of a row, the whole row (ROW) or the whole tensor (TENSOR).
A row is all along the last axis. The functions below take numpy arrays and torch tensors alike.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, Encoded, Format, fast_for
from espalier.model.formats.stored_scale import scale_value

if TYPE_CHECKING:
    from torch import Tensor

Coarse = Literal["tensor", "channel"]
TENSOR, ROW = 0, -1
_SPELLINGS = {"per_tensor": "tensor", "per_channel": "channel", "row": "channel", "per_row": "channel"}


@dataclass(frozen=True, slots=True)
class ScaledFormat(Format):
    """A format with a float scale for a tensor, a row or a group."""

    rowwise: ClassVar[bool] = True

    @abstractmethod
    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the scale of a tensor of `shape`."""

    @abstractmethod
    def scale_of(self, x: Tensor) -> Tensor:
        """The scale that the definition takes from `x`; float32 of `scale_shape(x.shape)`, without gradient."""

    @abstractmethod
    def scale_of_array(self, x: Array) -> Array:
        """As `scale_of`, by numpy alone."""

    @abstractmethod
    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """`x` in this format under a given scale, without gradient; same shape and dtype as `x`."""

    @abstractmethod
    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """Bool tensor of x's shape: where the straight-through gradient is 1 under a given scale."""

    @abstractmethod
    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Gradient of the scale (its shape, float32), where `grad` is that of the value."""

    @abstractmethod
    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """As `encode`, under a given scale."""

    def stored_scale(self, encoded: Encoded) -> Array:
        """The scale in force in what was encoded, as `encode_with` takes it."""
        return scale_value(encoded.shared[0], "float32")

    def first_scale(self, x: Tensor) -> Tensor:
        """Where a learned scale begins: the definition's own, unless the format's source says otherwise."""
        return self.scale_of(x)

    def define(self, x: Tensor) -> Tensor:
        """The value under the tensor's own scale."""
        return self.with_scale(x, self.scale_of(x))

    def inside(self, x: Tensor) -> Tensor:
        """Where the gradient passes under the tensor's own scale."""
        return self.inside_with(x, self.scale_of(x))

    def encode(self, x: Array) -> Encoded:
        """Codes under the tensor's own scale, and that scale."""
        return self.encode_with(x, self.scale_of_array(x))

    def forward_with(self, x: Tensor, scale: Tensor, *, spare: bool = False) -> Tensor:
        """`with_scale` by the fast version for x's device where there is one, `spare` as in `forward`; raises
        FormatError for a scale that does not fit `x`."""
        want = self.scale_shape(tuple(x.shape))
        if tuple(scale.shape) != want:
            text = f"{self.name}: a scale of shape {list(scale.shape)} does not fit a tensor of {list(x.shape)}."
            raise FormatError(text, f"It must have the shape {list(want)}; scales of one tensor fit any batch.")
        fast = fast_for(self, x)
        if fast is None:
            return self.with_scale(x, scale)
        return x if spare and fast.over(self, x, scale, False) else fast.value(self, x, scale)


# -- what shares a scale


def shared_shape(shape: tuple[int, ...], per: int) -> tuple[int, ...]:
    """Shape of one number a tensor (), a row (…, 1) or a group (…, groups) of a tensor of `shape`."""
    if per == TENSOR:
        return ()
    row = shape[-1] if shape else 1
    return (*shape[:-1], 1 if per == ROW else (row + per - 1) // per)  # never a negative number: see blocks.up


def gathered(x: Any, per: int) -> Any:
    """What shares a scale along the last axis: (elements), (…, 1, row) or (…, groups, per), filled up with zeros."""
    if per == TENSOR:
        return x.reshape(-1)
    x = x if x.ndim else x.reshape(1)
    if per == ROW:
        return x[..., None, :]
    groups = (x.shape[-1] + per - 1) // per
    return _padded(x, groups * per - x.shape[-1]).reshape(*x.shape[:-1], groups, per)


def scattered(each: Any, per: int, shape: tuple[int, ...]) -> Any:
    """What `gathered` gave of a tensor of `shape`, groups in a row, back in it."""
    if per in (TENSOR, ROW) or not shape:
        return each.reshape(-1)[: math.prod(shape)].reshape(shape)
    return each.reshape(*shape[:-1], -1)[..., : shape[-1]]


def _padded(x: Any, count: Any) -> Any:
    if isinstance(count, int) and not count:  # a size that an export leaves free must not be asked
        return x
    if isinstance(x, np.ndarray):
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)])
    import torch.nn.functional as F

    return F.pad(x, (0, count))


def spread(scale: Any, per: int, shape: tuple[int, ...]) -> Any:
    """A number a tensor, row or group, so that it broadcasts with a tensor of `shape`."""
    if not shape:
        return scale.reshape(())
    if per in (TENSOR, ROW):
        return scale
    many = np.repeat(scale, per, axis=-1) if isinstance(scale, np.ndarray) else scale.repeat_interleave(per, dim=-1)
    return many[..., : shape[-1]]


def mean_magnitude(x: Tensor, per: int) -> Tensor:
    """Mean of |x| over the finite elements of the tensor or each row, float64; 0 where there is none.

    The sum is taken in float64, so that its order does not show once it is rounded to float32.
    """
    import torch

    each = gathered(x.detach(), per)
    finite = torch.isfinite(each)
    total = torch.where(finite, each.abs(), 0).sum(-1, dtype=torch.float64)
    return total / finite.sum(-1).clamp(min=1)


def mean_magnitude_of_array(x: Array, per: int) -> Array:
    """As `mean_magnitude`, by numpy alone."""
    each = gathered(np.asarray(x), per)
    finite = np.isfinite(each)
    total = np.where(finite, np.abs(each), 0).sum(-1, dtype=np.float64)
    return np.asarray(total / np.maximum(finite.sum(-1), 1))


def summed(x: Tensor, per: int) -> Tensor:
    """Sum over what shares a scale, float32."""
    import torch

    return gathered(x, per).sum(-1, dtype=torch.float32)


def at_least_float32(x: Tensor) -> Tensor:
    """`x` as float32; float64 stays."""
    import torch

    return x if x.dtype == torch.float64 else x.float()


def per_of(granularity: str) -> int:
    """TENSOR or ROW of a granularity's name."""
    return TENSOR if granularity == "tensor" else ROW


# -- the fields of scaled formats


def coarse(fmt: str, granularity: str) -> None:
    """Raise FormatError unless `granularity` is tensor or channel."""
    if granularity not in ("tensor", "channel"):
        raise FormatError(f"{fmt}: granularity is {granularity!r}.", "granularity must be tensor or channel.")


def spelled_granularity(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with other names of granularities replaced by ours."""
    said = values.get("granularity")
    return {**values, "granularity": _SPELLINGS.get(said, said)} if isinstance(said, str) else dict(values)
