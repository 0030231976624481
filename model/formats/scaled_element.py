"""Small integers over their full range, or small floats, with a float scale per tensor, row or group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, whole
from espalier.model.formats.full_range_ends import Rounding, with_ends
from espalier.model.formats.mxfp import ELEMENTS
from espalier.model.formats.scaled import (
    ROW,
    TENSOR,
    ScaledFormat,
    at_least_float32,
    broadcast_scale,
    group_elements,
    shared_shape,
    sum_shared,
    ungroup_elements,
)
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.small_float import SmallFloat, signed_code, signed_value, small_float, to_dtype, work_tensor
from espalier.model.formats.stored_scale import (
    LARGEST,
    SCALE_BITS,
    SMALLEST_SCALE,
    ScaleType,
    scale_pattern,
    scale_value,
)
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

Element = Literal[
    "int8", "int7", "int6", "int5", "int4", "int3", "int2", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"
]  # fmt: skip
INTEGERS = tuple(f"int{w}" for w in range(8, 1, -1))
_SLACK = {"float32": 2.0**-20, "bfloat16": 2.0**-8, "float16": 2.0**-10}  # max|x|/s may exceed d by rounding of s


@FORMATS.register("scaled_element")
@dataclass(frozen=True, slots=True)
class ScaledElement(ScaledFormat):
    """E(x/s)·s with s = max|x|/d over finite x, in float32; E rounds to the nearest element, ties to even, saturating.

    Integers of w bits are −2^(w−1)…2^(w−1)−1 and d = (2^w − 1)/2; small floats have d = their largest value (E4M3:
    448). `scaled_integer` has d = 2^(w−1)−1 instead, and no code −2^(w−1). Scales are rounded to the nearest number of
    `scale_dtype`. This is the rule of compressed-tensors (calculate_qparams) for symmetric weights, and for activations
    with a scale per token.

    The gradient of x is 1 where |x| ≤ d·s, 0 elsewhere; that of a learned scale as in LSQ: E(x/s) − x/s inside, the
    nearest end outside, times 1/√(N·d) for N elements per scale. Sources: compressed-tensors 0.20,
    https://github.com/vllm-project/compressed-tensors; OCP 8-bit floating point 1.0.
    """

    name: ClassVar[str] = "scaled_element"
    title: ClassVar[str] = "Scaled element"
    aliases: ClassVar[tuple[str, ...]] = ("fp8", "scaled_float", "LinearScaledElement")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "fp8": {"element": "e4m3"}, "scaled_float": {"element": "e4m3"},
    }  # fmt: skip
    formula: ClassVar[str] = "E(x/s)·s, s = max|x|/d, d half the range of E"
    source: ClassVar[str] = "compressed-tensors 0.20; OCP 8-bit floating point 1.0"

    element: Element = field(
        default="int8", metadata={"help": "integer of 2 to 8 bits, or bits of a float's exponent and mantissa"}
    )
    granularity: Literal["tensor", "channel", "group"] = field(
        default="channel", metadata={"help": "granularity of scales: tensor, row (a token of activations), or group"}
    )
    group: int = field(
        default=128,
        metadata={"min": 2, "max": 65536, "help": "elements that share a scale", "when": ("granularity", "group")},
    )
    scale_dtype: ScaleType = field(default="float32", metadata={"help": "type in which a scale is stored"})

    def __post_init__(self) -> None:
        whole(self.name, "group", self.group, 2, 65536)
        for name, value, allowed in (
            ("element", self.element, (*INTEGERS, *ELEMENTS)),
            ("granularity", self.granularity, ("tensor", "channel", "group")),
            ("scale_dtype", self.scale_dtype, tuple(SCALE_BITS)),
        ):
            if value not in allowed:
                raise FormatError(f"{self.name}: {name} is {value!r}.", f"{name} must be {', '.join(allowed)}.")

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """As scaled integers; the element also as `E4M3`, `fp8_e4m3` or `float8_e4m3fn`."""
        parameters = ScaledInteger.normalise(values)
        if isinstance(parameters.get("element"), str):
            parameters["element"] = parameters["element"].lower().rpartition("_")[2].removesuffix("fn")
        return parameters

    # -- storage

    @property
    def integer(self) -> bool:
        """Whether elements are integers."""
        return self.element in INTEGERS

    @property
    def width(self) -> int:
        """Bits of an element."""
        return int(self.element[3:]) if self.integer else 1 + sum(ELEMENTS[self.element][:2])

    @property
    def grid(self) -> SmallFloat:
        """The value set of a small float."""
        exponent, mantissa, reserved, _ = ELEMENTS[self.element]
        return small_float(exponent, mantissa, 2 ** (exponent - 1) - 1, reserved)

    @property
    def lowest(self) -> float:
        """The smallest element."""
        return float(-(2 ** (self.width - 1))) if self.integer else -self.grid.largest

    @property
    def highest(self) -> float:
        """The largest element."""
        return float(2 ** (self.width - 1) - 1) if self.integer else self.grid.largest

    @property
    def reach(self) -> float:
        """d: the magnitude that max|x| is scaled to."""
        return (self.highest - self.lowest) / 2

    @property
    def per(self) -> int:
        """Number of elements that share a scale, or ROW or TENSOR of `model.formats.scaled`."""
        return {"tensor": TENSOR, "channel": ROW}.get(self.granularity, self.group)

    def layout(self) -> tuple[BitField, ...]:
        """Sign and the rest of an element, and the scale."""
        per = self.group if self.granularity == "group" else 0
        scale = BitField("scale", "shared", SCALE_BITS[self.scale_dtype], per)
        if self.integer:
            return BitField("sign", "sign", 1), BitField("integer", "integer", self.width - 1), scale
        exponent, mantissa, *_ = ELEMENTS[self.element]
        return (BitField("sign", "sign", 1), BitField("exponent", "exponent", exponent),
                BitField("mantissa", "mantissa", mantissa), scale)  # fmt: skip

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Elements and scales."""
        scales = math.prod(shared_shape(shape, self.per))
        return math.prod(shape) * self.width + scales * SCALE_BITS[self.scale_dtype]

    @property
    def label(self) -> str:
        """`full int8 channel`, `e4m3 channel`, `full int4 group 128`."""
        size = f" {self.group}" if self.granularity == "group" else ""
        return f"{'full ' if self.integer else ''}{self.element} {self.granularity}{size}"

    # -- the scale

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One scale per tensor, row or group."""
        return shared_shape(shape, self.per)

    def scale_of(self, x: Tensor) -> Tensor:
        """max|x|/d, not yet in the type that it is stored in."""
        import torch

        groups = group_elements(at_least_float32(x.detach()), self.per)
        groups = torch.where(torch.isfinite(groups), groups, 0).abs()
        if not groups.shape[-1]:
            return torch.zeros(self.scale_shape(tuple(x.shape)), device=x.device)
        return groups.amax(-1).clamp(max=LARGEST).float() / self.reach

    def scale_of_array(self, x: Array) -> Array:
        """As `scale_of`."""
        groups = np.abs(group_elements(np.asarray(x, np.float32), self.per))
        groups = np.where(np.isfinite(groups), groups, np.float32(0))
        return np.asarray(groups.max(-1, initial=np.float32(0)) / np.float32(self.reach), np.float32)

    def _stored(self, scale: Tensor) -> Tensor:
        """The nearest positive number of the scale's type, as float32."""
        import torch

        clamped = scale.detach().float().clamp(SMALLEST_SCALE[self.scale_dtype], _largest(self.scale_dtype))
        return clamped.to(getattr(torch, self.scale_dtype)).float()

    def _stored_array(self, scale: Array) -> Array:
        clamped = np.clip(
            np.asarray(scale, np.float32),
            np.float32(SMALLEST_SCALE[self.scale_dtype]),
            np.float32(_largest(self.scale_dtype)),
        )
        return in_type(clamped, self.scale_dtype)

    # -- values

    def _quotient(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """(x/s, s), float32; s broadcast. The largest |x|/s is near a tie of integers, which more bits would turn."""
        s = broadcast_scale(self._stored(scale), self.per, tuple(x.shape))
        return work_tensor(x).clamp(-LARGEST, LARGEST).float() / s, s

    def _within(self, steps: Tensor) -> Tensor:
        return steps.abs() <= self.reach * (1 + _SLACK[self.scale_dtype])

    def _nearest(self, steps: Tensor) -> Tensor:
        """The nearest element of each x/s."""
        import torch

        clipped = steps.clamp(self.lowest, self.highest)
        return torch.round(clipped) if self.integer else self.grid.nearest(clipped)

    def with_scale(self, x: Tensor, scale: Tensor) -> Tensor:
        """E(x/s)·s."""
        steps, s = self._quotient(x, scale)
        value = (self._nearest(steps) * s).clamp(-LARGEST, LARGEST)
        return value.to(x.dtype) if x.element_size() > 4 else to_dtype(value, x.dtype)

    def inside_with(self, x: Tensor, scale: Tensor) -> Tensor:
        """Where |x| ≤ d·s."""
        return self._within(self._quotient(x, scale)[0]) & x.isfinite()

    def scale_gradient(self, grad: Tensor, x: Tensor, scale: Tensor) -> Tensor:
        """As in LSQ; formula at the class."""
        import torch

        steps, _ = self._quotient(x, scale)
        shared = max(math.prod(shared_shape(tuple(x.shape), self.per)), 1)
        factor = 1 / math.sqrt(max(x.numel() / shared, 1) * self.reach)
        nearest = self._nearest(steps)
        return sum_shared(grad * torch.where(self._within(steps), nearest - steps, nearest), self.per) * factor

    # -- codes

    def encode_with(self, x: Array, scale: Array) -> Encoded:
        """Two's complement codes, or sign and magnitude of small floats."""
        x, s = np.asarray(x, np.float32), self._stored_array(scale)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.nan_to_num(x / broadcast_scale(s, self.per, x.shape), nan=0.0)
        steps = np.clip(steps, np.float32(self.lowest), np.float32(self.highest))
        shared = scale_pattern("scale", s, self.scale_dtype)
        if self.integer:
            return Encoded(np.rint(steps).astype(np.int64), (shared,))
        magnitude = self.grid.magnitude(steps.astype(np.float64))
        return Encoded(signed_code(np.signbit(x), magnitude, self.width), (shared,))

    def stored_scale(self, encoded: Encoded) -> Array:
        """s."""
        return scale_value(encoded.shared[0], self.scale_dtype)

    def elements(self, codes: Array) -> Array:
        """float32 elements of codes."""
        codes = np.asarray(codes, np.int64)
        if self.integer:
            return codes.astype(np.float32)
        magnitude = np.minimum(codes & (2 ** (self.width - 1) - 1), self.grid.top)
        return signed_value(codes, self.grid.value(magnitude), self.width).astype(np.float32)

    def decode(self, encoded: Encoded) -> Array:
        """Element times scale."""
        elements = self.elements(encoded.codes)
        with np.errstate(over="ignore"):
            values = elements * broadcast_scale(self.stored_scale(encoded), self.per, np.shape(encoded.codes))
        return np.asarray(np.clip(values, -LARGEST, LARGEST), np.float32)

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """Decoded values, with one of the largest of each scale moved to where it gives the scale again."""
        elements = self.elements(encoded.codes)
        if not elements.size:
            return self.decode(encoded)
        scale = self.stored_scale(encoded)
        groups = group_elements(elements, self.per)
        rows = groups.reshape(-1, groups.shape[-1])
        rule = Rounding(self.reach, self.scale_dtype, self._nearest_of_array, self._scale_of_largest)
        values = with_ends(rows, np.asarray(scale).reshape(-1, 1), rule, dtype)
        return ungroup_elements(values.reshape(groups.shape), self.per, elements.shape)

    def _scale_of_largest(self, largest: Array) -> Array:
        return self._stored_array(np.asarray(largest, np.float32) / np.float32(self.reach))

    def _nearest_of_array(self, steps: Array) -> Array:
        """The nearest element of each x/s, with numpy only."""
        clipped = np.clip(np.asarray(steps, np.float32), np.float32(self.lowest), np.float32(self.highest))
        if self.integer:
            return np.rint(clipped)
        return np.sign(clipped) * self.grid.value(self.grid.magnitude(clipped.astype(np.float64)))

    def codes(self) -> Array:
        """All elements, for a scale of 1."""
        if self.integer:
            return np.arange(self.lowest, self.highest + 1, dtype=np.float32)
        return self.grid.values()


def _largest(dtype: ScaleType) -> float:
    return {"float32": LARGEST, "bfloat16": (2 - 2.0**-7) * 2.0**127, "float16": 65504.0}[dtype]


def in_type(x: Array, dtype: str) -> Array:
    """float32 `x` rounded to the nearest number of `dtype`."""
    from espalier.model.formats.half_range_ends import rounded

    return np.asarray(x, np.float32) if dtype == "float32" else rounded(x, dtype)
