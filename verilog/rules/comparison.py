"""Comparisons, whose results are bits; what is computed with bits; and choices between two tensors by a bit."""

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
from espalier.verilog.rules.attention import BIT, masked, sent
from espalier.verilog.rules.elementwise import fraction, like, met, port_of, repeated, together
from espalier.verilog.templates.choose import Choose
from espalier.verilog.templates.threshold import Threshold

OTHER = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge", "eq": "eq", "ne": "ne"}  # with its operands changed
LOGIC: dict[str, Any] = {
    "logical_and": "min", "bitwise_and": "min", "logical_or": "max", "bitwise_or": "max", "logical_xor": "ne",
    "bitwise_xor": "ne", "__and__": "min", "__or__": "max", "__xor__": "ne",
}  # fmt: skip


@lowers("gt", "ge", "lt", "le", "eq", "ne")
def compare(low: Lowering, node: Node) -> None:
    """Two streams meet in `pair`; a number is the constant of `threshold`, several numbers are a stream."""
    first, second = node.args[:2]
    kind = node.op
    if known(low, first) is not None:
        first, second, kind = second, first, OTHER[kind]
    x, other = _operand(low, node, first), known(low, second)
    if other is not None and other.size == 1:
        low.publish(node, _against(low, node, x, kind, float(other.reshape(-1)[0])))
        return
    if other is None:
        b = _operand(low, node, second)
    else:
        b = _stream(low, node, other, x)
    x, b, kind = (b, x, {"lt": "gt", "le": "ge"}[kind]) if kind in ("lt", "le") else (x, b, kind)
    low.publish(node, met(low, node, kind, x, b))


def known(low: Lowering, value: Any) -> np.ndarray | None:
    """The numbers of an operand that hangs on no input, None for others."""
    return low.value(value) if isinstance(value, Ref) else np.asarray(float(value))


def _operand(low: Lowering, node: Node, value: Any) -> Signal:
    """What is computed, in the format in which it comes."""
    if value.node in low.host:
        text = f"{node.id} ({node.op}) compares {value.node}, which the host holds as a real number."
        raise EmitError(text, "Compare what a layer gives, or leave both sides to the host.", node.id)
    return low.operand(node, value, port_of(low, node, value))


def _against(low: Lowering, node: Node, x: Signal, kind: str, value: float) -> Signal:
    """A comparison with one number: whether a code reaches another one, or does not."""
    place = math.ldexp(value, x.fixed.frac) if math.isfinite(value) else value
    least, most = x.fixed.low, x.fixed.high + 1

    def first(reached: bool) -> int:
        """The lowest code that is not below the number, or above it; beyond all codes where none is."""
        if not math.isfinite(place):
            return most if place > 0 else least
        return min(max(math.ceil(place) if reached else math.floor(place) + 1, least), most)

    if kind in ("eq", "ne"):
        if place != place or place % 1 or not least <= place < most:
            return _threshold(low, node, x, most if kind == "eq" else least, False)
        codes = np.full((x.stream.rows, x.stream.size), int(place))
        return met(low, node, kind, x, source(low, node, codes, x.stream, x.shape, x.index))
    return _threshold(low, node, x, first(kind in ("ge", "lt")), kind in ("lt", "le"))


def _threshold(low: Lowering, node: Node, x: Signal, least: int, below: bool) -> Signal:
    if least.bit_length() > 31:
        raise unsupported(node, f"a number of {least.bit_length()} bits to compare with", "Choose a narrower format.")
    out = replace(x.stream, fixed=BIT)
    made = Threshold(name=low.free(node.id), node=node.id, inputs=(x.stream,), outputs=(out,), shape=x.shape,
                     least=least, below=below)  # fmt: skip
    return replace(x, wire=low.add(made, (x.wire,)), stream=out)


def _stream(low: Lowering, node: Node, values: np.ndarray, x: Signal, form: tuple[Fixed, Rounding] | None = None,
            ) -> Signal:  # fmt: skip
    """Constants in the order in which x comes; in a format, or in as many places as they have."""
    placed = np.broadcast_to(values if values.ndim <= len(x.shape) else values[0], x.shape).reshape(-1)[x.index]
    if form is None:
        frac = fraction(placed, x.fixed.frac)
        codes = np.rint(np.ldexp(placed, frac)).astype(np.int64)
        fixed = covering(int(codes.min()), int(codes.max()), frac)
    else:
        fixed, codes = form[0], form[0].encode(placed, form[1])
    return source(low, node, codes, replace(x.stream, fixed=fixed), x.shape, x.index)


# ---- bits


@lowers(*LOGIC)
def logic(low: Lowering, node: Node) -> None:
    """Both, one of them, one alone: the smaller bit, the larger one, whether they differ."""
    a, b = (_bits(low, node, ref) for ref in node.inputs)
    made = met(low, node, LOGIC[node.op], a, b, exactly=True)
    low.publish(node, made if made.fixed == BIT else low.cast(node, made, BIT, "floor"))


@lowers("logical_not", "bitwise_not")
def inverse(low: Lowering, node: Node) -> None:
    """What is not set."""
    low.publish(node, _threshold(low, node, _bits(low, node, node.inputs[0]), 1, True))


def _bits(low: Lowering, node: Node, ref: Ref, beside: Signal | None = None) -> Signal:
    """A tensor of truth values; one of the host, or a constant, comes as a bit with each element of `beside`."""
    if ref.node in low.host:
        if beside is None:
            raise unsupported(node, f"an operand, {ref.node}, that the host computes", "Let the host compute both.")
        return sent(low, node, ref, beside, False)
    found = low.signals[ref]
    if found.fixed != BIT:
        text = f"{node.id} ({node.op}) reads {ref.node} as truth values; it comes in {found.fixed.label}."
        raise EmitError(text, "Compare it with something first, such as x > 0.", node.id)
    return low.operand(node, ref, port_of(low, node, ref))


# ---- choices


@lowers("where", "masked_fill")
def choose(low: Lowering, node: Node) -> None:
    """A mask in front of a softmax is left to that; else one of two streams, constants among them."""
    if masked(low, node):
        return
    if len(node.args) != 3 or not isinstance(node.args[0 if node.op == "where" else 1], Ref):
        raise unsupported(node, "an unusual form", "Write it as where(condition, a, b) or masked_fill(x, mask, value).")
    mask, yes, no = node.args if node.op == "where" else (node.args[1], node.args[2], node.args[0])
    assert isinstance(mask, Ref)
    values = [known(low, v) for v in (yes, no)]
    sides = [_side(low, node, v) if k is None else None for v, k in zip((yes, no), values, strict=True)]
    full = _fullest(low, node, [s for s in sides if s is not None], mask)
    bits = _bits(low, node, mask, full)
    bits = like(low, node, repeated(low, node, bits, full), full)
    a, b = (_stream(low, node, k, full) if s is None and k is not None else _beside(low, node, s, full)
            for s, k in zip(sides, values, strict=True))  # fmt: skip
    low.publish(node, _chosen(low, node, bits, a, b))


def _side(low: Lowering, node: Node, value: Any) -> Signal:
    return low.operand(node, value, port_of(low, node, value))


def _fullest(low: Lowering, node: Node, sides: list[Signal], mask: Any) -> Signal:
    """The signal that has the shape of the result; the others are broadcast to it."""
    own = [low.signals[mask]] if mask.node not in low.host else []
    for found in (*sides, *own):
        if found.shape == low.shape(node):
            return found
    raise unsupported(node, "operands none of which has the shape of its result", "Expand one of them first.")


def _beside(low: Lowering, node: Node, side: Signal | None, full: Signal) -> Signal:
    assert side is not None
    return together(low, node, full, side)[1]


def _chosen(low: Lowering, node: Node, bits: Signal, a: Signal, b: Signal) -> Signal:
    frac = aligned((a.fixed, b.fixed))
    ends = [v << (frac - f.frac) for f in (a.fixed, b.fixed) for v in (f.low, f.high)]
    total = covering(min(-1, *ends), max(ends), frac)
    to, rounding = low.result(node, total)
    out = replace(a.stream, fixed=to)
    made = Choose(name=low.free(node.id), node=node.id, inputs=(bits.stream, a.stream, b.stream), outputs=(out,),
                  shape=a.shape, total=total, rounding=rounding)  # fmt: skip
    return replace(a, wire=low.add(made, (bits.wire, a.wire, b.wire)), stream=out)
