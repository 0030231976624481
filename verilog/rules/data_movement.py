"""Reshapes and identities: they only change the order of elements in a signal, without hardware."""

from __future__ import annotations

import numpy as np

from espalier.model.graph.graph import Node
from espalier.model.graph.ops import floating
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import unsupported


@lowers("flatten", "view", "reshape", "identity", "dropout", "contiguous", "clone", "unsqueeze", "squeeze", "unflatten",
        "detach", "alias", "kv_cache", "to")  # fmt: skip
def same_order(low: Lowering, node: Node) -> None:
    """A new shape for the same elements in the same order."""
    if not floating(node.out):
        raise unsupported(
            node, f"a result of {node.out.dtype if node.out else 'no type'}", "Keep it a floating tensor."
        )
    x = low.operand(node, node.inputs[0], "data_in")
    picked = np.arange(int(np.prod(x.shape))).reshape(low.shape(node))
    low.publish(node, x.viewed(picked))
