"""Elementwise functions: ReLU as a module, all others by tables of torch's results in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, unsupported
from espalier.verilog.numbers.fixed import Fixed, Rounding, covering
from espalier.verilog.rules.norm import scaled
from espalier.verilog.templates.lut import WHOLE, WIDEST, Function, Lut, Pieces, fit_segments, tabled
from espalier.verilog.templates.relu import Relu

# op → options of torch's function of that name: (name, position among a call's arguments, default).
OPTIONS: dict[str, tuple[tuple[str, int, Any], ...]] = {
    "gelu": (("approximate", 1, "none"),), "leaky_relu": (("negative_slope", 1, 0.01),), "elu": (("alpha", 1, 1.0),),
    "celu": (("alpha", 1, 1.0),), "softplus": (("beta", 1, 1.0), ("threshold", 2, 20.0)),
    "hardtanh": (("min_val", 1, -1.0), ("max_val", 2, 1.0)), "clamp": (("min", 1, None), ("max", 2, None)),
    "clamp_min": (("min", 1, None),), "clamp_max": (("max", 1, None),), "pow": (("exponent", 1, None),),
}  # fmt: skip
PLAIN = ("silu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "relu6", "mish", "selu", "logsigmoid", "softsign")
MATHS = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "erf", "abs", "sin", "cos", "square", "exp2", "log2", "log1p",
         "expm1", "sign", "floor", "ceil", "round", "neg")  # fmt: skip
# Functions whose results fit the operand's format.
KEEP = ("abs", "neg", "sign", "floor", "ceil", "round")


@lowers("relu")
def relu(low: Lowering, node: Node) -> None:
    """max(x, 0) in the input's format; the identity for unsigned inputs."""
    x = low.operand(node, node.inputs[0], "data_in")
    if x.fixed.signed:
        instance = Relu(name=node.id, node=node.id, inputs=(x.stream,), outputs=(x.stream,), shape=x.shape)
        x = type(x)(low.add(instance, (x.wire,)), x.stream, x.shape, x.index)
    low.publish(node, x)


@lowers(*OPTIONS, *PLAIN, *MATHS)
def by_table(low: Lowering, node: Node) -> None:
    """A table of all codes up to 10 bits, fitted line segments for wider ones."""
    if node.op == "round" and argument(node, "decimals", 1, 0) != 0:
        raise unsupported(node, f"decimals={argument(node, 'decimals', 1, 0)}", "Round to whole numbers.")
    x = low.operand(node, node.inputs[0], "data_in")
    if node.op == "neg" and x.fixed.width > WHOLE:
        ones = np.ones((x.stream.rows, x.stream.size), np.int64)
        low.publish(node, scaled(low, node, x, (-ones, Fixed(2, 0)), 0 * ones, x.fixed.frac))
        return
    to, rounding = _result(low, node, x.fixed)
    low.publish(node, apply_table(low, node, x, function_of(node), to, rounding))


@lowers("prelu")
def prelu(low: Lowering, node: Node) -> None:
    """PReLU with a single slope."""
    stored = low.weight(node, "weight")
    if stored is None or stored[0].size != 1:
        raise unsupported(node, "several slopes", "Use one slope for all channels.")
    slope = float(stored[1].values(stored[0]).reshape(()))
    x = low.operand(node, node.inputs[0], "data_in")
    to, rounding = _result(low, node, x.fixed)
    low.publish(node, apply_table(low, node, x, lambda v: np.where(v > 0, v, v * slope), to, rounding))


def apply_table(low: Lowering, node: Node, x: Signal, function: Function, to: Fixed, rounding: Rounding) -> Signal:
    """A signal through a function, as a table."""
    if x.fixed.width > WIDEST:
        text = f"{node.id} ({node.op}) reads {x.fixed.width} bits; tables are made for {WIDEST}."
        raise EmitError(text, "Choose a narrower format for its data_in.", node.id)
    out = replace(x.stream, fixed=to)
    instance = _table(low.free(node.id), node.id, x, out, function, rounding)
    return replace(x, wire=low.add(instance, (x.wire,)), stream=out)


def _table(name: str, node: str, x: Signal, out: Stream, function: Function, rounding: Rounding) -> Template:
    if x.fixed.width <= WHOLE:
        return Lut(name=name, node=node, inputs=(x.stream,), outputs=(out,), shape=x.shape,
                   table=tabled(function, x.fixed, out.fixed, rounding))  # fmt: skip
    return Pieces(name=name, node=node, inputs=(x.stream,), outputs=(out,), shape=x.shape,
                  lines=fit_segments(function, x.fixed, out.fixed), rounding=rounding)  # fmt: skip


def _result(low: Lowering, node: Node, x: Fixed) -> tuple[Fixed, Rounding]:
    """The chosen format; for ops that keep to their operand's steps one that holds all that may come."""
    exact = _rounded_format(x) if node.op in KEEP else None
    result = low.result(node, exact or Fixed(1, 0))
    if exact is None and low.chosen(node, "data_out") is None and result == (Fixed(1, 0), "nearest_even"):
        text = f"data_out of {node.id} has no format."
        raise EmitError(text, "Quantise it with `integer` (pass quantize), or give all who read it one.", node.id)
    return result


def _rounded_format(x: Fixed) -> Fixed:
    """Holds what operands become by rounding to whole numbers or by another sign, on their own steps."""
    if x.frac < 0:
        return Fixed(x.width + 1, x.frac)
    largest = math.ceil(math.ldexp(max(-x.low, x.high), -x.frac)) << x.frac
    return covering(-largest - 1, largest, x.frac)


def function_of(node: Node) -> Function:
    """Torch's function of a node, on NumPy arrays in double precision."""
    import torch

    names = [(name, argument(node, name, position, default)) for name, position, default in OPTIONS.get(node.op, ())]
    if any(not isinstance(value, int | float | str | None) for _, value in names):
        raise unsupported(node, "a computed option", "Use a constant.")
    torch_function: Callable[..., Any] | None = _torch(node.op)
    if torch_function is None:
        raise EmitError(f"{node.id} ({node.op}) is no function of torch.", "Please report this.", node.id)
    options = {name: value for name, value in names if value is not None}

    def function(x: NDArray[Any]) -> NDArray[Any]:
        values = torch.from_numpy(np.asarray(x, np.float64))
        return np.asarray(torch_function(values, **options).detach())

    return function


def _torch(op: str) -> Callable[..., Any] | None:
    import torch
    from torch.nn import functional

    modules: tuple[Any, ...] = (functional, torch)
    if op in MATHS or op.startswith(("clamp", "pow")):
        modules = (torch,)
    return next((getattr(p, op) for p in modules if hasattr(p, op)), None)
