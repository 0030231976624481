"""Integers with a scale and a real offset per tensor, row or group, as HQQ and GGUF's Q4_1 have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, whole
from espalier.model.formats.scaled import (
    ROW,
    TENSOR,
    ScaledFormat,
    broadcast_scale,
    group_elements,
    shared_shape,
    sum_shared,
)
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.small_float import to_dtype, work_tensor
from espalier.model.formats.stored_scale import LARGEST, SMALLEST_SCALE, scale_pattern, scale_value
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

_SLACK = 2.0**-20  # the largest may lie beyond m + n·s by rounding of s


@FORMATS.register("offset_integer")
@dataclass(frozen=True, slots=True)
class OffsetInteger(ScaledFormat):
    """m + clip(rne((x − m)/s), 0, n)·s with n = 2^w − 1, m = min x and s = (max x − min x)/n over finite x; float32.

    The offset is a number of its own, no multiple of s, so that zero is no value in general and the range need not
    contain it. HQQ writes it as a real zero point z = −m/s. A given scale has the shape (2, …): s and m.

    The gradient of x is 1 where the code is not clipped, 0 elsewhere; those of a learned scale and offset are
    rne((x − m)/s) − (x − m)/s inside, 0 or n outside, and 0 inside, 1 outside, both times 1/√(N·n), after LSQ+.
    Sources: Badri & Shaji 2023, https://mobiusml.github.io/hqq_blog/; LSQ+: Bhalgat et al. 2020, arXiv:2004.09576.
    """

    name: ClassVar[str] = "offset_integer"
    title: ClassVar[str] = "Offset integer"
    aliases: ClassVar[tuple[str, ...]] = ("hqq", "LinearOffsetInteger")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"hqq": {"width": 4, "granularity": "group", "group": 64}}
    formula: ClassVar[str] = "m + clip(rne((x − m)/s), 0, n)·s, m = min x, s = (max x − min x)/n, n = 2^w−1"
    source: ClassVar[str] = "Badri & Shaji 2023, mobiusml.github.io/hqq_blog"
    keeps_zero: ClassVar[bool] = False

    width: int = field(default=4, metadata={"min": 1, "max": 8, "help": "bits of a code"})
    granularity: Literal["tensor", "channel", "group"] = field(
        default="group", metadata={"help": "granularity of scales and offsets: tensor, row, or group within a row"}
    )
    group: int = field(
        default=64,
        metadata={"min": 2, "max": 65536, "help": "elements that share a scale", "when": ("granularity", "group")},
    )

    def __post_init__(self) -> None:
        whole(self.name, "width", self.width, 1, 8)
        whole(self.name, "group", self.group, 2, 65536)
        if self.granularity not in ("tensor", "channel", "group"):
            text = f"{self.name}: granularity is {self.granularity!r}."
            raise FormatError(text, "granularity must be tensor, channel, group.")

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """As scaled integers."""
        return ScaledInteger.normalise(values)

    # -- storage

    @property
    def per(self) -> int:
        """Number of elements that share a scale, or ROW or TENSOR of `model.formats.scaled`."""
        return {"tensor": TENSOR, "channel": ROW}.get(self.granularity, self.group)

    @property
    def top(self) -> int:
        """The largest code."""
        return 2**self.width - 1

    def layout(self) -> tuple[BitField, ...]:
        """A code, the scale and the offset."""
        per = self.group if self.granularity == "group" else 0
        shared = (BitField(name, "shared", 32, per) for name in ("scale", "offset"))
        return BitField("integer", "integer", self.width), *shared

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Codes, scales and offsets."""
        return math.prod(shape) * self.width + 64 * math.prod(shared_shape(shape, self.per))

    @property
    def label(self) -> str:
        """`offset int4 group 64`."""
        size = f" {self.group}" if self.granularity == "group" else ""
        return f"offset int{self.width} {self.granularity}{size}"

    # -- the scale

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """(2, …): a scale and an offset per tensor, row or group."""
        return (2, *shared_shape(shape, self.per))

    def scale_of(self, x: Tensor) -> Tensor:
        """(max − min)/n, and min."""
        import torch

        held = work_tensor(x.detach()).float()
        inside = group_elements(torch.ones_like(held), self.per) > 0  # not the zeros that fill the last group
        groups = group_elements(torch.where(x.isfinite(), held, torch.nan), self.per)
        if not groups.shape[-1]:
            return torch.zeros(self.scale_shape(tuple(x.shape)), device=x.device)
        seen = inside & ~groups.isnan()
        low, high = groups.where(seen, torch.inf).amin(-1), groups.where(seen, -torch.inf).amax(-1)
        low, high = (torch.where(low <= high, v, 0.0).double() for v in (low, high))
        return torch.stack([(high - low) / self.top, low]).float()

    def scale_of_array(self, x: Array) -> Array:
        """As `scale_of`."""
        held = np.asarray(x, np.float32)
        inside = group_elements(np.ones_like(held), self.per) > 0
        groups = group_elements(held, self.per)
        seen = inside & np.isfinite(groups)
        low = np.where(seen, groups, np.float32(np.inf)).min(-1, initial=np.inf)
        high = np.where(seen, groups, np.float32(-np.inf)).max(-1, initial=-np.inf)
        low, high = (np.where(low <= high, v, 0.0).astype(np.float64) for v in (low, high))
        return np.stack([(high - low) / self.top, low]).astype(np.float32)

    # -- values

    def _steps(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """((x − m)/s, s, m) in float32, all broadcast."""
        held = scale.detach().float()
        s, m = (
            broadcast_scale(v, self.per, tuple(x.shape))
            for v in (held[0].clamp(SMALLEST_SCALE["float32"], LARGEST), held[1])
        )
        return (work_tensor(x).clamp(-LARGEST, LARGEST).float() - m) / s, s, m

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """m + clip(rne((x − m)/s))·s."""
        import torch

        steps, s, m = self._steps(x, scale)
        value = (torch.round(steps).clamp(0, self.top) * s + m).clamp(-LARGEST, LARGEST)
        return value.to(x.dtype) if x.element_size() > 4 else to_dtype(value, x.dtype)

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """Where (x − m)/s is within 0…n."""
        steps, _, _ = self._steps(x, scale)
        return (steps >= -_SLACK) & (steps <= self.top * (1 + _SLACK)) & x.isfinite()

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """As in LSQ+; formula at the class."""
        import torch

        steps, _, _ = self._steps(x, scale)
        inside = (steps >= 0) & (steps <= self.top)
        ends = torch.where(steps > self.top, float(self.top), 0.0)
        shared = max(math.prod(shared_shape(tuple(x.shape), self.per)), 1)
        factor = 1 / math.sqrt(max(x.numel() / shared, 1) * self.top)
        to_s = sum_shared(grad * torch.where(inside, torch.round(steps) - steps, ends), self.per)
        return torch.stack([to_s, sum_shared(grad * ~inside, self.per)]) * factor

    # -- codes

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """Codes from 0, scales and offsets."""
        x, held = np.asarray(x, np.float32), np.asarray(scale, np.float32)
        s, m = np.clip(held[0], np.float32(SMALLEST_SCALE["float32"]), np.float32(LARGEST)), np.array(held[1])
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.clip(x, np.float32(-LARGEST), np.float32(LARGEST)) - broadcast_scale(m, self.per, x.shape)
            steps = np.nan_to_num(near / broadcast_scale(s, self.per, x.shape), nan=0.0)
        codes = np.clip(np.rint(steps), 0, self.top).astype(np.int64)
        return Encoded(codes, (scale_pattern("scale", s, "float32"), scale_pattern("offset", m, "float32")))

    def stored_scale(self, encoded: Encoded) -> Array:
        """s and m."""
        return np.stack([scale_value(shared, "float32") for shared in encoded.shared])

    def decode(self, encoded: Encoded) -> Array:
        """m + code·s."""
        codes = np.asarray(encoded.codes, np.float32)
        s, m = (broadcast_scale(scale_value(v, "float32"), self.per, codes.shape) for v in encoded.shared)
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(codes * s + m, -LARGEST, LARGEST), np.float32)

    def codes(self) -> Array:
        """0…n: values for scale 1 and offset 0."""
        return np.arange(self.top + 1, dtype=np.float32)
