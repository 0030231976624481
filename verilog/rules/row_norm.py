"""LayerNorm and RMS norm over the last axis."""

from __future__ import annotations

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal, rows_and_size
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, unsupported
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, Rounding
from espalier.verilog.rules.attention import required_format, whole_rows
from espalier.verilog.rules.linear import columns
from espalier.verilog.templates.norm import Norm

ONE = Fixed(2, 0)
FLOAT_EPS = float(np.finfo(np.float32).eps)


@lowers("layer_norm", "rms_norm")
def row_norm(low: Lowering, node: Node) -> None:
    """Normalise each row of the last axis; gamma and beta are permuted to the order of its elements."""
    axes = argument(node, "normalized_shape", 1, None)
    if isinstance(axes, tuple) and len(axes) > 1:
        raise unsupported(node, f"normalized_shape={axes}", "Normalise over the last axis.")
    if node.call == "call_function" and node.inputs[1:]:
        raise unsupported(node, "weights as arguments", "Trace the model from modules.")
    gamma, beta = (low.weight(node, name) for name in ("weight", "bias"))
    x = low.operand(node, node.inputs[0], "data_in")
    normalised(low, node, x, node.op == "layer_norm", _eps(node), gamma, beta)


def normalised(low: Lowering, node: Node, x: Signal, centered: bool, eps: float,
               gamma: tuple[Codes, Fixed] | None, beta: tuple[Codes, Fixed] | None = None) -> None:  # fmt: skip
    """Publish the normalised rows of x as the node's result."""
    result = normalised_rows(low, node, x, centered, eps, (gamma, beta), required_format(low, node))
    low.give(node, result.wire, result.stream, result.index)


def normalised_rows(low: Lowering, node: Node, x: Signal, centered: bool, eps: float,
                    constants: tuple[tuple[Codes, Fixed] | None, tuple[Codes, Fixed] | None],
                    result: tuple[Fixed, Rounding]) -> Signal:  # fmt: skip
    """The rows of x's last axis, normalised to a format; `constants`: scale and shift of each element of a row."""
    (gamma, beta), (to, rounding), size = constants, result, rows_and_size(x.shape)[1]
    par, _, _ = low.parallel(node, size, 1)
    x = low.resize(node, whole_rows(low, node, x), par, 1)
    order = columns(x, node)
    scale, form = gamma or (np.ones(size, np.int64), ONE)
    shift, added = beta or (np.zeros(size, np.int64), ONE)
    out = Stream(x.stream.rows, size, to, par)
    instance = Norm(
        name=node.id, node=node.id, inputs=(x.stream,), outputs=(out,), shape=x.shape, centered=centered,
        eps=round(eps * size**2 * 4.0**x.fixed.frac), gamma=_one(scale, size)[order], gamma_format=form,
        beta=_one(shift, size)[order], beta_frac=added.frac, rounding=rounding,
    )  # fmt: skip
    widest = max(instance.parameters()[k] for k in ("V_W", "ACC_W"))
    if widest > WIDEST:
        text = f"The sums of {node.id} need {widest} bits; {WIDEST} are supported."
        raise EmitError(text, "Choose narrower formats for its data_in and weight.", node.id)
    return Signal(low.add(instance, (x.wire,)), out, x.shape, x.index)


def _one(codes: Codes, size: int) -> Codes:
    return np.broadcast_to(codes.reshape(-1), (size,))


def _eps(node: Node) -> float:
    eps = argument(node, "eps", 4 if node.op == "layer_norm" else 3, None)
    return float(eps) if eps is not None else 1e-5 if node.op == "layer_norm" else FLOAT_EPS
