"""Comparisons, logic on their bits, and selection between two tensors by a bit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node, Ref
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.lower import Lowering, lowers, source
from espalier.verilog.lowering.signal_order import unsupported
from espalier.verilog.numbers.fixed import Fixed, Rounding, aligned, covering
from espalier.verilog.rules.attention import BIT, mask_bits, masked
from espalier.verilog.rules.elementwise import (
    align_operands,
    broadcast_to_signal,
    combine_streams,
    constant_operand,
    exact_fraction,
    in_order_of,
    port_of,
)
from espalier.verilog.templates.choose import Choose
from espalier.verilog.templates.threshold import Threshold

SWAPPED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge", "eq": "eq", "ne": "ne"}  # with swapped operands
LOGIC: dict[str, Any] = {
    "logical_and": "min", "bitwise_and": "min", "logical_or": "max", "bitwise_or": "max", "logical_xor": "ne",
    "bitwise_xor": "ne", "__and__": "min", "__or__": "max", "__xor__": "ne",
}  # fmt: skip


@lowers("gt", "ge", "lt", "le", "eq", "ne")
def compare(low: Lowering, node: Node) -> None:
    """Two streams in `pair`; a number becomes the constant of `threshold`, a constant tensor a stream."""
    first, second = node.args[:2]
    kind = node.op
    if constant_operand(low, first) is not None:
        first, second, kind = second, first, SWAPPED[kind]
    x, number = _operand(low, node, first), constant_operand(low, second)
    if number is not None and number.size == 1:
        low.publish(node, _compare_with_number(low, node, x, kind, float(number.reshape(-1)[0])))
        return
    if number is None:
        b = _operand(low, node, second)
    else:
        b = _stream(low, node, number, x)
    x, b, kind = (b, x, {"lt": "gt", "le": "ge"}[kind]) if kind in ("lt", "le") else (x, b, kind)
    low.publish(node, combine_streams(low, node, kind, x, b))


def _operand(low: Lowering, node: Node, value: Any) -> Signal:
    """A computed operand, in its own format."""
    if value.node in low.host:
        text = f"{node.id} ({node.op}) compares {value.node}, which the host computes in floating point."
        raise EmitError(text, "Compare a layer's result, or compute both operands on the host.", node.id)
    return low.operand(node, value, port_of(low, node, value))


def _compare_with_number(low: Lowering, node: Node, x: Signal, kind: str, value: float) -> Signal:
    """A comparison with one number, as a threshold of the codes."""
    code = math.ldexp(value, x.fixed.frac) if math.isfinite(value) else value
    lowest, highest = x.fixed.low, x.fixed.high + 1

    def first(reached: bool) -> int:
        """The lowest code ≥ the number (`reached`) or > it, clipped to one past the format's range."""
        if not math.isfinite(code):
            return highest if code > 0 else lowest
        return min(max(math.ceil(code) if reached else math.floor(code) + 1, lowest), highest)

    if kind in ("eq", "ne"):
        if code != code or code % 1 or not lowest <= code < highest:
            return _threshold(low, node, x, highest if kind == "eq" else lowest, False)
        codes = np.full((x.stream.rows, x.stream.size), int(code))
        return combine_streams(low, node, kind, x, source(low, node, codes, x.stream, x.shape, x.index))
    return _threshold(low, node, x, first(kind in ("ge", "lt")), kind in ("lt", "le"))


def _threshold(low: Lowering, node: Node, x: Signal, least: int, below: bool) -> Signal:
    if least.bit_length() > 31:
        raise unsupported(node, f"a threshold of {least.bit_length()} bits", "Choose a narrower format.")
    out = replace(x.stream, fixed=BIT)
    instance = Threshold(name=low.free(node.id), node=node.id, inputs=(x.stream,), outputs=(out,), shape=x.shape,
                     least=least, below=below)  # fmt: skip
    return replace(x, wire=low.add(instance, (x.wire,)), stream=out)


def _stream(low: Lowering, node: Node, values: np.ndarray, x: Signal, form: tuple[Fixed, Rounding] | None = None,
            ) -> Signal:  # fmt: skip
    """Constants in the order of x, in a given format, or in as many fraction bits as they need."""
    placed = np.broadcast_to(values if values.ndim <= len(x.shape) else values[0], x.shape).reshape(-1)[x.index]
    if form is None:
        frac = exact_fraction(placed, x.fixed.frac)
        codes = np.rint(np.ldexp(placed, frac)).astype(np.int64)
        fixed = covering(int(codes.min()), int(codes.max()), frac)
    else:
        fixed, codes = form[0], form[0].encode(placed, form[1])
    return source(low, node, codes, replace(x.stream, fixed=fixed), x.shape, x.index)


# ---- bits


@lowers(*LOGIC)
def logic(low: Lowering, node: Node) -> None:
    """AND as the minimum of two bits, OR as their maximum, XOR as inequality."""
    a, b = (_bits(low, node, ref) for ref in node.inputs)
    result = combine_streams(low, node, LOGIC[node.op], a, b, exactly=True)
    low.publish(node, result if result.fixed == BIT else low.cast(node, result, BIT, "floor"))


@lowers("logical_not", "bitwise_not")
def inverse(low: Lowering, node: Node) -> None:
    """NOT as a threshold."""
    low.publish(node, _threshold(low, node, _bits(low, node, node.inputs[0]), 1, True))


def _bits(low: Lowering, node: Node, ref: Ref, like_signal: Signal | None = None) -> Signal:
    """A boolean tensor; from the host or a memory, it has a bit for each element of `like_signal`."""
    if ref.node in low.host:
        if like_signal is None:
            raise unsupported(node, f"an operand from the host, {ref.node}", "Compute both operands on the host.")
        return mask_bits(low, node, ref, like_signal, False)
    signal = low.signals[ref]
    if signal.fixed != BIT:
        text = f"{node.id} ({node.op}) reads {ref.node} as booleans; its format is {signal.fixed.label}."
        raise EmitError(text, "Compare it first, such as x > 0.", node.id)
    return low.operand(node, ref, port_of(low, node, ref))


# ---- choices


@lowers("where", "masked_fill")
def choose(low: Lowering, node: Node) -> None:
    """Selection between two streams or constants; masks before a softmax are applied by the softmax."""
    if masked(low, node):
        return
    if len(node.args) != 3 or not isinstance(node.args[0 if node.op == "where" else 1], Ref):
        raise unsupported(node, "an unusual form", "Write it as where(condition, a, b) or masked_fill(x, mask, value).")
    mask, yes, no = node.args if node.op == "where" else (node.args[1], node.args[2], node.args[0])
    assert isinstance(mask, Ref)
    values = [constant_operand(low, v) for v in (yes, no)]
    sides = [_side(low, node, v) if k is None else None for v, k in zip((yes, no), values, strict=True)]
    full = _result_shaped(low, node, [s for s in sides if s is not None], mask)
    bits = _bits(low, node, mask, full)
    bits = in_order_of(low, node, broadcast_to_signal(low, node, bits, full), full)
    a, b = (_stream(low, node, k, full) if s is None and k is not None else _aligned(low, node, s, full)
            for s, k in zip(sides, values, strict=True))  # fmt: skip
    low.publish(node, _selected(low, node, bits, a, b))


def _side(low: Lowering, node: Node, value: Any) -> Signal:
    return low.operand(node, value, port_of(low, node, value))


def _result_shaped(low: Lowering, node: Node, sides: list[Signal], mask: Any) -> Signal:
    """The operand with the shape of the result, to which the others are broadcast."""
    mask_signals = [low.signals[mask]] if mask.node not in low.host else []
    for signal in (*sides, *mask_signals):
        if signal.shape == low.shape(node):
            return signal
    raise unsupported(node, "no operand of its result's shape", "Expand one of them first.")


def _aligned(low: Lowering, node: Node, side: Signal | None, full: Signal) -> Signal:
    assert side is not None
    return align_operands(low, node, full, side)[1]


def _selected(low: Lowering, node: Node, bits: Signal, a: Signal, b: Signal) -> Signal:
    frac = aligned((a.fixed, b.fixed))
    ends = [v << (frac - f.frac) for f in (a.fixed, b.fixed) for v in (f.low, f.high)]
    total = covering(min(-1, *ends), max(ends), frac)
    to, rounding = low.result(node, total)
    out = replace(a.stream, fixed=to)
    instance = Choose(name=low.free(node.id), node=node.id, inputs=(bits.stream, a.stream, b.stream), outputs=(out,),
                      shape=a.shape, total=total, rounding=rounding)  # fmt: skip
    return replace(a, wire=low.add(instance, (bits.wire, a.wire, b.wire)), stream=out)
