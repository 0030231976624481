"""Batch norms that were not folded into a layer, and affine maps: a scale and a shift for each channel or element."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, order
from espalier.verilog.numbers.fixed import Codes, Fixed
from espalier.verilog.templates.scale_shift import ScaleShift, totalled

SCALE_BITS = 16  # of a batch norm's scales, which share a fraction


@lowers("batch_norm")
def batch_norm(low: Lowering, node: Node) -> None:
    """y = x·m + b with m = γ / √(σ² + ε) in 16 bits and b = β − μ·m in the fraction of the products."""
    x = low.operand(node, node.inputs[0], "data_in")
    mean, variance = (_stored(low, node, name) for name in ("running_mean", "running_var"))
    gamma, beta = (_stored(low, node, name) for name in ("weight", "bias"))
    if mean is None or variance is None:
        text = f"{node.id} normalises by batch statistics."
        raise EmitError(text, "Use running statistics (track_running_stats=True).", node.id)
    scale = (1.0 if gamma is None else gamma) / np.sqrt(variance + float(argument(node, "eps", 7, 1e-5)))
    shift = (0.0 if beta is None else beta) - mean * scale
    low.publish(node, affine(low, node, x, _spread(x, scale, node), _spread(x, shift, node)))


def affine(low: Lowering, node: Node, x: Signal, scale: np.ndarray, shift: np.ndarray) -> Signal:
    """x · scale + shift with real numbers [rows, size]; scales are rounded to 16 bits."""
    form = multiplier_format(scale)
    frac = x.fixed.frac + form.frac
    added = np.rint(np.ldexp(shift, frac)).astype(np.int64)
    return scaled(low, node, x, (form.encode(scale), form), added, frac)


def scaled(low: Lowering, node: Node, x: Signal, scale: tuple[Codes, Fixed], shift: Codes, frac: int,
           exactly: bool = False) -> Signal:  # fmt: skip
    """x · scale + shift with codes [rows, size]; in the format of the node's result, or exact."""
    codes, form = scale
    total, added = totalled(x.stream, codes, form, shift, frac)
    to, rounding = (total, "nearest_even") if exactly else low.result(node, total)
    out = replace(x.stream, fixed=to)
    instance = ScaleShift(
        name=low.free(node.id), node=node.id, inputs=(x.stream,), outputs=(out,), shape=x.shape, scale=codes,
        scale_format=form, shift=added, total=total, rounding=rounding,
    )  # fmt: skip
    return replace(x, wire=low.add(instance, (x.wire,)), stream=out)


def multiplier_format(values: np.ndarray) -> Fixed:
    """The finest format of 16 bits that covers real numbers."""
    largest = float(np.abs(values).max(initial=0.0))
    exponent = math.frexp(largest)[1] if largest else 0
    candidate = Fixed(SCALE_BITS, SCALE_BITS - 1 - exponent)
    rounded = np.abs(np.rint(np.ldexp(values, candidate.frac))).max(initial=0)
    return candidate if rounded <= candidate.high else replace(candidate, frac=candidate.frac - 1)


def _spread(x: Signal, values: np.ndarray, node: Node) -> np.ndarray:
    """A value for each channel → one for each position of the stream."""
    count = x.index.size // len(values)
    if order(x, len(values)) is None and count != 1 and (x.index // count >= len(values)).any():
        raise EmitError(f"{node.id} has no channels.", "Please report this.", node.id)
    return values[x.index // count].reshape(x.stream.rows, x.stream.size)


def _stored(low: Lowering, node: Node, name: str) -> np.ndarray | None:
    """A tensor of the batch norm, quantised if it has a format; None if it is missing."""
    if name not in node.weights:
        return None
    if low.chosen(node, name) is not None:
        weight = low.weight(node, name)
        return None if weight is None else weight[1].values(weight[0])
    from espalier.model.torch.tensors import to_torch

    key = low.graph.weights[node.weights[name]].key
    if key is None:
        raise EmitError("The model was opened without weights.", "Open it with weights.", node.id)
    return to_torch(low.store.get(key)).double().numpy()
