"""Codes of other formats than fixed point: integers with a real scale and a zero point, and one-bit signs.

They are streamed like fixed point; operations that cannot compute with them (`reads`) need a cast before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.model.formats.binary import Binary
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.store.weights import WeightStore
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, fixed_of

PRODUCTS = ("linear", "conv1d", "conv2d", "conv3d")
ORDER = ("relu", "max_pool1d", "max_pool2d", "max_pool3d")  # compare codes; ReLU assumes that code 0 is the value 0
HARDWARE = "`integer`, `scaled_integer`, `binary`, `binary_scaled`, `ternary` or `mxint`"


@dataclass(frozen=True, slots=True)
class Scaled(Fixed):
    """A code c stands for (c − zero)·scale; `frac` is 0. Signed formats exclude the smallest code."""

    scale: float = 1.0
    zero: int = 0

    @property
    def low(self) -> int:
        """The smallest code."""
        return -self.high if self.signed else 0

    @property
    def label(self) -> str:
        """Text such as `int8 ×0.0123` or `uint8 ×0.0123 from 3`."""
        start = f" from {self.zero}" if self.zero else ""
        return f"{'int' if self.signed else 'uint'}{self.width} ×{self.scale:.3g}{start}"

    def values(self, codes: Codes) -> NDArray[np.float64]:
        """Decode."""
        return (codes - self.zero).astype(np.float64) * self.scale

    def encode(self, values: NDArray[Any], rounding: Rounding = "nearest_even") -> Codes:
        """Encode real numbers in float32, as the format does."""
        steps = np.rint(np.asarray(values, np.float32) / np.float32(self.scale)).astype(np.float64)
        return np.clip(steps + self.zero, self.low, self.high).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Signs(Fixed):
    """One bit: (2c − 1)·scale, with `frac` −1 and zero point 1; 0 or 1 if not `bipolar`."""

    scale: float = 1.0
    bipolar: bool = True

    @property
    def label(self) -> str:
        """Text such as `±1`, `±0.12` or `0/1`."""
        return f"±{self.scale:.3g}" if self.bipolar else "0/1"

    @property
    def zero(self) -> int:
        """Zero point in steps of the scale."""
        return int(self.bipolar)

    def values(self, codes: Codes) -> NDArray[np.float64]:
        """Decode."""
        bits = codes.astype(np.float64)
        return (2 * bits - 1) * self.scale if self.bipolar else bits

    def encode(self, values: NDArray[Any], rounding: Rounding = "nearest_even") -> Codes:
        """1 for x ≥ 0; for x > 0 if not bipolar."""
        x = np.asarray(values)
        return (x >= 0 if self.bipolar else x > 0).astype(np.int64)


def plain(form: Fixed) -> bool:
    """Whether the format is fixed point."""
    return not isinstance(form, Scaled | Signs)


def reads(op: str, form: Fixed) -> bool:
    """Whether the hardware of a computing op accepts such codes."""
    return plain(form) or op in PRODUCTS or (op in ORDER and not zero_of(form) and isinstance(form, Scaled))


def gives(op: str, form: Fixed) -> bool:
    """Whether the hardware of an op can output such codes without a cast."""
    return plain(form) or (isinstance(form, Scaled) and reads(op, form))


def scale_of(form: Fixed) -> float:
    """Real scale of a code besides its power of two; 1 for fixed point."""
    return form.scale if isinstance(form, Scaled | Signs) else 1.0


def zero_of(form: Fixed) -> int:
    """Zero point in steps of `scale_of`; 0 for fixed point."""
    return form.zero if isinstance(form, Scaled | Signs) else 0


def format_of(node: Node, name: str, chosen: Precision, graph: Graph, store: WeightStore) -> Fixed:
    """The hardware format of the activations at a port; raises EmitError for an unsupported one."""
    form: Any = chosen.format
    if isinstance(form, Integer):
        return fixed_of(form)
    if isinstance(form, ScaledInteger):
        scale = _static_scale(node, name, chosen, graph, store)
        if form.symmetric:
            return Scaled(form.width, 0, True, float(scale))
        zero = np.clip(np.rint(-scale[1] / scale[0]), 0, form.top)
        return Scaled(form.width, 0, False, float(scale[0]), int(zero))
    if isinstance(form, Binary) and not form.stochastic:
        return Signs(1, -1, False) if form.bipolar else Signs(1, 0, False, 1.0, False)
    if isinstance(form, BinaryScaled):
        return Signs(1, -1, False, float(_static_scale(node, name, chosen, graph, store)))
    text = f"{name} of {node.id} is in {form.label}, which the hardware does not support."
    hint = f"Layers take {HARDWARE}, all other operations `integer`; activations have one scale per tensor."
    blocks = "Only layers compute in blocks, in `mxint`; choose `integer` here."
    raise EmitError(text, blocks if form.name.startswith("mx") else hint, node.id)


def _static_scale(node: Node, name: str, chosen: Precision, graph: Graph, store: WeightStore) -> NDArray[np.float32]:
    """The calibrated scale of activations; hardware has no dynamic scales."""
    form: Any = chosen.format
    if form.granularity != "tensor":
        text = f"{name} of {node.id} is in {form.label}; in hardware, activations have one scale per tensor."
        raise EmitError(text, "Choose granularity=tensor for it, and calibrate (pass calibrate).", node.id)
    if chosen.scale is None:
        text = f"{name} of {node.id} has a dynamic scale, computed from each sample."
        raise EmitError(text, "Give it a static one (pass calibrate).", node.id)
    scale = np.asarray(stored_weight(chosen.scale, graph, store, node), np.float32)
    if isinstance(form, BinaryScaled):
        return scale
    from espalier.model.formats.stored_scale import array_scale

    s = array_scale(scale if form.symmetric else scale[0], form.scale_dtype)
    return s if form.symmetric else np.stack([s, scale[1]])


def stored_weight(name: str, graph: Graph, store: WeightStore, node: Node) -> NDArray[Any]:
    """A weight of the graph in float64; raises EmitError if the model has no weights."""
    from espalier.model.torch.tensors import to_torch

    key = graph.weights[name].key
    if key is None:
        raise EmitError("The model was opened without weights.", "Open it with weights.", node.id)
    return to_torch(store.get(key)).double().numpy()
