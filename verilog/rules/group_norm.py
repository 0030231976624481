"""Group and instance norms: each group is normalised as a row, then scaled and shifted by channel."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, unsupported
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.attention import required_format
from espalier.verilog.rules.norm import batch_norm, scaled
from espalier.verilog.rules.row_norm import normalised_rows

FINER = 6  # extra fraction bits of the normalised value


@lowers("group_norm", "instance_norm")
def group_norm(low: Lowering, node: Node) -> None:
    """An instance norm has a group per channel; with running statistics it is a batch norm."""
    if node.call == "call_function" and node.inputs[1:]:
        raise unsupported(node, "weights as arguments", "Trace the model from modules.")
    if node.op == "instance_norm" and "running_mean" in node.weights:
        batch_norm(low, node)
        return
    x = low.operand(node, node.inputs[0], "data_in")
    channels, shape = x.shape[0], x.shape
    groups = int(argument(node, "num_groups", 1, channels)) if node.op == "group_norm" else channels
    eps = float(argument(node, "eps", 4 if node.op == "group_norm" else 7, 1e-5) or 0.0)
    gamma, beta = (low.weight(node, name) for name in ("weight", "bias"))
    to, rounding = required_format(low, node)
    integer_bits = math.isqrt(x.index.size // groups).bit_length() + 1  # |normalised value| ≤ √(group size)
    between = to if gamma is None else Fixed(1 + integer_bits + to.frac + FINER, to.frac + FINER)
    x = x.viewed(np.arange(x.index.size).reshape(groups, -1))
    result = normalised_rows(low, node, x, True, eps, (None, None), (between, rounding))
    result = Signal(result.wire, result.stream, shape, result.index)
    if gamma is not None:
        at = result.index.reshape(result.stream.rows, -1) * channels // result.index.size
        frac = between.frac + gamma[1].frac
        shift = np.zeros(channels) if beta is None else beta[1].values(beta[0]).reshape(-1)
        added = np.rint(np.ldexp(shift, frac)).astype(np.int64)
        result = scaled(low, node, result, (gamma[0].reshape(-1)[at], gamma[1]), added[at], frac)
    low.publish(node, replace(result, shape=low.shape(node)))
