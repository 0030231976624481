"""Rule of nn.Linear."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import Lowering, lowers, stays_folded
from espalier.verilog.lowering.signal_order import rows_of
from espalier.verilog.lowering.sums import layer_sums, scaled_layer
from espalier.verilog.lowering.sums import summed as summed
from espalier.verilog.lowering.weights import Weights, weights
from espalier.verilog.rules.blocks import blocks_of, by_blocks
from espalier.verilog.templates.linear import Linear
from espalier.verilog.templates.linear_signs import LinearSigns


@lowers("linear")
def linear(low: Lowering, node: Node) -> None:
    """One instance; the weight's columns are permuted to the order of a row's elements."""
    layer = weights(low, node)
    if layer is None:
        raise EmitError(f"{node.id} multiplies two computed tensors.", "Trace the model from modules.", node.id)
    if layer.block or blocks_of(node):
        stays_folded(low, node, "its block format has shared exponents, which the unrolled engine does not support")
        published(low, node, *by_blocks(low, node, layer))
        return
    rows, (outputs, inputs) = math.prod(low.shape(node)[:-1]), layer.codes.shape
    if low.options.engine == "unrolled":
        _as_adders(low, node, layer)
        return
    par_in, par_out, tokens = low.parallel(node, inputs, outputs, rows)
    x = rows_of(low, node, node.inputs[0], par_in, tokens)
    layer = layer.picked(columns(x, node))
    sums = layer_sums(low, node, x.fixed, layer)
    make = partial(
        LinearSigns if layer.signs else Linear, name=node.id, node=node.id, inputs=(x.stream,), shape=low.shape(node),
        weight=layer.codes, weight_format=layer.form, bias=sums.biases, accumulator=sums.accumulator,
    )  # fmt: skip
    out = Stream(rows, outputs, sums.accumulator, par_out, tokens)
    wire, out = scaled_layer(low, node, make, (x.wire,), out, sums, pace=inputs // par_in)
    published(low, node, x, wire, out)


def _as_adders(low: Lowering, node: Node, layer: Weights) -> None:
    """Unrolled: all products of a row at once."""
    from espalier.verilog.lowering.unrolling import publish_relu, unrolled

    x = rows_of(low, node, node.inputs[0], layer.codes.shape[1])
    layer = layer.picked(columns(x, node))
    wire, out = unrolled(low, node, x, layer, layer_sums(low, node, x.fixed, layer))
    published(low, node, x, wire, out)
    publish_relu(low, node, wire)


def published(low: Lowering, node: Node, x: Signal, wire: Wire, out: Stream) -> None:
    """Publish the results, with rows in the order of the operand's rows."""
    first = x.index.reshape(out.rows, -1)[:, 0] // x.stream.size
    index = first[:, None] * out.size + np.arange(out.size)
    low.give(node, wire, out, index.reshape(-1))


def columns(x: Signal, node: Node) -> np.ndarray:
    """The weight column of each element of a row; raises EmitError unless all rows are contiguous in one order."""
    size = x.shape[-1] if x.shape else 1
    positions = x.index.reshape(-1, size)
    order = positions[0] % size
    if (
        x.stream.size != size
        or not (positions % size == order).all()
        or not (np.diff(positions // size, axis=1) == 0).all()
    ):
        raise EmitError(f"{node.id} reads rows that are not contiguous.", "Please report this.", node.id)
    return order
