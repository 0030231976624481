"""Elementwise arithmetic of two tensors, or of a tensor and a constant."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from espalier.model.graph.graph import Node, Ref
from espalier.verilog.design.signal import Signal, rows_and_size
from espalier.verilog.lowering.builder import gather_positions, reordered, resize_rows
from espalier.verilog.lowering.lower import Lowering, lowers, operand_ports
from espalier.verilog.lowering.signal_order import unsupported
from espalier.verilog.numbers.fixed import WIDEST, Fixed
from espalier.verilog.rules.attention import BIT, additive_mask, required_format
from espalier.verilog.rules.norm import affine, multiplier_format, scaled
from espalier.verilog.templates.chain import Replay
from espalier.verilog.templates.divide import Divide
from espalier.verilog.templates.pair import COMPARE, Pair, exact_format

ONE = Fixed(2, 0)


@lowers("add", "sub", "rsub", "mul", "div", "maximum", "minimum")
def combine(low: Lowering, node: Node) -> None:
    """Two streams in `pair`; constants in `scale_shift`; additive masks are applied by their softmax."""
    masking = additive_mask(low, node) if node.op == "add" else None
    if masking is not None:
        low.publish(node, low.operand(node, masking[1], port_of(low, node, masking[1])))
        return
    alpha = node.kwargs.get("alpha", node.args[2] if node.op == "rsub" and len(node.args) > 2 else 1)
    if len(node.args) < 2:
        raise unsupported(node, "keyword operands", "Pass both operands by position.")
    first, second = (node.args[k] for k in ((1, 0) if node.op == "rsub" else (0, 1)))
    if node.kwargs.get("rounding_mode") is not None:
        raise unsupported(node, f"rounding_mode={node.kwargs['rounding_mode']}", "Divide without rounding.")
    kind: Any = {"rsub": "sub", "maximum": "max", "minimum": "min"}.get(node.op, node.op)
    fixed = [constant_operand(low, value) for value in (first, second)]
    if isinstance(first, Ref) and isinstance(second, Ref) and (_both(fixed) or kind in ("max", "min")):
        _streams(low, node, kind, (first, second), float(alpha))  # type: ignore[arg-type]
    elif alpha != 1:
        raise unsupported(node, f"alpha={alpha} with a constant", "Multiply the constant by it.")
    else:
        _with_constant(low, node, kind, (first, second), fixed)


def _both(fixed: list[Any]) -> bool:
    """Whether no operand is constant."""
    return all(f is None for f in fixed)


def constant_operand(low: Lowering, value: Any) -> Any:
    """The value of a constant operand; None for a computed one."""
    return low.value(value) if isinstance(value, Ref) else np.asarray(float(value))


def _with_constant(low: Lowering, node: Node, kind: str, values: tuple[Any, Any], fixed: list[Any]) -> None:
    """x·m + b: constants in their port's format, else m in 16 bits and b with up to 16 more fraction bits."""
    k = 0 if fixed[0] is None else 1
    if kind == "div" and k == 1:
        raise unsupported(node, "a constant divided by a tensor", "Multiply by the reciprocal.")
    x = low.operand(node, values[k], port_of(low, node, values[k]))
    form = low.chosen(node, port_of(low, node, values[1 - k])) if isinstance(values[1 - k], Ref) else None
    constant = fixed[1 - k] if fixed[1 - k].ndim <= len(low.shape(node)) else fixed[1 - k][0]
    if x.shape != low.shape(node):
        x = broadcast(low, node, x, low.shape(node))
    placed = np.broadcast_to(constant, x.shape).reshape(-1)[x.index].reshape(x.stream.rows, x.stream.size)
    placed = placed if form is None else form.values(form.encode(placed))
    zero = np.zeros_like(placed)
    if kind == "mul":
        if form is not None:
            low.publish(node, scaled(low, node, x, (form.encode(placed), form), zero.astype(np.int64), x.fixed.frac))
        else:
            low.publish(node, affine(low, node, x, placed, zero))
    elif kind == "div":
        low.publish(node, affine(low, node, x, 1 / placed, zero))
    else:
        sign = -1 if kind == "sub" and k == 1 else 1
        shift = -placed if kind == "sub" and k == 0 else placed
        frac = max(form.frac if form else exact_fraction(placed, x.fixed.frac), x.fixed.frac)
        codes = np.rint(np.ldexp(shift, frac)).astype(np.int64)
        low.publish(node, scaled(low, node, x, (np.full(placed.shape, sign), ONE), codes, frac))


def exact_fraction(values: np.ndarray, lowest: int) -> int:
    """Fraction bits in which all values are exact, at most 16 beyond `lowest`."""
    return next((f for f in range(lowest, lowest + 16) if (np.ldexp(values, f) % 1 == 0).all()), lowest + 16)


def port_of(low: Lowering, node: Node, ref: Ref) -> str:
    """The port at which a node reads a tensor."""
    return next(name for source, name in operand_ports(node, low.graph) if source == ref)


def _streams(low: Lowering, node: Node, kind: Any, refs: tuple[Ref, Ref], alpha: float) -> None:
    ports = [name for _, name in operand_ports(node, low.graph)]
    ports = ports[::-1] if node.op == "rsub" else ports
    a, b = (low.operand(node, ref, port) for ref, port in zip(refs, ports, strict=True))
    if alpha != 1:
        b = multiply_constant(low, node, b, alpha)
    low.publish(node, combine_streams(low, node, kind, a, b))


def multiply_constant(low: Lowering, node: Node, x: Signal, factor: float) -> Signal:
    """A signal times a number of up to 16 bits, exactly."""
    form = multiplier_format(np.asarray(factor))
    code = int(form.encode(np.asarray(factor)))
    codes = np.full((x.stream.rows, x.stream.size), code, np.int64)
    return scaled(low, node, x, (codes, form), 0 * codes, x.fixed.frac + form.frac, exactly=True)


def combine_streams(low: Lowering, node: Node, kind: Any, a: Signal, b: Signal, exactly: bool = False) -> Signal:
    """Combine two signals element by element, broadcasting the smaller; in the result's format, or exact."""
    a, b = align_operands(low, node, a, b)
    name = low.free(node.id)
    if kind == "div":
        to, rounding = required_format(low, node)
        quotient = Divide(name=name, node=node.id, inputs=(a.stream, b.stream), shape=a.shape, rounding=rounding,
                          outputs=(replace(a.stream, fixed=to),))  # fmt: skip
        if quotient.bits > WIDEST:
            raise unsupported(node, f"a quotient of {quotient.bits} bits", "Choose narrower formats for its operands.")
        return replace(a, wire=low.add(quotient, (a.wire, b.wire)), stream=quotient.outputs[0])
    total = exact_format(kind, a.fixed, b.fixed)
    format = BIT if kind in COMPARE else total if exactly else None
    to, rounding = (format, "nearest_even") if format else low.result(node, total)
    out = replace(a.stream, fixed=to)
    instance = Pair(name=name, node=node.id, inputs=(a.stream, b.stream), outputs=(out,), shape=a.shape, kind=kind,
                    total=total, rounding=rounding)  # fmt: skip
    return replace(a, wire=low.add(instance, (a.wire, b.wire)), stream=out)


def align_operands(low: Lowering, node: Node, a: Signal, b: Signal) -> tuple[Signal, Signal]:
    """Two signals in the same order and beats, the smaller broadcast."""
    if a.index.size < b.index.size:
        return in_order_of(low, node, broadcast_to_signal(low, node, a, b), b), b
    return a, in_order_of(low, node, broadcast_to_signal(low, node, b, a), a)


def broadcast_to_signal(low: Lowering, node: Node, small: Signal, big: Signal) -> Signal:
    """A signal broadcast to another one's shape: replayed if its elements repeat in order, else gathered."""
    if small.shape == big.shape:
        return small
    numbers = np.arange(small.index.size).reshape(small.shape)
    required = np.broadcast_to(numbers, big.shape).reshape(-1)[big.index]
    repeats = required.reshape(-1, small.index.size)
    if (repeats != repeats[0]).any() or len(np.unique(repeats[0])) < small.index.size:
        return gather_positions(low, node, small, small.places[required], big.shape, big.index, big.stream.size)
    par = math.gcd(big.stream.par, small.index.size)
    small = low.resize(node, reordered(low, node, small, repeats[0], small.index.size), par, 1)
    out = replace(small.stream, rows=small.stream.rows * len(repeats))
    instance = Replay(name=low.free(f"{node.id}_replay"), node=node.id, inputs=(small.stream,), outputs=(out,),
                      times=len(repeats), shape=big.shape)  # fmt: skip
    return Signal(low.add(instance, (small.wire,)), out, big.shape, big.index)


def broadcast(low: Lowering, node: Node, x: Signal, shape: tuple[int, ...]) -> Signal:
    """A signal broadcast to a shape, by gathering."""
    numbers = np.broadcast_to(np.arange(math.prod(x.shape)).reshape(x.shape), shape).reshape(-1)
    return gather_positions(low, node, x, x.places[numbers], shape, np.arange(numbers.size), rows_and_size(shape)[1])


def in_order_of(low: Lowering, node: Node, signal: Signal, reference: Signal) -> Signal:
    """The signal in the order and beats of another one of the same shape."""
    want = reference.stream
    if (signal.index != reference.index).any():
        signal = reordered(low, node, signal, reference.index, want.size)
    if (signal.stream.rows, signal.stream.size) != (want.rows, want.size):
        signal = resize_rows(low, node, signal, want.size)
    return low.resize(node, signal, want.par, want.tokens)
