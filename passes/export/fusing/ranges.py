"""Grids of activations without a clip of their own: what an 8-bit code cannot hold, and what is never negative.

A symmetric format ends at −127, an int8 at −128; after a Relu the half of its codes is never used. In `exact` these
stay as the format has them.
"""

from __future__ import annotations

import onnx_ir as ir

from espalier.passes.export.fusing.moved_grids import MOVES, clip_ends
from espalier.passes.export.fusing.values import (
    Grid,
    Writer,
    activation,
    only_use,
    operand,
    producer,
    quantiser,
    read_as,
)

POSITIVE = ("Sigmoid", "Softmax", "Abs", "Exp")


def drop_clips(graph: ir.Graph, write: Writer, *, exact: bool) -> list[str]:
    """Remove clips before a QuantizeLinear that change nothing, or only code −128; returns the names of the latter."""
    changed: list[str] = []
    for node in [n for n in graph if n.op_type == "Clip"]:
        grid, ends = read_as(node.outputs[0]), clip_ends(node)
        if grid is None or ends is None or grid.step(ends[1]) < grid.ends[1]:
            continue
        if ends[0] == 0 and grid.ends[0] < 0:  # a Relu and the clip of its format in one
            write.replace(node.outputs[0], write.node(node, "Relu", (operand(node),), like=node.outputs[0]))
            continue
        spare = grid.step(ends[0]) - grid.ends[0]
        if spare <= 0 or never_negative(operand(node)) or (spare == 1 and not exact):
            if spare > 0 and not never_negative(operand(node)):
                changed.append(operand(node).name or "")
            write.replace(node.outputs[0], operand(node))
    return changed


def use_whole_range(graph: ir.Graph, write: Writer) -> list[str]:
    """Codes of what is never negative as uint8 without zero point, so that a Relu needs no clip; returns the names."""
    changed: list[str] = []
    for node in [n for n in graph if n.op_type == "QuantizeLinear"]:
        grid = quantiser(node)
        if grid is None or grid.dtype is not ir.DataType.INT8 or grid.zero or not never_negative(operand(node)):
            continue
        readers = [use.node for use in node.outputs[0].uses()]
        if any(quantiser(r) != grid for r in readers):
            continue
        changed.append(operand(node).name or "")
        made = write.rounded(node, operand(node), Grid(grid.scale, 0, ir.DataType.UINT8))
        for reader in readers:
            write.replace(reader.outputs[0], made)
    return changed


def pool_first(graph: ir.Graph, write: Writer) -> None:
    """Move a Relu that a table will compute behind the maximum of windows, where it has fewer values."""
    for pool in [n for n in graph if n.op_type == "MaxPool" and len(n.outputs) == 1]:
        relu, grid = producer(pool.inputs[0], "Relu"), read_as(pool.outputs[0])
        if relu is None or grid is None or grid.ends[0] >= 0 or only_use(relu.outputs[0]) is not pool:
            continue
        like = pool.outputs[0]
        value = write.node(pool, "MaxPool", (relu.inputs[0],), dict(pool.attributes), like=like)
        write.replace(like, write.node(pool, "Relu", (value,), like=like))


def relus_by_table(graph: ir.Graph, write: Writer) -> None:
    """A Relu between equal grids that do not end at 0 as a LeakyRelu of slope 0, which onnxruntime has for codes."""
    for node in [n for n in graph if n.op_type == "Relu"]:
        grid = activation(operand(node))
        if grid is not None and read_as(node.outputs[0]) == grid:
            made = write.node(node, "LeakyRelu", (operand(node),), {"alpha": 0.0}, like=node.outputs[0])
            write.replace(node.outputs[0], made)


def never_negative(value: ir.Value | None) -> bool:
    """Whether a value comes out of an operation that has no negative results, through moves alone."""
    node = producer(value)
    while node is not None and node.op_type in MOVES:
        node = producer(operand(node))
    if node is None or node.domain:
        return False
    if node.op_type in ("Relu", "Clip"):
        ends = clip_ends(node)
        return ends is not None and ends[0] >= 0
    if node.op_type == "DequantizeLinear":
        grid = quantiser(node)
        return grid is not None and grid.scale > 0 and grid.ends[0] >= 0
    return node.op_type in POSITIVE
