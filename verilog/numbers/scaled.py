"""Codes of formats beside fixed point: times a real scale with a zero point, or one bit that is a sign.

They travel like fixed point; only what knows them may compute with them (`reads`), others need a cast before.
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
ORDER = ("relu", "max_pool1d", "max_pool2d", "max_pool3d")  # they compare codes, and ReLU takes 0 for the code 0
HARDWARE = "`integer`, `scaled_integer`, `binary`, `binary_scaled`, `ternary` or `mxint`"


@dataclass(frozen=True, slots=True)
class Scaled(Fixed):
    """A code c stands for (c − zero)·scale; `frac` is 0. Signed ones leave out the smallest code, as formats do."""

    scale: float = 1.0
    zero: int = 0

    @property
    def low(self) -> int:
        """The smallest code."""
        return -self.high if self.signed else 0

    @property
    def label(self) -> str:
        """`int8 ×0.0123`, `uint8 ×0.0123 from 3`."""
        start = f" from {self.zero}" if self.zero else ""
        return f"{'int' if self.signed else 'uint'}{self.width} ×{self.scale:.3g}{start}"

    def values(self, codes: Codes) -> NDArray[np.float64]:
        """What the codes stand for."""
        return (codes - self.zero).astype(np.float64) * self.scale

    def encode(self, values: NDArray[Any], rounding: Rounding = "nearest_even") -> Codes:
        """The codes of real numbers, as the format has them in float32."""
        steps = np.rint(np.asarray(values, np.float32) / np.float32(self.scale)).astype(np.float64)
        return np.clip(steps + self.zero, self.low, self.high).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Signs(Fixed):
    """One bit: −scale or scale, 2c − 1 times it (`frac` −1, less one); 0 or 1 where not `bipolar`."""

    scale: float = 1.0
    bipolar: bool = True

    @property
    def label(self) -> str:
        """`±1`, `±0.12`, `0/1`."""
        return f"±{self.scale:.3g}" if self.bipolar else "0/1"

    @property
    def zero(self) -> int:
        """What is taken from a code, in steps of the scale."""
        return int(self.bipolar)

    def values(self, codes: Codes) -> NDArray[np.float64]:
        """What the codes stand for."""
        found = codes.astype(np.float64)
        return (2 * found - 1) * self.scale if self.bipolar else found

    def encode(self, values: NDArray[Any], rounding: Rounding = "nearest_even") -> Codes:
        """1 for what is not negative; for what is positive where not bipolar."""
        x = np.asarray(values)
        return (x >= 0 if self.bipolar else x > 0).astype(np.int64)


def plain(form: Fixed) -> bool:
    """Whether it is fixed point and nothing else."""
    return not isinstance(form, Scaled | Signs)


def reads(op: str, form: Fixed) -> bool:
    """Whether the hardware of an op, which computes, takes such codes."""
    return plain(form) or op in PRODUCTS or (op in ORDER and not zero_of(form) and isinstance(form, Scaled))


def gives(op: str, form: Fixed) -> bool:
    """Whether it gives such codes without a cast behind it."""
    return plain(form) or (isinstance(form, Scaled) and reads(op, form))


def scale_of(form: Fixed) -> float:
    """What a code is multiplied with beside its power of two."""
    return form.scale if isinstance(form, Scaled | Signs) else 1.0


def zero_of(form: Fixed) -> int:
    """What is taken from codes, in steps of `scale_of`."""
    return form.zero if isinstance(form, Scaled | Signs) else 0


def format_of(node: Node, name: str, chosen: Precision, graph: Graph, store: WeightStore) -> Fixed:
    """The hardware's view of the format of what flows through a port; raises EmitError where there is none."""
    form: Any = chosen.format
    if isinstance(form, Integer):
        return fixed_of(form)
    if isinstance(form, ScaledInteger):
        given = _given(node, name, chosen, graph, store)
        if form.symmetric:
            return Scaled(form.width, 0, True, float(given))
        zero = np.clip(np.rint(-given[1] / given[0]), 0, form.top)
        return Scaled(form.width, 0, False, float(given[0]), int(zero))
    if isinstance(form, Binary) and not form.stochastic:
        return Signs(1, -1, False) if form.bipolar else Signs(1, 0, False, 1.0, False)
    if isinstance(form, BinaryScaled):
        return Signs(1, -1, False, float(_given(node, name, chosen, graph, store)))
    text = f"{name} of {node.id} is in {form.label}, for which there is no hardware."
    hint = f"Layers take {HARDWARE}, all other operations `integer`; what flows has one scale for the whole tensor."
    blocks = "Only layers compute in blocks, and those of `mxint`; choose `integer` here."
    raise EmitError(text, blocks if form.name.startswith("mx") else hint, node.id)


def _given(node: Node, name: str, chosen: Precision, graph: Graph, store: WeightStore) -> NDArray[np.float32]:
    """The static scale of what flows: hardware does not look for one in each sample."""
    form: Any = chosen.format
    if form.granularity != "tensor":
        text = f"{name} of {node.id} is in {form.label}: what flows has one scale in hardware."
        raise EmitError(text, "Choose granularity=tensor for it, and calibrate (pass calibrate).", node.id)
    if chosen.scale is None:
        text = f"{name} of {node.id} takes its scale from each sample."
        raise EmitError(text, "Give it a static one (pass calibrate).", node.id)
    found = np.asarray(stored(chosen.scale, graph, store, node), np.float32)
    if isinstance(form, BinaryScaled):
        return found
    from espalier.model.formats.stored_scale import array_scale

    s = array_scale(found if form.symmetric else found[0], form.scale_dtype)
    return s if form.symmetric else np.stack([s, found[1]])


def stored(name: str, graph: Graph, store: WeightStore, node: Node) -> NDArray[Any]:
    """A weight of the graph."""
    from espalier.model.torch.tensors import to_torch

    key = graph.weights[name].key
    if key is None:
        raise EmitError("The model was opened without weights.", "Open it with weights.", node.id)
    return to_torch(store.get(key)).double().numpy()
