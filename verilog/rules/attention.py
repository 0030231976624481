"""Attention: matrix products of two streams, masks from the host or a memory, softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node, Ref, out_port
from espalier.verilog.design.host_part import MASKED, is_additive_mask
from espalier.verilog.design.netlist import Boundary, Wire
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import port
from espalier.verilog.lowering.builder import reordered, resize_rows
from espalier.verilog.lowering.lower import Lowering, lowers, operand_ports, source
from espalier.verilog.lowering.signal_order import BATCH_AXIS, argument, unsupported
from espalier.verilog.numbers.fixed import WIDEST, Fixed, Rounding, covering
from espalier.verilog.rules.linear import columns
from espalier.verilog.templates.matmul import MatMul
from espalier.verilog.templates.softmax import Softmax

BIT = Fixed(1, 0, False)
SCALE_BITS = 12  # bits of a scale that is not a power of two
SAME = ("dropout", "identity", "clone", "contiguous")  # identities allowed between a mask and its softmax


# ---- products


@lowers("matmul", "bmm", "mm")
def matmul(low: Lowering, node: Node) -> None:
    """Matrix product; the second operand is buffered, in any order of its elements."""
    names = dict(operand_ports(node, low.graph))
    first, second = node.inputs[0], node.inputs[1]
    x = low.operand(node, first, names[first] if first != second else "data_in")
    b = low.operand(node, second, names[second] if first != second else "weight")
    if x.repeated is not None or len(x.shape) < 2 or len(b.shape) < 2 or x.shape[:-2] != low.shape(node)[:-2]:
        raise unsupported(node, "a first operand with fewer axes than its result", "Expand it first.")
    par_in, par_out, tokens = low.parallel(node, x.shape[-1], b.shape[-1], x.shape[-2])
    x, pairing = _rows(low, node, x, b)
    if pairing.repeat % tokens:  # rows of a beat must share their matrix: order them by head
        x, pairing = _rows(low, node, reordered(low, node, x, np.arange(x.index.size), x.shape[-1]), b)
    x = low.resize(node, x, par_in, tokens)
    b, spots, along = _operand_addresses(low, node, b, pairing, columns(x, node), (par_in, par_out))
    accumulator = _accumulator(node, x, b)
    follower, multiplier, scale_frac = scaled_by(low, node)
    exact = Fixed(accumulator.width + multiplier.bit_length(), accumulator.frac + scale_frac)
    to, rounding = low.result(follower, exact)
    out = Stream(x.stream.rows, b.shape[-1], to, par_out, tokens)
    instance = MatMul(
        name=node.id, node=node.id, inputs=(x.stream, b.stream), outputs=(out,), shape=low.shape(node),
        batch=len(pairing.first), repeat=pairing.repeat // tokens, columns=b.shape[-1], spots=spots, along=along,
        accumulator=accumulator, multiplier=multiplier, scale_frac=scale_frac, rounding=rounding,
    )  # fmt: skip
    instance.parameters()  # raises EmitError for an order that nested loops cannot address
    index = pairing.rows[:, None] * out.size + np.arange(out.size)
    wire = low.add(instance, (x.wire, b.wire))
    for member in {node.id: node, follower.id: follower}.values():
        low.give(member, wire, out, index.reshape(-1))


@dataclass(frozen=True, slots=True, eq=False)
class _Pairing:
    """`rows`: the order of the rows of x; `first`: the start of each matrix of the second operand, in the order in
    which the rows use them, `repeat` consecutive rows each."""

    rows: np.ndarray
    first: tuple[int, ...]
    repeat: int


def _rows(low: Lowering, node: Node, x: Signal, b: Signal) -> tuple[Signal, _Pairing]:
    """x as rows that use the matrices cyclically, reordered if necessary, and their pairing."""
    size, count = x.shape[-1], x.shape[-2]
    matrices = np.broadcast_to(b.places.reshape(b.shape), (*x.shape[:-2], *b.shape[-2:]))
    starts = matrices[..., 0, 0].reshape(-1)
    for candidate in (
        x,
        reordered(low, node, x, np.arange(x.index.size), size) if not _usable_order(x, starts, count) else x,
    ):
        if _usable_order(candidate, starts, count):
            candidate = resize_rows(low, node, candidate, size)
            rows = candidate.index.reshape(-1, size)[:, 0] // size
            meets = starts[rows // count]
            first = tuple(dict.fromkeys(meets.tolist()))
            return candidate, _Pairing(rows, first, _repeat(meets))
    raise unsupported(node, "heads that share keys in an irregular order", "Group them evenly.")


def _usable_order(x: Signal, starts: np.ndarray, count: int) -> bool:
    """Whether rows are contiguous, in the same element order, and use their matrices cyclically."""
    size = x.shape[-1]
    positions = x.index.reshape(-1, size)
    if (positions // size != positions[:, :1] // size).any() or (positions % size != positions[0] % size).any():
        return False
    meets = starts[positions[:, 0] // size // count]
    first = np.array(list(dict.fromkeys(meets.tolist())))
    expected = first[np.arange(len(meets)) // _repeat(meets) % len(first)]
    return bool((expected == meets).all())


def _repeat(meets: np.ndarray) -> int:
    changes = np.flatnonzero(np.diff(meets))
    return int(changes[0]) + 1 if len(changes) else len(meets)


def _operand_addresses(
    low: Lowering, node: Node, b: Signal, pairing: _Pairing, order: np.ndarray, par: tuple[int, int]
) -> tuple[Signal, np.ndarray, Any]:
    """The second operand in beats along one of its axes, the address of each of its elements, and that axis."""
    for attempt in range(2):
        depth, wide = b.shape[-2:]
        stored = {int(m[0, 0]): m for m in b.places.reshape(-1, depth, wide)}
        spots = np.full(b.index.size, -1)
        for number, start in enumerate(pairing.first):
            spots[stored[start][order]] = (number * depth + np.arange(depth))[:, None] * wide + np.arange(wide)
        if (spots < 0).any():
            raise unsupported(node, "unused matrices in its second operand", "Slice them away.")
        for along, lanes, step, position in (("depth", par[0], wide, spots // wide), ("columns", par[1], 1, spots)):
            beats = spots.reshape(-1, lanes) if spots.size % lanes == 0 and b.stream.size % lanes == 0 else None
            if beats is not None and (np.diff(beats, axis=1) == step).all() and not (position[::lanes] % lanes).any():
                return low.resize(node, b, lanes, 1), spots, along
        if attempt == 0:
            positions = np.concatenate([stored[start].reshape(-1) for start in pairing.first])
            b = _reordered_operand(low, node, b, positions, wide)
            pairing = _Pairing(pairing.rows, tuple(range(0, positions.size, depth * wide)), pairing.repeat)
    raise EmitError(f"{node.id} ({node.op}) has a second operand in an unknown order.", "Please report this.", node.id)


def _reordered_operand(low: Lowering, node: Node, b: Signal, positions: np.ndarray, wide: int) -> Signal:
    """`b` with the elements at `positions` in that order."""
    reordered_signal = reordered(low, node, Signal(b.wire, b.stream, b.shape, b.index), b.index[positions], wide)
    back = np.empty(positions.size, np.int64)
    back[positions] = np.arange(positions.size)
    new_positions = back[b.places]
    return Signal(
        reordered_signal.wire, reordered_signal.stream, b.shape, reordered_signal.index, repeated=new_positions
    )


def _accumulator(node: Node, x: Signal, b: Signal) -> Fixed:
    """The narrowest accumulator that no sum of products overflows; raises EmitError if it is too wide."""
    ends = [p * q for p in (x.fixed.low, x.fixed.high) for q in (b.fixed.low, b.fixed.high)]
    size = x.shape[-1]
    fixed = covering(min(-1, *ends) * size, max(0, *ends) * size, x.fixed.frac + b.fixed.frac)
    if fixed.width + SCALE_BITS > WIDEST:
        text = f"The accumulator of {node.id} needs {fixed.width} bits; {WIDEST - SCALE_BITS} are supported."
        raise EmitError(text, "Choose narrower formats for its data_in and weight.", node.id)
    return fixed


def scaled_by(low: Lowering, node: Node) -> tuple[Node, int, int]:
    """(node, multiplier, fraction bits) of a scaling that follows a product and is fused; the product itself if none.

    Only a sole reader that multiplies or divides by a positive number is fused.
    """
    readers = [n for n in low.graph if Ref(node.id) in n.inputs]
    if len(readers) != 1 or low.chosen(node, "data_out") is not None:
        return node, 1, 0
    reader = readers[0]
    number = reader.args[1] if len(reader.args) == 2 else None
    is_scaling = reader.op in ("mul", "div") and isinstance(number, int | float) and "data_in" not in reader.precision
    if not is_scaling or reader.kwargs or not number or not math.isfinite(float(number)):  # type: ignore[arg-type]
        return node, 1, 0
    factor = float(number) if reader.op == "mul" else 1 / float(number)  # type: ignore[arg-type]
    if factor < 0:
        return node, 1, 0
    mantissa, exponent = math.frexp(factor)
    if mantissa == 0.5:
        return reader, 1, 1 - exponent
    return reader, round(math.ldexp(mantissa, SCALE_BITS)), SCALE_BITS - exponent


# ---- masks


def masked(low: Lowering, node: Node) -> bool:
    """Publish the scores of a mask before a softmax, which applies the mask itself; False for other selections."""
    match = _mask(low, node)
    if match is None or not _only_softmax(low, node):
        return False
    _, scores, _ = match
    low.publish(node, low.operand(node, scores, "data_in"))
    return True


def _mask(low: Lowering, node: Node) -> tuple[Ref, Ref, int] | None:
    """(mask, scores, mask bit of unmasked scores) of a node that fills with very low values."""
    if len(node.args) != 3:
        return None
    mask, yes, no, unmasked_bit = (
        (*node.args, 1) if node.op == "where" else (node.args[1], node.args[0], node.args[2], 1)
    )
    unmasked_bit = 0 if node.op == "masked_fill" else unmasked_bit
    if node.op == "where" and _filled(low, yes):
        yes, no, unmasked_bit = no, yes, 0
    if not isinstance(mask, Ref) or not isinstance(yes, Ref) or mask.node not in low.host or not _filled(low, no):
        return None
    return mask, yes, unmasked_bit


def _filled(low: Lowering, value: Any) -> bool:
    """Whether a value is a constant of at most MASKED."""
    if isinstance(value, int | float):
        return float(value) <= MASKED
    node = low.graph.nodes[value.node] if isinstance(value, Ref) else None
    if node is None or node.call != "get_attr":
        return False
    from espalier.model.torch.tensors import to_torch

    key = low.graph.weights[node.weights["value"]].key
    return key is not None and float(to_torch(low.store.get(key)).double().max()) <= MASKED


def _only_softmax(low: Lowering, node: Node) -> bool:
    readers = [n for n in low.graph if Ref(node.id) in n.inputs]
    return bool(readers) and all(n.op == "softmax" or (n.op in SAME and _only_softmax(low, n)) for n in readers)


def additive_mask(low: Lowering, node: Node) -> tuple[Ref, Ref] | None:
    """(mask, scores) of a sum of scores and an additive mask from the host, before a softmax; None for others."""
    refs = node.args
    if len(refs) != 2 or node.kwargs or not all(isinstance(r, Ref) for r in refs) or not _only_softmax(low, node):
        return None
    by_host = [r for r in refs if isinstance(r, Ref) and r.node in low.host]
    if len(by_host) != 1 or not is_additive_mask(low.graph, low.store, by_host[0], low.symbols):
        return None
    return by_host[0], next(r for r in refs if isinstance(r, Ref) and r != by_host[0])


def _mask_before(low: Lowering, ref: Ref) -> tuple[Ref, int, bool] | None:
    """The mask of a softmax's operand, the mask bit of unmasked scores, and whether the mask is additive."""
    node = low.graph.nodes[ref.node]
    while node.op in SAME:
        node = low.graph.nodes[node.inputs[0].node]
    if node.id in low.host:
        return None
    if node.op == "add":
        sum_of = additive_mask(low, node)
        return None if sum_of is None else (sum_of[0], 0, True)
    match = _mask(low, node) if node.op in ("where", "masked_fill") else None
    return None if match is None else (match[0], match[2], False)


def mask_bits(low: Lowering, node: Node, mask: Ref, scores: Signal, added: bool) -> Signal:
    """The mask bit of each score, in the order of the scores: from the host, or from a memory if it is constant.

    `added`: the mask is additive, so that its bit is 1 for values of at most MASKED.
    """
    shape = low.shape(low.graph.nodes[mask.node], out_port(mask.output))
    elements = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), scores.shape).reshape(-1)[scores.index]
    score_stream = scores.stream
    stream = Stream(score_stream.rows, score_stream.size, BIT, score_stream.par, score_stream.tokens)
    values = low.value(mask)
    if values is not None:
        bits = (values.reshape(-1)[elements] <= MASKED) if added else values.reshape(-1)[elements] != 0
        return source(low, node, bits.astype(np.int64), stream, scores.shape, scores.index)
    low.inputs.append(Boundary(port("x", len(low.inputs)), stream, mask.node, shape, elements, mask.output, mask=added))
    return Signal(Wire("", len(low.inputs) - 1), stream, scores.shape, scores.index)


# ---- softmax


@lowers("softmax")
def softmax(low: Lowering, node: Node) -> None:
    """Softmax over any axis of a sample, which is moved to the end."""
    rank, axis = len(low.shape(node)), low.axis(node, int(argument(node, "dim", 1, -1)))
    if axis < 0:
        raise unsupported(node, BATCH_AXIS, "Apply it over an axis of the sample.")
    x = low.operand(node, node.inputs[0], "data_in")
    moved = np.moveaxis(np.arange(x.index.size).reshape(x.shape), axis, -1)
    mask = _mask_before(low, node.inputs[0])
    if mask is not None and axis != rank - 1:
        raise unsupported(node, "a mask over another axis than the last", "Transpose the scores.")
    x = x.viewed(moved)
    size = x.shape[-1]
    par, _, _ = low.parallel(node, size, 1)
    x = low.resize(node, whole_rows(low, node, x), par, 1)
    to, rounding = required_format(low, node)
    bits = () if mask is None else (mask_bits(low, node, mask[0], x, mask[2]),)
    inputs = (x.stream, *(b.stream for b in bits))
    out = Stream(x.stream.rows, size, to, par)
    instance = Softmax(name=node.id, node=node.id, inputs=inputs, outputs=(out,), shape=x.shape,
                       keep=1 if mask is None else mask[1], rounding=rounding)  # fmt: skip
    back = np.argsort(moved.reshape(-1)).reshape(low.shape(node))
    low.publish(node, replace(x, wire=low.add(instance, (x.wire, *(b.wire for b in bits))), stream=out).viewed(back))


def whole_rows(low: Lowering, node: Node, x: Signal) -> Signal:
    """A signal as rows of its last axis, contiguous but with elements in any order."""
    size = x.shape[-1]
    rows = x.index.reshape(-1, size) // size
    if (rows != rows[:, :1]).any():
        return reordered(low, node, x, np.arange(x.index.size), size)
    return resize_rows(low, node, x, size)


def required_format(low: Lowering, node: Node) -> tuple[Fixed, Rounding]:
    """The format of an inexact result: its own, or that of its readers; raises EmitError without one."""
    unknown = Fixed(1, 0)
    result = low.result(node, unknown)
    if result[0] is unknown:
        text = f"data_out of {node.id} has no format."
        raise EmitError(text, "Quantise it, or data_in of its readers, with `integer` (pass quantize).", node.id)
    return result
