"""Log-softmax: d − log Σ exp(d) with d = x − max x."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import BATCH_AXIS, argument, unsupported
from espalier.verilog.numbers.fixed import Fixed, covering
from espalier.verilog.rules.activation import apply_table
from espalier.verilog.rules.attention import required_format, whole_rows
from espalier.verilog.rules.elementwise import combine_streams
from espalier.verilog.templates.fold import Fold, FoldMax, FoldSum
from espalier.verilog.templates.lut import WIDEST

POWERS = Fixed(16, 15, False)  # of the exponentials, at most 1
GUARD = 4  # extra fraction bits of the logarithm


@lowers("log_softmax")
def log_softmax(low: Lowering, node: Node) -> None:
    """Log-softmax over any axis of a sample, an element per cycle; exact except for two tables."""
    axis = low.axis(node, int(argument(node, "dim", 1, -1)))
    if axis < 0:
        raise unsupported(node, BATCH_AXIS, "Apply it over an axis of the sample.")
    x = low.operand(node, node.inputs[0], "data_in")
    moved = np.moveaxis(np.arange(x.index.size).reshape(x.shape), axis, -1)
    x = x.viewed(moved)
    x = low.resize(node, whole_rows(low, node, x), 1, 1)
    to, _ = required_format(low, node)
    stream, count = x.stream, x.shape[-1]
    rows = Signal(
        x.wire, stream, (stream.rows, count), np.arange(stream.elements)
    )  # the order within a row does not matter
    low_by = combine_streams(low, node, "sub", rows, _folded(low, node, rows, FoldMax, stream.fixed), exactly=True)
    powers = apply_table(low, node, low_by, np.exp, POWERS, "nearest_even")
    integer_bits = count.bit_length()
    total = _folded(low, node, powers, FoldSum, Fixed(WIDEST, min(POWERS.frac, WIDEST - integer_bits), False))
    frac = to.frac + GUARD
    logs = covering(0, int(np.ceil(np.ldexp(np.log(count), frac))) + 1, frac)
    result = combine_streams(low, node, "sub", low_by, apply_table(low, node, total, _log, logs, "nearest_even"))
    back = np.argsort(moved.reshape(-1)).reshape(low.shape(node))
    low.publish(node, replace(x, wire=result.wire, stream=result.stream).viewed(back))


def _folded(low: Lowering, node: Node, x: Signal, kind: type[Fold], to: Fixed) -> Signal:
    """Reduce each row to one number."""
    rows, count = x.shape
    elements, out = Stream(rows * count, 1, x.fixed), Stream(rows, 1, to)
    fold = kind(name=low.free(node.id), node=node.id, inputs=(elements,), outputs=(out,), count=count, shape=(rows, 1))
    return Signal(low.add(fold, (x.wire,)), out, (rows, 1), np.arange(rows))


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of a sum of exponentials, which is at least 1."""
    return np.log(np.maximum(values, 1.0))
