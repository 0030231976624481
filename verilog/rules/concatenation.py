"""Concatenation, splitting and padding of tensors."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np

from espalier.model.graph.graph import Node, Ref, out_port
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.builder import resize_rows
from espalier.verilog.lowering.lower import Lowering, lowers, operand_ports
from espalier.verilog.lowering.signal_order import BATCH_AXIS, argument, order, pixels, unsupported
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.convolution import pair, windows
from espalier.verilog.rules.indices import padded_by_gathering, select_elements
from espalier.verilog.templates.chain import Chain
from espalier.verilog.templates.window import Walk


@lowers("cat", "stack")
def concatenate(low: Lowering, node: Node) -> None:
    """Concatenation in one format: row by row along the axis of a row, else whole tensors one after another."""
    parts = [low.operand(node, ref, port) for ref, port in operand_ports(node, low.graph)]
    to, rounding = low.result(node, _common([p.fixed for p in parts]))
    parts = [p if p.fixed == to else low.cast(node, p, to, rounding) for p in parts]
    axis = low.axis(node, int(argument(node, "dim", 1, 0)))
    if axis < 0:
        raise unsupported(node, BATCH_AXIS, "Concatenate along an axis of the sample.")
    if node.op == "stack":
        parts = [p.viewed(np.expand_dims(np.arange(p.index.size).reshape(p.shape), axis)) for p in parts]
    result = parts[0]
    for part in parts[1:]:
        result = _chained(low, node, result, part, axis)
    low.publish(node, result)


def _common(formats: list[Fixed]) -> Fixed:
    """The narrowest format that represents the values of all."""
    frac, signed = max(f.frac for f in formats), any(f.signed for f in formats)
    integer_bits = max(f.width - f.signed - f.frac for f in formats)
    return Fixed(max(integer_bits + frac, 1) + signed, frac, signed)


def _chained(low: Lowering, node: Node, a: Signal, b: Signal, axis: int) -> Signal:
    """Two signals concatenated along an axis; the result's `index` accounts for the order of the elements."""
    by_row = axis == len(a.shape) - 1 or (axis == 0 and all(order(s, s.shape[0]) is not None for s in (a, b)))
    sizes = [s.shape[axis] if by_row else s.shape[-1] for s in (a, b)]
    par = gcd(a.stream.par, b.stream.par, *sizes)
    a, b = (low.resize(node, resize_rows(low, node, s, n), par, 1) for s, n in zip((a, b), sizes, strict=True))
    repeats = a.stream.rows if by_row else 1
    size = sum(sizes) if by_row else gcd(*sizes)
    elements = a.stream.elements + b.stream.elements
    out = Stream(elements // size, size, a.fixed, par)
    instance = Chain(name=low.free(node.id), node=node.id, inputs=(a.stream, b.stream), outputs=(out,), turns=repeats,
                     shape=low.shape(node))  # fmt: skip
    wire = low.add(instance, (a.wire, b.wire))
    shape = (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :])
    numbers = np.split(np.arange(elements).reshape(shape), [a.shape[axis]], axis)
    indices = [n.reshape(-1)[s.index].reshape(repeats, -1) for n, s in zip(numbers, (a, b), strict=True)]
    return Signal(wire, out, shape, np.concatenate(indices, axis=1).reshape(-1))


@lowers("split", "split_with_sizes", "chunk", "unbind")
def split(low: Lowering, node: Node) -> None:
    """Splitting: the op is run on element indices, and each part drops the beats of the others."""
    import torch

    from espalier.model.torch.targets import function_of

    if node.call != "call_function" or any(isinstance(a, Ref) for a in node.args[1:]):
        raise unsupported(node, "a computed argument", "Use constant sizes.")
    x = low.operand(node, node.inputs[0], "data_in")
    sizes = node.ports["data_in"].sizes(low.symbols)
    indices = torch.arange(int(np.prod(sizes))).reshape(sizes)
    arguments: list[Any] = [list(a) if isinstance(a, tuple) else a for a in node.args[1:]]
    used = {ref.output for reader in low.graph for ref in reader.inputs if ref.node == node.id}
    for k, part in enumerate(function_of(node.target)(indices, *arguments, **node.kwargs)):
        if k in used:
            picked = part.numpy().reshape(low.shape(node, out_port(k)))
            low.signals[Ref(node.id, k)] = select_elements(low, node, x, picked)


@lowers("pad")
def padded(low: Lowering, node: Node) -> None:
    """Constant padding of an image by a window of one tap that extends beyond it; other padding by gathering."""
    sides = [int(n) for n in argument(node, "pad", 1, argument(node, "padding", 1, ()))]
    value, mode = argument(node, "value", 3, 0) or 0, argument(node, "mode", 2, "constant")
    shape = low.shape(node, "data_in")
    if mode != "constant" or min(sides, default=0) < 0 or len(sides) // 2 > len(shape) - 1:
        padded_by_gathering(low, node)
        return
    x, channels = pixels(low, node, node.inputs[0])
    code = int(x.fixed.encode(np.asarray(float(value))))
    if float(x.fixed.values(np.asarray(code))) != float(value):
        raise unsupported(node, f"padding of {value}, inexact in {x.fixed.label}", "Choose another format.")
    leading = [0] * (len(shape) - 1 - len(sides) // 2) + sides[-2::-2]
    out = low.shape(node)
    walk = Walk(pair(shape[1:]), pair(out[1:]), (1, 1), before=pair(tuple(leading), 0))
    rows = windows(low, node, x, walk, 1, code)
    index = channels[None, :] * walk.places + np.arange(walk.places)[:, None]
    stream = replace(rows.stream, rows=walk.places, size=len(channels))
    low.publish(node, Signal(rows.wire, stream, out, index.reshape(-1)))
