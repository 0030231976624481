"""Group and instance norms: rows of whole groups are normalised, then scaled and shifted channel by channel."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, unsupported
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.attention import needed
from espalier.verilog.rules.norm import batch_norm, scaled
from espalier.verilog.rules.row_norm import normalised_rows

FINER = 6  # places of what is normalised beyond those of the result


@lowers("group_norm", "instance_norm")
def group_norm(low: Lowering, node: Node) -> None:
    """An instance norm is one whose groups are channels; with running statistics it is a batch norm."""
    if node.call == "call_function" and node.inputs[1:]:
        raise unsupported(node, "weights from outside", "Trace the model from modules.")
    if node.op == "instance_norm" and "running_mean" in node.weights:
        batch_norm(low, node)
        return
    x = low.operand(node, node.inputs[0], "data_in")
    channels, kept = x.shape[0], x.shape
    groups = int(argument(node, "num_groups", 1, channels)) if node.op == "group_norm" else channels
    eps = float(argument(node, "eps", 4 if node.op == "group_norm" else 7, 1e-5) or 0.0)
    gamma, beta = (low.weight(node, name) for name in ("weight", "bias"))
    to, rounding = needed(low, node)
    whole = math.isqrt(x.index.size // groups).bit_length() + 1  # no value is further off than the root of their number
    between = to if gamma is None else Fixed(1 + whole + to.frac + FINER, to.frac + FINER)
    x = x.viewed(np.arange(x.index.size).reshape(groups, -1))
    made = normalised_rows(low, node, x, True, eps, (None, None), (between, rounding))
    made = Signal(made.wire, made.stream, kept, made.index)
    if gamma is not None:
        at = made.index.reshape(made.stream.rows, -1) * channels // made.index.size
        frac = between.frac + gamma[1].frac
        shift = np.zeros(channels) if beta is None else beta[1].values(beta[0]).reshape(-1)
        added = np.rint(np.ldexp(shift, frac)).astype(np.int64)
        made = scaled(low, node, made, (gamma[0].reshape(-1)[at], gamma[1]), added[at], frac)
    low.publish(node, replace(made, shape=low.shape(node)))
