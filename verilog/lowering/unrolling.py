"""Unrolled layers, as adders: size limit, ranges of their operands, and fusion with the ReLU behind them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node, Ref
from espalier.verilog.constant.network import Range
from espalier.verilog.constant.solve import expected_bits
from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.lowering.sums import Sums, scaled_layer
from espalier.verilog.lowering.weights import Weights
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.numbers.scaled import plain
from espalier.verilog.templates.lines import Lines
from espalier.verilog.templates.relu import Relu
from espalier.verilog.templates.reorder import Reorder
from espalier.verilog.templates.resize import Resize
from espalier.verilog.templates.unrolled import Unrolled
from espalier.verilog.templates.window import Walk

MOST = 200_000  # adder bits of a layer, about as many look-up tables


def unrolled(low: Lowering, node: Node, x: Signal, weights: Weights, sums: Sums) -> tuple[Wire, Stream]:
    """A layer as adders, with a row of its operand per beat; fused with the ReLU that is its only reader, if any."""
    check_size(node, weights.codes, x)
    relu = fusible_relu(low, node) if sums.scale is None else None
    make = partial(
        Unrolled, name=node.id, node=node.id, inputs=(x.stream,), shape=low.shape(node), weight=weights.codes,
        weight_format=weights.form, bias=sums.biases, accumulator=sums.accumulator, span=span_of(low, x),
        every=low.options.adders, relu=relu is not None,
    )  # fmt: skip
    outputs = len(weights.codes)
    return scaled_layer(low, node, make, (x.wire,), Stream(x.stream.rows, outputs, sums.accumulator, outputs), sums)


def check_size(node: Node, weight: Codes, x: Signal) -> None:
    """Raise EmitError for a layer that would take too many adders."""
    bits = expected_bits(weight, (x.fixed.low, x.fixed.high))
    if bits > MOST:
        text = f"{node.id} is too large to unroll: its adders have about {bits:,} bits; the limit is {MOST:,}."
        hint = 'Emit it folded (engine = "folded"), prune it, or choose narrower weights.'
        raise EmitError(text.replace(",", " "), hint, node.id)


def fusible_relu(low: Lowering, node: Node) -> Node | None:
    """The ReLU without formats that is the only reader of a node; None otherwise."""
    readers = [n for n in low.graph if any(ref == Ref(node.id) for ref in n.inputs)]
    alone = len(readers) == 1 and readers[0].op == "relu" and not readers[0].precision
    return readers[0] if alone else None


def publish_relu(low: Lowering, node: Node, wire: Wire) -> None:
    """Publish a node's result as that of the ReLU fused into it; raises EmitError for a clash of module names."""
    instance = next(i for i in low.instances if i.name == wire.source)
    if instance.module == low.options.name:
        raise EmitError(f"The module of {node.id} has the name of the top, {instance.module}.", "Choose another name.")
    if isinstance(instance, Unrolled) and instance.relu and (relu := fusible_relu(low, node)) is not None:
        low.publish(relu, low.signals[Ref(node.id)])


def span_of(low: Lowering, x: Signal) -> Range:
    """Range of a signal's codes: not negative behind a ReLU."""
    wire, least = x.wire, x.fixed.low
    if not plain(x.fixed):
        return least, x.fixed.high
    while wire.source:
        instance = next(i for i in low.instances if i.name == wire.source)
        if isinstance(instance, Relu) or (isinstance(instance, Unrolled) and instance.relu):
            return 0, x.fixed.high
        if not isinstance(instance, Resize | Reorder | Lines):
            break
        wire = low.wires[instance.name][0]
    return least, x.fixed.high


def line_windows(low: Lowering, node: Node, x: Signal, walk: Walk, pad: int) -> Signal:
    """Windows of one beat each over an image of a pixel per beat; the signal's `index` is a placeholder."""
    size = walk.taps * x.stream.size
    out = Stream(walk.places, size, x.fixed, size)
    instance = Lines(name=low.free(f"{node.id}_lines"), node=node.id, inputs=(x.stream,), outputs=(out,), walk=walk,
                     pad=pad, shape=(walk.places, size))  # fmt: skip
    return Signal(low.add(instance, (x.wire,)), out, (out.rows, size), np.arange(out.elements))


def block_diagonal(groups: int, weights: Weights) -> Weights:
    """Weights of a grouped convolution [outputs, channels of a group · taps] over all channels, zero elsewhere."""
    outputs, per = weights.codes.shape
    if groups == 1:
        return weights
    codes = np.zeros((groups, outputs // groups, groups, per), np.int64)
    for k in range(groups):
        codes[k, :, k] = weights.codes.reshape(groups, -1, per)[k]
    return replace(weights, codes=codes.reshape(outputs, groups * per))
