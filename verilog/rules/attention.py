"""What an attention is made of: products of two streams, masks that the host sends or a memory holds, softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node, Ref, out_port
from espalier.verilog.design.hosting import ENOUGH, masks
from espalier.verilog.design.netlist import Boundary, Wire
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import port
from espalier.verilog.lowering.builder import cut, reordered
from espalier.verilog.lowering.layout import argument, refused
from espalier.verilog.lowering.lower import Lowering, held, lowers, operand_ports
from espalier.verilog.numbers.fixed import WIDEST, Fixed, Rounding, covering
from espalier.verilog.rules.linear import columns
from espalier.verilog.templates.matmul import MatMul
from espalier.verilog.templates.softmax import Softmax

BIT = Fixed(1, 0, False)
SCALE_BITS = 12  # of a scale that is no power of two
SAME = ("dropout", "identity", "clone", "contiguous")  # between a mask and its softmax


# ---- products


@lowers("matmul", "bmm", "mm")
def matmul(low: Lowering, node: Node) -> None:
    """The second operand is buffered whole, in whatever order it comes; rows of the first meet their matrix."""
    names = dict(operand_ports(node, low.graph))
    first, second = node.inputs[0], node.inputs[1]
    x = low.operand(node, first, names[first] if first != second else "data_in")
    b = low.operand(node, second, names[second] if first != second else "weight")
    if x.repeated is not None or len(x.shape) < 2 or len(b.shape) < 2 or x.shape[:-2] != low.shape(node)[:-2]:
        raise refused(node, "a first operand of fewer axes than its result", "Write it with as many.")
    par_in, par_out, tokens = low.parallel(node, x.shape[-1], b.shape[-1], x.shape[-2])
    x, met = _rows(low, node, x, b)
    if met.repeat % tokens:  # rows that share a beat must share their matrix: heads one after the other
        x, met = _rows(low, node, reordered(low, node, x, np.arange(x.index.size), x.shape[-1]), b)
    x = low.resize(node, x, par_in, tokens)
    b, spots, along = _spots(low, node, b, met, columns(x, node), (par_in, par_out))
    accumulator = _accumulator(node, x, b)
    follower, multiplier, places = scaled_by(low, node)
    exact = Fixed(accumulator.width + multiplier.bit_length(), accumulator.frac + places)
    to, rounding = low.result(follower, exact)
    out = Stream(x.stream.rows, b.shape[-1], to, par_out, tokens)
    made = MatMul(
        name=node.id, node=node.id, inputs=(x.stream, b.stream), outputs=(out,), shape=low.shape(node),
        batch=len(met.first), repeat=met.repeat // tokens, columns=b.shape[-1], spots=spots, along=along,
        accumulator=accumulator, multiplier=multiplier, scale_frac=places, rounding=rounding,
    )  # fmt: skip
    made.parameters()  # an order that counters cannot walk is told here
    index = met.rows[:, None] * out.size + np.arange(out.size)
    wire = low.add(made, (x.wire, b.wire))
    for done in {node.id: node, follower.id: follower}.values():
        low.give(done, wire, out, index.reshape(-1))


@dataclass(frozen=True, slots=True, eq=False)
class _Met:
    """`rows`: the rows of x as they come; `first`: the place at which each matrix that they meet begins, in the order
    in which they meet it, each `repeat` rows long."""

    rows: np.ndarray
    first: tuple[int, ...]
    repeat: int


def _rows(low: Lowering, node: Node, x: Signal, b: Signal) -> tuple[Signal, _Met]:
    """x as rows that meet the matrices in turns; in its own order where it is not so."""
    size, count = x.shape[-1], x.shape[-2]
    matrices = np.broadcast_to(b.places.reshape(b.shape), (*x.shape[:-2], *b.shape[-2:]))
    begins = matrices[..., 0, 0].reshape(-1)
    for turn in (x, reordered(low, node, x, np.arange(x.index.size), size) if not _ready(x, begins, count) else x):
        if _ready(turn, begins, count):
            turn = cut(low, node, turn, size)
            rows = turn.index.reshape(-1, size)[:, 0] // size
            meets = begins[rows // count]
            first = tuple(dict.fromkeys(meets.tolist()))
            return turn, _Met(rows, first, _repeat(meets))
    raise refused(node, "heads that share keys in no regular order", "Group them evenly.")


def _ready(x: Signal, begins: np.ndarray, count: int) -> bool:
    """Whether rows come whole, all in one order, and meet their matrices in turns."""
    size = x.shape[-1]
    places = x.index.reshape(-1, size)
    if (places // size != places[:, :1] // size).any() or (places % size != places[0] % size).any():
        return False
    meets = begins[places[:, 0] // size // count]
    first = np.array(list(dict.fromkeys(meets.tolist())))
    turns = first[np.arange(len(meets)) // _repeat(meets) % len(first)]
    return bool((turns == meets).all())


def _repeat(meets: np.ndarray) -> int:
    changes = np.flatnonzero(np.diff(meets))
    return int(changes[0]) + 1 if len(changes) else len(meets)


def _spots(
    low: Lowering, node: Node, b: Signal, met: _Met, order: np.ndarray, par: tuple[int, int]
) -> tuple[Signal, np.ndarray, Any]:
    """The second operand in beats along one of its axes, and where each element of it goes."""
    for turn in range(2):
        depth, wide = b.shape[-2:]
        stored = {int(m[0, 0]): m for m in b.places.reshape(-1, depth, wide)}
        spots = np.full(b.index.size, -1)
        for number, begin in enumerate(met.first):
            spots[stored[begin][order]] = (number * depth + np.arange(depth))[:, None] * wide + np.arange(wide)
        if (spots < 0).any():
            raise refused(node, "matrices that nothing is multiplied with", "Slice them away.")
        for along, lanes, step, place in (("depth", par[0], wide, spots // wide), ("columns", par[1], 1, spots)):
            beats = spots.reshape(-1, lanes) if spots.size % lanes == 0 and b.stream.size % lanes == 0 else None
            if beats is not None and (np.diff(beats, axis=1) == step).all() and not (place[::lanes] % lanes).any():
                return low.resize(node, b, lanes, 1), spots, along
        if turn == 0:
            held = Signal(b.wire, b.stream, b.shape, b.index)
            plain = np.concatenate([stored[begin].reshape(-1) for begin in met.first])
            b = _moved(low, node, held, b, plain, wide)
            met = _Met(met.rows, tuple(range(0, plain.size, depth * wide)), met.repeat)
    raise refused(node, "a second operand in an order of its own", "Please report this.")


def _moved(low: Lowering, node: Node, held: Signal, b: Signal, plain: np.ndarray, wide: int) -> Signal:
    """`b` with the elements at the places `plain` one after the other."""
    after = reordered(low, node, held, held.index[plain], wide)
    back = np.empty(plain.size, np.int64)
    back[plain] = np.arange(plain.size)
    places = back[b.places]
    return Signal(after.wire, after.stream, b.shape, after.index, repeated=places)


def _accumulator(node: Node, x: Signal, b: Signal) -> Fixed:
    """The narrowest that no sum of products overflows."""
    ends = [p * q for p in (x.fixed.low, x.fixed.high) for q in (b.fixed.low, b.fixed.high)]
    size = x.shape[-1]
    found = covering(min(-1, *ends) * size, max(0, *ends) * size, x.fixed.frac + b.fixed.frac)
    if found.width + SCALE_BITS > WIDEST:
        text = f"The accumulator of {node.id} needs {found.width} bits; {WIDEST - SCALE_BITS} are supported."
        raise EmitError(text, "Choose narrower formats for its data_in and weight.", node.id)
    return found


def scaled_by(low: Lowering, node: Node) -> tuple[Node, int, int]:
    """(node, multiplier, fraction bits): what follows and only scales is done here; itself where nothing does."""
    readers = [n for n in low.graph if Ref(node.id) in n.inputs]
    if len(readers) != 1 or low.chosen(node, "data_out") is not None:
        return node, 1, 0
    after = readers[0]
    number = after.args[1] if len(after.args) == 2 else None
    plain = after.op in ("mul", "div") and isinstance(number, int | float) and "data_in" not in after.precision
    if not plain or after.kwargs or not number or not math.isfinite(float(number)):  # type: ignore[arg-type]
        return node, 1, 0
    factor = float(number) if after.op == "mul" else 1 / float(number)  # type: ignore[arg-type]
    if factor < 0:
        return node, 1, 0
    mantissa, exponent = math.frexp(factor)
    if mantissa == 0.5:
        return after, 1, 1 - exponent
    return after, round(math.ldexp(mantissa, SCALE_BITS)), SCALE_BITS - exponent


# ---- masks


def masked(low: Lowering, node: Node) -> bool:
    """Whether a choice is the mask of a softmax: scores pass, and the softmax takes the mask, one bit an element."""
    found = _mask(low, node)
    if found is None or not _only_softmax(low, node):
        return False
    _, scores, _ = found
    low.publish(node, low.operand(node, scores, "data_in"))
    return True


def _mask(low: Lowering, node: Node) -> tuple[Ref, Ref, int] | None:
    """(mask, scores, the bit of what counts) of a node that fills with something like −∞."""
    if len(node.args) != 3:
        return None
    mask, yes, no, keep = (*node.args, 1) if node.op == "where" else (node.args[1], node.args[0], node.args[2], 1)
    keep = 0 if node.op == "masked_fill" else keep
    if node.op == "where" and _filled(low, yes):
        yes, no, keep = no, yes, 0
    if not isinstance(mask, Ref) or not isinstance(yes, Ref) or mask.node not in low.host or not _filled(low, no):
        return None
    return mask, yes, keep


def _filled(low: Lowering, value: Any) -> bool:
    """Whether a value is a constant so low that its exponential is nothing."""
    if isinstance(value, int | float):
        return float(value) <= ENOUGH
    source = low.graph.nodes[value.node] if isinstance(value, Ref) else None
    if source is None or source.call != "get_attr":
        return False
    from espalier.model.torch.tensors import to_torch

    key = low.graph.weights[source.weights["value"]].key
    return key is not None and float(to_torch(low.store.get(key)).double().max()) <= ENOUGH


def _only_softmax(low: Lowering, node: Node) -> bool:
    readers = [n for n in low.graph if Ref(node.id) in n.inputs]
    return bool(readers) and all(n.op == "softmax" or (n.op in SAME and _only_softmax(low, n)) for n in readers)


def added(low: Lowering, node: Node) -> tuple[Ref, Ref] | None:
    """(mask, scores) of a sum whose one operand the host computes, 0 or something like −∞, in front of a softmax."""
    refs = node.args
    if len(refs) != 2 or node.kwargs or not all(isinstance(r, Ref) for r in refs) or not _only_softmax(low, node):
        return None
    by_host = [r for r in refs if isinstance(r, Ref) and r.node in low.host]
    if len(by_host) != 1 or not masks(low.graph, low.store, by_host[0], low.symbols):
        return None
    return by_host[0], next(r for r in refs if isinstance(r, Ref) and r != by_host[0])


def _mask_before(low: Lowering, ref: Ref) -> tuple[Ref, int, bool] | None:
    """The mask behind a softmax's operand, the bit of what counts, and whether it was added."""
    node = low.graph.nodes[ref.node]
    while node.op in SAME:
        node = low.graph.nodes[node.inputs[0].node]
    if node.id in low.host:
        return None
    if node.op == "add":
        sum_of = added(low, node)
        return None if sum_of is None else (sum_of[0], 0, True)
    found = _mask(low, node) if node.op in ("where", "masked_fill") else None
    return None if found is None else (found[0], found[2], False)


def sent(low: Lowering, node: Node, mask: Ref, scores: Signal, added: bool) -> Signal:
    """The bit of each score, when and as often as the scores come: from the host, or from a memory where it is known.

    `added`: the mask is 0 where it changes nothing, and lower than all scores elsewhere.
    """
    shape = low.shape(low.graph.nodes[mask.node], out_port(mask.output))
    places = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), scores.shape).reshape(-1)[scores.index]
    now = scores.stream
    stream = Stream(now.rows, now.size, BIT, now.par, now.tokens)
    values = low.value(mask)
    if values is not None:
        bits = (values.reshape(-1)[places] <= ENOUGH) if added else values.reshape(-1)[places] != 0
        return held(low, node, bits.astype(np.int64), stream, scores.shape, scores.index)
    made = Boundary(port("x", len(low.inputs)), stream, mask.node, shape, places, mask.output, mask=added)
    low.inputs.append(made)
    return Signal(Wire("", len(low.inputs) - 1), stream, scores.shape, scores.index)


# ---- softmax


@lowers("softmax")
def softmax(low: Lowering, node: Node) -> None:
    """Over any axis of a sample, which is made the last one."""
    rank, axis = len(low.shape(node)), low.axis(node, int(argument(node, "dim", 1, -1)))
    if axis < 0:
        raise refused(node, "samples put together", "Take it over an axis of one sample.")
    x = low.operand(node, node.inputs[0], "data_in")
    turned = np.moveaxis(np.arange(x.index.size).reshape(x.shape), axis, -1)
    mask = _mask_before(low, node.inputs[0])
    if mask is not None and axis != rank - 1:
        raise refused(node, "a mask over another axis than the last", "Transpose the scores.")
    x = x.viewed(turned)
    size = x.shape[-1]
    par, _, _ = low.parallel(node, size, 1)
    x = low.resize(node, whole_rows(low, node, x), par, 1)
    to, rounding = needed(low, node)
    bits = () if mask is None else (sent(low, node, mask[0], x, mask[2]),)
    inputs = (x.stream, *(b.stream for b in bits))
    out = Stream(x.stream.rows, size, to, par)
    made = Softmax(name=node.id, node=node.id, inputs=inputs, outputs=(out,), shape=x.shape,
                   keep=1 if mask is None else mask[1], rounding=rounding)  # fmt: skip
    back = np.argsort(turned.reshape(-1)).reshape(low.shape(node))
    low.publish(node, replace(x, wire=low.add(made, (x.wire, *(b.wire for b in bits))), stream=out).viewed(back))


def whole_rows(low: Lowering, node: Node, x: Signal) -> Signal:
    """A signal as rows of its last axis, whose elements come together in any order."""
    size = x.shape[-1]
    places = x.index.reshape(-1, size) // size
    if (places != places[:, :1]).any():
        return reordered(low, node, x, np.arange(x.index.size), size)
    return cut(low, node, x, size)


def needed(low: Lowering, node: Node) -> tuple[Fixed, Rounding]:
    """The format of a result that no format holds exactly: its own, or that in which it is read; else EmitError."""
    unknown = Fixed(1, 0)
    found = low.result(node, unknown)
    if found[0] is unknown:
        text = f"data_out of {node.id} has no format."
        raise EmitError(text, "Quantise it, or data_in of what reads it, with `integer` (pass quantize).", node.id)
    return found
