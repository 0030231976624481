"""Formats that OpenVINO reads from ONNX's operators: whole numbers of 4 or 8 bits, activations of at most 8.

Observed with OpenVINO 2026.4 on the processor (tests/passes/export/openvino).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from espalier.model.formats.base import Format
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.integer import Integer
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice, weight_at
from espalier.model.graph.views import view_at
from espalier.passes.export.targets import TARGETS, No, Target, Unheld, activation_formats, onnx

WIDEST = 8  # bits of an activation with a scale in the file
INSTEAD = "Choose scaled_integer(width=8)."


def group_of(fmt: Format) -> int:
    """Elements of a row that share a scale; 0 where a whole row or tensor does."""
    match fmt:
        case PowerBlocks() | NVFP4():
            return fmt.blocks.block
        case _:
            return int(getattr(fmt, "group", 0)) if getattr(fmt, "granularity", "") == "group" else 0


def misread(fmt: Format, columns: int) -> str:
    """Why a format of 4-bit codes in rows of so many columns is not read right; empty where it is, or has wider codes.

    Codes of a wider format can fit in 4 bits: `misplaced` tells of those.
    """
    match fmt:
        case ScaledInteger():
            narrow = 8 if fmt.symmetric else 15
        case _:
            narrow = 8
    return "" if onnx.largest_code(fmt) > narrow else misplaced(group_of(fmt), columns)


def misplaced(group: int, columns: int) -> str:
    """Why 4-bit codes in groups of so many (0: none) in rows of so many columns are not read right; empty where so.

    Where rows end in a part of a group, OpenVINO 2026.4 ends its process or computes other values; with rows of an odd
    length it computes other values from the fifth row of a batch on.
    """
    if group and columns % group:
        return f"rows of {columns} are no multiple of its groups of {group}"
    return f"OpenVINO misreads 4-bit rows of an odd length ({columns})" if columns % 2 else ""


def _coarse(fmt: Format | None, *, calibrated: bool) -> bool:
    """Whether an activation has a stored scale and more bits than OpenVINO rounds to."""
    match fmt:
        case Integer():
            return fmt.element_bits > WIDEST
        case ScaledInteger():
            return calibrated and fmt.element_bits > WIDEST
        case _:
            return False


def check(node: Node, graph: Graph) -> Iterator[Any]:
    """The choices of a node that the file has no equal of."""
    found: list[Unheld] = list(onnx.check(node, graph))
    yield from found
    chosen, name = choice(node, "weight"), weight_at(node, "weight", graph)
    if chosen is not None and name is not None and all(u.port != "weight" for u in found):
        view, shape = view_at(node, "weight"), graph.weights[name].shape
        why = misread(chosen.format, (view.shape(shape) if view else shape)[-1]) if len(shape) == 2 else ""
        if why:
            yield No(why, INSTEAD).at(node, "weight")
    for port, precision in activation_formats(node, graph).items():
        if _coarse(precision.format, calibrated=precision.scale is not None):
            yield No(f"activations are rounded to {WIDEST} bits at most", INSTEAD).at_activation(node, port)


TARGETS.add("openvino", Target(check, lambda _: onnx.OWN))
