"""Activations that need no table."""

from __future__ import annotations

from model.graph import Node
from verilog.lower import Lowering, lowers
from verilog.templates.relu import Relu


@lowers("relu")
def relu(low: Lowering, node: Node) -> None:
    """max(x, 0) in the format that comes; an unsigned input is left alone."""
    x = low.operand(node, node.inputs[0], "data_in")
    if x.fixed.signed:
        made = Relu(name=node.id, node=node.id, inputs=(x.stream,), outputs=(x.stream,), shape=x.shape)
        x = type(x)(low.add(made, (x.wire,)), x.stream, x.shape, x.index)
    low.publish(node, x)
