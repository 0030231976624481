"""Layers as adders: which may be, what their operand keeps to, and the ReLU behind them that costs nothing."""

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
from espalier.verilog.lowering.sums import Sums, finished
from espalier.verilog.lowering.weights import Weights
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.numbers.scaled import plain
from espalier.verilog.templates.lines import Lines
from espalier.verilog.templates.relu import Relu
from espalier.verilog.templates.reorder import Reorder
from espalier.verilog.templates.resize import Resize
from espalier.verilog.templates.unrolled import Unrolled
from espalier.verilog.templates.window import Walk

MOST = 200_000  # bits that the adders of a layer may add: about as many look-up tables


def unrolled(low: Lowering, node: Node, x: Signal, held: Weights, sums: Sums) -> tuple[Wire, Stream]:
    """A layer whose operand comes a row a beat, as adders; with the ReLU behind it, where nobody else reads it."""
    check_size(node, held.codes, x, sums)
    behind = relu_behind(low, node) if sums.scale is None else None
    make = partial(
        Unrolled, name=node.id, node=node.id, inputs=(x.stream,), shape=low.shape(node), weight=held.codes,
        weight_format=held.form, bias=sums.biases, accumulator=sums.accumulator, span=span_of(low, x),
        every=low.options.adders, relu=behind is not None,
    )  # fmt: skip
    outputs = len(held.codes)
    return finished(low, node, make, (x.wire,), Stream(x.stream.rows, outputs, sums.accumulator, outputs), sums)


def check_size(node: Node, weight: Codes, x: Signal, sums: Sums) -> None:
    """Raises EmitError for a layer that would take too many adders."""
    bits = expected_bits(weight, (x.fixed.low, x.fixed.high))
    if bits > MOST:
        text = f"{node.id} is too large to unroll: its adders would add about {bits:,} bits; {MOST:,} are the most."
        hint = 'Emit it folded (engine = "folded"), prune it, or choose narrower weights.'
        raise EmitError(text.replace(",", " "), hint, node.id)


def relu_behind(low: Lowering, node: Node) -> Node | None:
    """The ReLU without formats of its own that alone reads a node's result."""
    readers = [n for n in low.graph if any(ref == Ref(node.id) for ref in n.inputs)]
    alone = len(readers) == 1 and readers[0].op == "relu" and not readers[0].precision
    return readers[0] if alone else None


def passed_on(low: Lowering, node: Node, wire: Wire) -> None:
    """The ReLU that is done with a node gives what the node gives."""
    made = next(i for i in low.instances if i.name == wire.source)
    if made.module == low.options.name:
        raise EmitError(f"The module of {node.id} has the name of the top, {made.module}.", "Choose another name.")
    if isinstance(made, Unrolled) and made.relu and (behind := relu_behind(low, node)) is not None:
        low.publish(behind, low.signals[Ref(node.id)])


def span_of(low: Lowering, x: Signal) -> Range:
    """What the codes of a signal keep to: behind a ReLU none is below 0."""
    wire, least = x.wire, x.fixed.low
    if not plain(x.fixed):
        return least, x.fixed.high
    while wire.source:
        made = next(i for i in low.instances if i.name == wire.source)
        if isinstance(made, Relu) or (isinstance(made, Unrolled) and made.relu):
            return 0, x.fixed.high
        if not isinstance(made, Resize | Reorder | Lines):
            break
        wire = low.wires[made.name][0]
    return least, x.fixed.high


def lined(low: Lowering, node: Node, x: Signal, walk: Walk, pad: int) -> Signal:
    """The windows over an image whose pixels come in a beat, each in one beat as well; its `index` means nothing."""
    size = walk.taps * x.stream.size
    out = Stream(walk.places, size, x.fixed, size)
    made = Lines(name=low.free(f"{node.id}_lines"), node=node.id, inputs=(x.stream,), outputs=(out,), walk=walk,
                 pad=pad, shape=(walk.places, size))  # fmt: skip
    return Signal(low.add(made, (x.wire,)), out, (out.rows, size), np.arange(out.elements))


def whole(groups: int, held: Weights) -> Weights:
    """The weights of a convolution in groups [outputs, channels of a group · taps] over all channels."""
    outputs, per = held.codes.shape
    if groups == 1:
        return held
    codes = np.zeros((groups, outputs // groups, groups, per), np.int64)
    for k in range(groups):
        codes[k, :, k] = held.codes.reshape(groups, -1, per)[k]
    return replace(held, codes=codes.reshape(outputs, groups * per))
