"""Formats with a scale computed from the tensor, or given: calibrated by a pass or learned in training.

One scale is shared by `per` consecutive elements of a row, a row (ROW) or the tensor (TENSOR).
A row runs along the last axis. The functions below take numpy arrays and torch tensors.
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

CoarseGranularity = Literal["tensor", "channel"]
TENSOR, ROW = 0, -1
_SPELLINGS = {"per_tensor": "tensor", "per_channel": "channel", "row": "channel", "per_row": "channel"}


@dataclass(frozen=True, slots=True)
class ScaledFormat(Format):
    """A format with one float scale per tensor, row or group."""

    rowwise: ClassVar[bool] = True

    @abstractmethod
    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the scale of a tensor of `shape`."""

    @abstractmethod
    def scale_of(self, x: Tensor) -> Tensor:
        """The scale that the definition computes from `x`: float32 of `scale_shape(x.shape)`, without gradient."""

    @abstractmethod
    def scale_of_array(self, x: Array) -> Array:
        """As `scale_of`, with numpy only."""

    @abstractmethod
    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """`x` in this format with a given scale, without gradient; same shape and dtype as `x`."""

    @abstractmethod
    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """Bool tensor of x's shape: where the straight-through gradient is 1 with a given scale."""

    @abstractmethod
    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """Gradient of the scale (its shape, float32), where `grad` is that of the value."""

    @abstractmethod
    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """As `encode`, with a given scale."""

    def stored_scale(self, encoded: Encoded) -> Array:
        """The scale of encoded values, in the form `encode_with` takes."""
        return scale_value(encoded.shared[0], "float32")

    def first_scale(self, x: Tensor) -> Tensor:
        """The initial value of a learned scale: `scale_of`, unless the format's source says otherwise."""
        return self.scale_of(x)

    def define(self, x: Tensor) -> Tensor:
        """The value with the scale computed from `x`."""
        return self.with_scale(x, self.scale_of(x))

    def inside(self, x: Tensor) -> Tensor:
        """Where the straight-through gradient is 1 with the scale computed from `x`."""
        return self.inside_with(x, self.scale_of(x))

    def encode(self, x: Array) -> Encoded:
        """Codes with the scale computed from `x`, and that scale."""
        return self.encode_with(x, self.scale_of_array(x))

    def forward_with(self, x: Tensor, scale: Tensor, *, overwrite: bool = False) -> Tensor:
        """`with_scale`, by the fast version for x's device if there is one; `overwrite` as in `forward`. Raises
        FormatError for a scale that does not fit `x`."""
        want = self.scale_shape(tuple(x.shape))
        if tuple(scale.shape) != want:
            text = f"{self.name}: a scale of shape {list(scale.shape)} does not fit a tensor of {list(x.shape)}."
            raise FormatError(text, f"It must have the shape {list(want)}; scales of one tensor fit any batch.")
        fast = fast_for(self, x)
        if fast is None:
            return self.with_scale(x, scale)
        return x if overwrite and fast.over(self, x, scale, False) else fast.value(self, x, scale)


# -- groups of elements that share a scale


def shared_shape(shape: tuple[int, ...], per: int) -> tuple[int, ...]:
    """Shape of the scales of a tensor of `shape`: () per tensor, (…, 1) per row, (…, groups) per group."""
    if per == TENSOR:
        return ()
    row = shape[-1] if shape else 1
    return (*shape[:-1], 1 if per == ROW else (row + per - 1) // per)  # not −(−n // per): see blocks.ceil_div


def group_elements(x: Any, per: int) -> Any:
    """Elements that share a scale along the last axis: (elements), (…, 1, row) or (…, groups, per), zero-padded."""
    if per == TENSOR:
        return x.reshape(-1)
    x = x if x.ndim else x.reshape(1)
    if per == ROW:
        return x[..., None, :]
    groups = (x.shape[-1] + per - 1) // per
    return _padded(x, groups * per - x.shape[-1]).reshape(*x.shape[:-1], groups, per)


def ungroup_elements(groups: Any, per: int, shape: tuple[int, ...]) -> Any:
    """The inverse of `group_elements` for a tensor of `shape`."""
    if per in (TENSOR, ROW) or not shape:
        return groups.reshape(-1)[: math.prod(shape)].reshape(shape)
    return groups.reshape(*shape[:-1], -1)[..., : shape[-1]]


def _padded(x: Any, count: Any) -> Any:
    if isinstance(count, int) and not count:  # a comparison would specialise a symbolic size of an export
        return x
    if isinstance(x, np.ndarray):
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)])
    import torch.nn.functional as F

    return F.pad(x, (0, count))


def broadcast_scale(scale: Any, per: int, shape: tuple[int, ...]) -> Any:
    """One scale per tensor, row or group, expanded so that it broadcasts with a tensor of `shape`."""
    if not shape:
        return scale.reshape(())
    if per in (TENSOR, ROW):
        return scale
    repeated = np.repeat(scale, per, axis=-1) if isinstance(scale, np.ndarray) else scale.repeat_interleave(per, dim=-1)
    return repeated[..., : shape[-1]]


def mean_magnitude(x: Tensor, per: int) -> Tensor:
    """Mean of |x| over the finite elements of the tensor or each row, float64; 0 where there is none.

    The float64 sum makes the result independent of the order of summation once rounded to float32.
    """
    import torch

    groups = group_elements(x.detach(), per)
    finite = torch.isfinite(groups)
    total = torch.where(finite, groups.abs(), 0).sum(-1, dtype=torch.float64)
    return total / finite.sum(-1).clamp(min=1)


def mean_magnitude_of_array(x: Array, per: int) -> Array:
    """As `mean_magnitude`, with numpy only."""
    groups = group_elements(np.asarray(x), per)
    finite = np.isfinite(groups)
    total = np.where(finite, np.abs(groups), 0).sum(-1, dtype=np.float64)
    return np.asarray(total / np.maximum(finite.sum(-1), 1))


def sum_shared(x: Tensor, per: int) -> Tensor:
    """Sum over the elements that share a scale, float32."""
    import torch

    return group_elements(x, per).sum(-1, dtype=torch.float32)


def at_least_float32(x: Tensor) -> Tensor:
    """`x` in float32; float64 is unchanged."""
    import torch

    return x if x.dtype == torch.float64 else x.float()


def per_of(granularity: str) -> int:
    """TENSOR or ROW for the name of a granularity."""
    return TENSOR if granularity == "tensor" else ROW


# -- parameters of scaled formats


def check_granularity(fmt: str, granularity: str) -> None:
    """Raise FormatError unless `granularity` is tensor or channel."""
    if granularity not in ("tensor", "channel"):
        raise FormatError(f"{fmt}: granularity is {granularity!r}.", "granularity must be tensor or channel.")


def normalise_granularity(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with alternative names of granularities replaced."""
    granularity = values.get("granularity")
    return (
        {**values, "granularity": _SPELLINGS.get(granularity, granularity)}
        if isinstance(granularity, str)
        else dict(values)
    )
