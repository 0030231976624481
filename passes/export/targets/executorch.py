"""Formats that XNNPACK computes with in ExecuTorch: weights of 4 or 8 bits, activations of 8 bits.

Observed with ExecuTorch 1.5.1 on an x86 processor (tests/passes/export/executorch).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled import ROW, TENSOR
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import choice, weight_at
from espalier.model.graph.views import view_at
from espalier.passes.export.targets import TARGETS, No, Target, Unheld, activation_formats, onnx
from espalier.passes.export.targets.openvino import group_of

CODES = "codes"  # name of the tensors of codes in the exported module
BITS = 4, 8  # of weights
WIDEST = 8  # bits of an activation
MULTIPLE = 32  # of which groups are
LINEAR, LAYERS = ("linear",), ("linear", "conv1d", "conv2d")
DYNAMIC = "scaled_integer(width=8, symmetric=false)"
GROUPS = "scaled_integer(width=4, granularity=group, group=32, scale_dtype=bfloat16)"
STATIC = "Choose scaled_integer(width=8, granularity=tensor) and calibrate it."
OWN = {"int8 per channel": "scaled_integer(width=8)", "int4 per channel": "scaled_integer(width=4)"}


def fits(group: int, columns: int, bits: int) -> bool:
    """Whether XNNPACK reads rows of so many columns in groups."""
    return bits == BITS[0] and group % MULTIPLE == 0 and columns % group == 0


def from_rows(fmt: Format | None) -> bool:
    """Whether a format with scales from the data is that of XNNPACK's products with dynamic activations."""
    match fmt:
        case ScaledInteger():
            return fmt.width == WIDEST and fmt.per == ROW and not fmt.symmetric and fmt.scale_dtype == "float32"
        case _:
            return False


def dynamic(node: Node) -> bool:
    """Whether the input of a node has such a format."""
    data = node.precision.get("data_in")
    return data is not None and data.scale is None and from_rows(data.format)


def _weight(node: Node, graph: Graph) -> No | None:
    """Why the weight of a node lies in the file in float; None for whole numbers, or no format."""
    chosen, name = choice(node, "weight"), weight_at(node, "weight", graph)
    if chosen is None or name is None:
        return None
    if node.call != "call_module" or node.op not in LAYERS:
        kind = "linear layers and convolutions"
        return No(f"XNNPACK multiplies whole numbers in {kind} alone", "Leave it in float, or leave this one out.")
    weight, view = graph.weights[name], view_at(node, "weight")
    shape = tuple(int(s) for s in (view.shape(weight.shape) if view else weight.shape))
    if (why := onnx.stored(chosen.format, len(shape), weight.dtype)) is not None:
        return No(why.why, onnx.CHOOSE)
    if not _narrow(chosen.format):
        return No("its codes have more than 8 bits", onnx.CHOOSE)
    group = group_of(chosen.format)
    return _grouped(node, chosen.format, group, shape[-1]) if group else None


def _narrow(fmt: Format) -> bool:
    """Whether signed codes of 8 bits hold the format; without symmetry they do up to 7 bits."""
    match fmt:
        case ScaledInteger():
            return fmt.width <= (8 if fmt.symmetric else 7)
        case Integer():
            return fmt.width <= (8 if fmt.signed else 7)
        case ScaledElement() if fmt.integer:
            return fmt.lowest >= -(2 ** (BITS[1] - 1))
        case _:
            return onnx.largest_code(fmt) <= 127


def _four(fmt: Format) -> bool:
    """Whether signed codes of 4 bits hold a format of groups."""
    match fmt:
        case ScaledInteger():
            return fmt.symmetric and fmt.width <= BITS[0]
        case ScaledElement() if fmt.integer:
            return fmt.lowest >= -(2 ** (BITS[0] - 1))
        case _:
            return onnx.largest_code(fmt) <= 7


def _grouped(node: Node, fmt: Format, group: int, columns: int) -> No | None:
    if not _four(fmt):
        return No("its groups have codes of more than 4 bits", f"Choose {GROUPS}.")
    if getattr(fmt, "scale_dtype", "bfloat16") != "bfloat16":
        return No("scales of groups are bfloat16", f"Choose {GROUPS}.")
    if group % MULTIPLE or columns % group:
        text = f"rows of {columns} in groups of {group}: groups must be a multiple of {MULTIPLE} and divide the rows"
        return No(text, "Choose scaled_integer(width=4).")
    if node.op not in LINEAR or not dynamic(node):
        return No("groups are multiplied with 8-bit inputs by row alone", f"Choose {DYNAMIC} for data_in.")
    return None


def _activation(node: Node, port: str, precision: Precision, graph: Graph) -> No | None:
    """Why an activation's format has no equal; None where it has one."""
    fmt = precision.format
    match fmt:
        case Integer():
            if fmt.element_bits > WIDEST:
                return No(f"activations have {WIDEST} bits at most", STATIC)
            return None if fmt.rounding == "nearest_even" else No("codes are rounded to nearest", STATIC)
        case ScaledInteger() if precision.scale is not None and fmt.per == TENSOR:
            return No(f"activations have {WIDEST} bits at most", STATIC) if fmt.element_bits > WIDEST else None
        case ScaledInteger() if precision.scale is None and from_rows(fmt):
            if port != "data_in" or node.op not in LINEAR:
                return No("scales from the data are those of inputs of linear layers", STATIC)
            if choice(node, "weight") is None or _weight(node, graph) is not None:
                return No(
                    "scales from the data need a weight in whole numbers", "Choose scaled_integer(width=8) there."
                )
            return None
        case ScaledInteger() if precision.scale is None and node.op in LINEAR and port == "data_in":
            return No("scales from the data are those of rows, without symmetry", f"Choose {DYNAMIC}, or calibrate.")
        case _:
            return No("activations are integers with one scale that is stored", STATIC)


def check(node: Node, graph: Graph) -> Iterator[Any]:
    """The choices of a node that the file has no equal of."""
    found: list[Unheld] = []
    if (why := _weight(node, graph)) is not None:
        found.append(why.at(node, "weight"))
    for port, precision in activation_formats(node, graph).items():
        if (why := _activation(node, port, precision, graph)) is not None:
            found.append(why.at_activation(node, port))
    yield from found


TARGETS.add("executorch", Target(check, lambda _: OWN))
