"""Formats as ONNX's QuantizeLinear and DequantizeLinear, with whole numbers of up to 16 bits in the file (opset 21)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from espalier.model.formats.base import Format
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.integer import Integer
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.scaled import TENSOR
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.ternary import Ternary
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice, weight_at
from espalier.model.graph.views import view_at
from espalier.passes.export.targets import TARGETS, No, Target, activation_formats

_SHARED = (ScaledInteger, ScaledElement, Ternary, BinaryScaled, PowerBlocks, NVFP4)
WIDEST, MOST = 16, 32767  # bits of an activation; the largest code of a weight
OWN = {"int8 per channel": "scaled_integer(width=8)", "int8": "scaled_integer(width=8, granularity=tensor)",
       "int4 in blocks of 32": "scaled_integer(width=4, granularity=group, group=32)"}  # fmt: skip
CHOOSE = "Choose scaled_integer(width=8)."


def stored(fmt: Format, rank: int, dtype: str) -> No | None:
    """Why a weight of `rank` axes, as its format sees it, lies in the file in float; None for whole numbers."""
    if dtype != "float32":
        return No(f"whole numbers are read as float32, and the weight is {dtype}", "Open the model in float32.")
    if rank != 2 and isinstance(fmt, _SHARED) and _per(fmt):
        return No(f"a tensor of {rank} axes has one scale there", "Choose a format with one scale for the tensor.")
    if largest_code(fmt) > MOST:
        return No(f"its values are no whole numbers up to {MOST} times a scale", CHOOSE)
    return None


def _per(fmt: Any) -> bool:
    """Whether parts of a tensor have scales of their own."""
    if isinstance(fmt, ScaledInteger | ScaledElement):
        return bool(fmt.per != TENSOR)
    return getattr(fmt, "granularity", "") != "tensor"


def largest_code(fmt: Format) -> float:
    """The largest value by the smallest positive one, which is the scale of the codes."""
    match fmt:
        case Integer():
            return 2.0 ** (fmt.width - fmt.signed) - 1
        case ScaledInteger():
            return float(fmt.top)
        case ScaledElement() if fmt.integer:
            return -fmt.lowest
        case Ternary() | BinaryScaled():
            return 1
        case PowerBlocks():
            whole = fmt.blocks.rows == 1 and not fmt.wide
            return float(fmt.grid.largest) / float(fmt.grid.value(np.int64(1))) if whole else np.inf
        case NVFP4():
            return 12 if fmt.blocks.rows == 1 else np.inf
        case _:
            positive = () if fmt.rowwise or fmt.element_bits > WIDEST else [v for v in fmt.codes() if v > 0]
            return float(max(positive) / min(positive)) if len(positive) else np.inf


def activation_unsayable(fmt: Format | None, *, calibrated: bool) -> str:
    """Why an activation's format has no equal in ONNX; empty where it has one. `calibrated`: its scale is stored."""
    match fmt:
        case Integer() | None:
            return ""
        case ScaledInteger() if fmt.scale_dtype != "float32" and not (calibrated and fmt.per == TENSOR):
            return f"its scales are {fmt.scale_dtype}s{'' if calibrated else ' taken from the data'}"
        case _:
            return f"it has more than {WIDEST} bits" if fmt.element_bits > WIDEST else ""


def check(node: Node, graph: Graph) -> Iterator[Any]:
    """The choices of a node that an ONNX file has no equal of, and weights that it holds in float."""
    chosen, name = choice(node, "weight"), weight_at(node, "weight", graph)
    if chosen is not None and name is not None and len(graph.weights[name].shape) > 1:
        weight, view = graph.weights[name], view_at(node, "weight")
        rank = len(view.shape(weight.shape) if view else weight.shape)
        why = stored(chosen.format, rank, weight.dtype) if node.call == "call_module" else None
        if node.call != "call_module":
            why = No("a weight that no module holds is written in float", "Leave it in float.")
        if why is not None:
            yield why.at(node, "weight")
    for port, precision in activation_formats(node, graph).items():
        if text := activation_unsayable(precision.format, calibrated=precision.scale is not None):
            yield No(text, CHOOSE).at_activation(node, port)


TARGETS.add("onnx", Target(check, lambda _: OWN))
