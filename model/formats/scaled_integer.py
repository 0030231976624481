"""Integers with a float scale per tensor, row or group, such as common int8 and int4."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, Shared, whole
from espalier.model.formats.scale_preimage import affine_source, symmetric_source
from espalier.model.formats.scaled import (
    ROW,
    TENSOR,
    ScaledFormat,
    at_least_float32,
    broadcast_scale,
    group_elements,
    normalise_granularity,
    shared_shape,
    sum_shared,
    ungroup_elements,
)
from espalier.model.formats.stored_scale import (
    LARGEST,
    SCALE_BITS,
    ScaleType,
    array_scale,
    scale_pattern,
    scale_value,
    tensor_scale,
)
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

_GROUP = re.compile(r"\s*group\s*\(\s*(\d+)\s*\)\s*")
_GROUP_SIZE = {"min": 2, "max": 65536, "help": "elements that share a scale", "when": ("granularity", "group")}


@FORMATS.register("scaled_integer")
@dataclass(frozen=True, slots=True)
class ScaledInteger(ScaledFormat):
    """clip(rne(x/s), −q, q)·s with q = 2^(w−1)−1 and s = max|x|/q in float32, over finite x; maths in float32; a
    scale stored in float16 or bfloat16 is rounded up, so that nothing clips.

    symmetric=False: clip(rne(x/s), −z, n−z)·s with n = 2^w−1, s = (max−min)/n and z = clip(rne(−min/s), 0, n), where
    min ≤ 0 ≤ max, so that zero is exact; codes are unsigned, 0…n, and z is stored with s.
    Idempotent (but for the last bit of s) with symmetry and a float32 scale only: otherwise quantised values have
    another scale.

    A given scale has the shape of the shared scale; without symmetry (2, …): s, and min in place of the tensor's own.
    The gradient of x is 1 where the code is not clipped, 0 elsewhere. A learned scale has the gradient of LSQ:
    rne(x/s) − x/s inside, ±q outside, times 1/√(N·q) for N elements per scale; it is initialised to 2·mean|x|/√q.
    Without symmetry: 0 or n outside, and min has 0 inside, 1 outside (both times the same factor), after LSQ+.

    Sources: Jacob et al. 2018, https://arxiv.org/abs/1712.05877; LSQ: Esser et al. 2020,
    https://arxiv.org/abs/1902.08153; LSQ+: Bhalgat et al. 2020, https://arxiv.org/abs/2004.09576.
    """

    name: ClassVar[str] = "scaled_integer"
    title: ClassVar[str] = "Scaled integer"
    aliases: ClassVar[tuple[str, ...]] = ("int8", "int4", "affine", "LinearScaledInteger")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "int8": {"width": 8}, "int4": {"width": 4}, "affine": {"symmetric": False},
    }  # fmt: skip
    formula: ClassVar[str] = "clip(rne(x/s), −q, q)·s, s = max|x|/q, q = 2^(w−1)−1"
    source: ClassVar[str] = "Jacob et al. 2018, arXiv:1712.05877"

    width: int = field(default=8, metadata={"min": 2, "max": 16, "help": "bits of a code"})
    granularity: Literal["tensor", "channel", "group"] = field(
        default="channel", metadata={"help": "granularity of scales: tensor, row, or group within a row"}
    )
    group: int = field(default=128, metadata=_GROUP_SIZE)
    symmetric: bool = field(default=True, metadata={"help": "yes: symmetric; no: codes from 0, with a zero point"})
    scale_dtype: ScaleType = field(
        default="float32", metadata={"help": "type in which a scale is stored; in 16 bits it is rounded up"}
    )

    def __post_init__(self) -> None:
        whole(self.name, "width", self.width, 2, 16)
        whole(self.name, "group", self.group, 2, 65536)
        _check_choice("granularity", self.granularity, ("tensor", "channel", "group"))
        _check_choice("scale_dtype", self.scale_dtype, tuple(SCALE_BITS))
        if not isinstance(self.symmetric, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise FormatError(f"scaled_integer: symmetric is {self.symmetric!r}.", "symmetric must be true or false.")

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Accept `granularity=group(64)` for granularity=group, group=64; and per_tensor, per_channel and row."""
        parameters = normalise_granularity(values)
        match = _GROUP.fullmatch(str(parameters.get("granularity")))
        return {**parameters, "granularity": "group", "group": int(match.group(1))} if match else parameters

    # -- storage

    def layout(self) -> tuple[BitField, ...]:
        """Sign and integer bits (in steps of the scale), the scale, and without symmetry the zero point."""
        per = self.group if self.granularity == "group" else 0
        scale = BitField("scale", "shared", SCALE_BITS[self.scale_dtype], per)
        if self.symmetric:
            return BitField("sign", "sign", 1), BitField("integer", "integer", self.width - 1), scale
        return BitField("integer", "integer", self.width), scale, BitField("zero point", "shared", self.width, per)

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Codes, scales and zero points."""
        shared = SCALE_BITS[self.scale_dtype] + (0 if self.symmetric else self.width)
        return math.prod(shape) * self.width + math.prod(shared_shape(shape, self.per)) * shared

    @property
    def label(self) -> str:
        """`int8 channel`, `int4 group 64`, without symmetry `uint8 tensor`."""
        size = f" {self.group}" if self.granularity == "group" else ""
        return f"{'int' if self.symmetric else 'uint'}{self.width} {self.granularity}{size}"

    @property
    def per(self) -> int:
        """Number of elements that share a scale, or ROW or TENSOR of `model.formats.scaled`."""
        return {"tensor": TENSOR, "channel": ROW}.get(self.granularity, self.group)

    @property
    def top(self) -> int:
        """The largest code: q, or n without symmetry."""
        return 2 ** (self.width - 1) - 1 if self.symmetric else 2**self.width - 1

    # -- the scale

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One scale per tensor, row or group; without symmetry (2, …)."""
        shared = shared_shape(shape, self.per)
        return shared if self.symmetric else (2, *shared)

    def scale_of(self, x: Tensor) -> Tensor:
        """max|x|/q; without symmetry (max−min)/n and min."""
        import torch

        groups = group_elements(at_least_float32(x.detach()), self.per)
        groups = torch.where(torch.isfinite(groups), groups, 0)
        if not groups.shape[-1]:
            return torch.zeros(self.scale_shape(tuple(x.shape)), device=x.device)
        low, high = (v.double().clamp(-LARGEST, LARGEST) for v in (groups.amin(-1), groups.amax(-1)))
        if self.symmetric:
            return (torch.maximum(high, -low) / self.top).float()
        low, high = low.clamp(max=0), high.clamp(min=0)
        return torch.stack([(high - low) / self.top, low]).float()

    def scale_of_array(self, x: Array) -> Array:
        """As `scale_of`."""
        groups = group_elements(np.asarray(x, np.float32), self.per)
        groups = np.where(np.isfinite(groups), groups, np.float32(0)).astype(np.float64)
        low, high = groups.min(-1, initial=0), groups.max(-1, initial=0)
        if self.symmetric:
            return np.asarray(np.maximum(high, -low) / self.top, np.float32)
        return np.stack([(high - low) / self.top, low]).astype(np.float32)

    def first_scale(self, x: Tensor) -> Tensor:
        """2·mean|x|/√q with symmetry (LSQ, section 2.1); without, `scale_of`."""
        if not self.symmetric:
            return self.scale_of(x)
        import torch

        groups = group_elements(at_least_float32(x.detach()), self.per)
        used = group_elements(torch.ones_like(x, dtype=torch.float32), self.per).sum(-1).clamp(min=1)
        magnitude = torch.where(torch.isfinite(groups), groups.abs(), 0).sum(-1, dtype=torch.float64) / used
        return (2 * magnitude / math.sqrt(self.top)).float()

    def _parts(self, scale: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Any, Any]:
        """(s, smallest and largest rne(x/s)), broadcastable with a tensor of `shape`."""
        import torch

        if self.symmetric:
            return broadcast_scale(tensor_scale(scale, self.scale_dtype), self.per, shape), -self.top, self.top
        s = tensor_scale(scale[0], self.scale_dtype)
        zero = torch.round(-scale[1].float() / s).clamp(0, self.top)
        s, zero = (broadcast_scale(v, self.per, shape) for v in (s, zero))
        return s, -zero, self.top - zero

    # -- values

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """clip(rne(x/s))·s."""
        import torch

        s, low, high = self._parts(scale.detach(), tuple(x.shape))
        value = torch.round(at_least_float32(x) / s).clamp(low, high) * s
        largest = torch.finfo(x.dtype).max  # q·s may round up to infinity
        return value.clamp(-largest, largest).to(x.dtype)

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """Where rne(x/s) is not clipped."""
        import torch

        s, low, high = self._parts(scale.detach(), tuple(x.shape))
        rounded = torch.round(at_least_float32(x) / s)
        return (rounded >= low) & (rounded <= high)

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """The gradient of LSQ or LSQ+; formula at the class."""
        import torch

        s, low, high = self._parts(scale.detach(), tuple(x.shape))
        steps = at_least_float32(x) / s
        rounded = torch.round(steps)
        inside = (rounded >= low) & (rounded <= high)
        lowest = -self.top if self.symmetric else 0
        ends = torch.where(rounded > high, float(self.top), float(lowest))
        factor = 1 / math.sqrt(max(x.numel() / max(math.prod(shared_shape(tuple(x.shape), self.per)), 1), 1) * self.top)
        to_s = sum_shared(grad * torch.where(inside, rounded - steps, ends), self.per) * factor
        return to_s if self.symmetric else torch.stack([to_s, sum_shared(grad * ~inside, self.per) * factor])

    # -- codes

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """Two's complement codes; without symmetry unsigned codes and zero points."""
        scale = np.asarray(scale, np.float32)
        x = np.asarray(x, np.float32)
        s = array_scale(scale if self.symmetric else scale[0], self.scale_dtype)
        shared = scale_pattern("scale", s, self.scale_dtype)
        with np.errstate(over="ignore"):
            rounded = np.rint(x / broadcast_scale(s, self.per, x.shape))
        if self.symmetric:
            return Encoded(np.clip(rounded, -self.top, self.top).astype(np.int64), (shared,))
        zero = np.clip(np.rint(-scale[1] / s), 0, self.top)
        codes = np.clip(rounded + broadcast_scale(zero, self.per, x.shape), 0, self.top)
        return Encoded(codes.astype(np.int64), (shared, Shared("zero_point", zero.astype(np.uint16), self.width)))

    def stored_scale(self, encoded: Encoded) -> Array:
        """s; without symmetry s and −z·s."""
        s = scale_value(encoded.shared[0], self.scale_dtype)
        return s if self.symmetric else np.stack([s, -np.asarray(encoded.shared[1].values, np.float32) * s])

    def decode(self, encoded: Encoded) -> Array:
        """(code − z)·s."""
        shape = np.shape(encoded.codes)
        codes = np.asarray(encoded.codes, np.float32)
        s = broadcast_scale(scale_value(encoded.shared[0], self.scale_dtype), self.per, shape)
        if not self.symmetric:
            codes = codes - broadcast_scale(encoded.shared[1].values.astype(np.float32), self.per, shape)
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(codes * s, -LARGEST, LARGEST), np.float32)

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """Decoded values, adjusted where they would not reproduce the scale."""
        codes = np.asarray(encoded.codes)
        if not codes.size:
            return self.decode(encoded)
        scale = np.asarray(scale_value(encoded.shared[0], self.scale_dtype)).reshape(-1, 1)
        groups = group_elements(codes, self.per).reshape(len(scale), -1)
        if self.symmetric:
            values = symmetric_source(groups, scale, self.top, self.scale_dtype, dtype)
        else:
            zero = np.asarray(encoded.shared[1].values, np.float32).reshape(-1, 1)
            groups = group_elements(
                codes - broadcast_scale(zero.reshape(np.shape(encoded.shared[1].values)), self.per, codes.shape),
                self.per,
            )
            groups = groups.reshape(len(scale), -1) + zero
            values = affine_source(groups, scale, zero, self.top, self.scale_dtype, dtype)
        return ungroup_elements(values, self.per, codes.shape)

    def codes(self) -> Array:
        """−q…q, or 0…n without symmetry: values for scale 1 and zero point 0."""
        return np.arange(-self.top if self.symmetric else 0, self.top + 1, dtype=np.float32)


def _check_choice(field_: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise FormatError(f"scaled_integer: {field_} is {value!r}.", f"{field_} must be {', '.join(allowed)}.")
