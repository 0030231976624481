"""Formats of activations move up to the operation that computes them, through what only moves or clips values.

Rounding to the nearest is monotone and keeps what is on the grid, so that maxima, reshapes and clips of rounded values
are the rounded maxima, reshapes and clips: nothing changes, and both ends of these operations are quantised.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from espalier.passes.export.fusing.layers import computes_in_integers
from espalier.passes.export.fusing.values import Grid, Writer, activation, array, only_use, operand, producer, read_as

MOVES = ("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze")
CLIPS = ("Relu", "Clip")


def move_up(graph: ir.Graph, write: Writer, *, exact: bool) -> None:
    """Round the inputs of such operations between integers and a rounding; drop clips at the ends of a grid."""
    for node in reversed(list(graph)):  # from the results, so that a chain moves as a whole
        if node.op_type not in (*MOVES, *CLIPS) or node.domain:
            continue
        grid, source = read_as(node.outputs[0]), node.inputs[0]
        if grid is None or source is None or source.dtype != ir.DataType.FLOAT:
            continue
        if node.op_type in CLIPS and covers(node, grid):
            write.replace(node.outputs[0], source)
        elif only_use(source) is node and _begins_in_integers(source, exact=exact):
            node.replace_input_with(0, write.rounded(node, source, grid))


def _begins_in_integers(value: ir.Value, *, exact: bool) -> bool:
    """Whether there is a quantised end above, through operations of one reader that move or clip."""
    node = producer(value)
    while node is not None and node.op_type in (*MOVES, *CLIPS) and only_use(operand(node)) is node:
        value = operand(node)
        node = producer(value)
    if node is None or node.op_type == "DequantizeLinear":
        return node is not None
    if node.op_type == "Add":
        return all(activation(v) is not None for v in node.inputs)
    return computes_in_integers(value, exact=exact)


def covers(node: ir.Node, grid: Grid) -> bool:
    """Whether a clip keeps every value that the grid tells apart."""
    ends = clip_ends(node)
    return ends is not None and grid.step(ends[0]) <= grid.ends[0] and grid.step(ends[1]) >= grid.ends[1]


def clip_ends(node: ir.Node) -> tuple[float, float] | None:
    """The ends of a Relu or of a Clip with constant ends."""
    if node.op_type == "Relu":
        return 0.0, math.inf
    ends = [-math.inf, math.inf]
    for i, value in enumerate(node.inputs[1:3]):
        if value is not None:
            found = array(value)
            if found is None:
                return None
            ends[i] = float(found.reshape(()))
    return ends[0], ends[1]
