"""Gated linear units: one half of a tensor times the sigmoid of the other half."""

from __future__ import annotations

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import BATCH_AXIS, argument, unsupported
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.activation import apply_table
from espalier.verilog.rules.elementwise import combine_streams
from espalier.verilog.rules.indices import select_elements

GATE = Fixed(12, 11, False)  # of the sigmoid, which is 1 at most


@lowers("glu")
def gated(low: Lowering, node: Node) -> None:
    """The sigmoid by table, then a product."""
    axis = low.axis(node, int(argument(node, "dim", 1, -1)), "data_in")
    if axis < 0:
        raise unsupported(node, BATCH_AXIS, "Apply it over an axis of the sample.")
    x = low.operand(node, node.inputs[0], "data_in")
    first, second = np.split(np.arange(x.index.size).reshape(x.shape), 2, axis)
    gate = apply_table(low, node, select_elements(low, node, x, second), _sigmoid, GATE, "nearest_even")
    low.publish(node, combine_streams(low, node, "mul", select_elements(low, node, x, first), gate))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
