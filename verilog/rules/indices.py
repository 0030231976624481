"""Ops that pick elements of a tensor by place: transposes change an order, slices drop beats, repeats stay on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from model.errors import EmitError
from model.graph import Node, Ref
from verilog.layout import refused
from verilog.lower import Lowering, lowers
from verilog.signal import Signal
from verilog.templates.reorder import Pick


@lowers("transpose", "permute", "t", "movedim", "select", "slice", "narrow", "expand", "repeat_interleave", "repeat",
        "flip", "roll")  # fmt: skip
def by_place(low: Lowering, node: Node) -> None:
    """The op itself tells, run on the numbers of the places."""
    x = low.operand(node, node.inputs[0], "data_in")
    low.publish(node, taken(low, node, x, _picked(low, node)))


def _picked(low: Lowering, node: Node) -> np.ndarray:
    """Which element of one sample of the operand each element of the result is."""
    import torch

    from model.trace.targets import function_of

    if node.call != "call_function":
        raise refused(node, "a module for it", "Write it as a function.")
    sizes = node.ports["data_in"].sizes(low.symbols)
    places = torch.arange(int(np.prod(sizes))).reshape(sizes)
    rest = [_number(low, node, arg) for arg in node.args[1:]]
    named = {k: _number(low, node, arg) for k, arg in node.kwargs.items()}
    return function_of(node.target)(places, *rest, **named).numpy().reshape(low.shape(node))


def _number(low: Lowering, node: Node, arg: Any) -> Any:
    """An argument with sizes in place of the nodes that look them up."""
    if isinstance(arg, tuple | list):
        return [_number(low, node, a) for a in arg]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(arg, Ref):
        return arg
    source = low.graph.nodes[arg.node]
    if source.op != "sym_size":
        raise refused(node, f"an argument that {source.id} computes", "Use sizes that are known.")
    of, dim = source.args[0], source.args[1]
    assert isinstance(of, Ref) and isinstance(dim, int)
    return low.graph.nodes[of.node].ports["data_out"].sizes(low.symbols)[dim]


def taken(low: Lowering, node: Node, x: Signal, picked: np.ndarray) -> Signal:
    """The elements `picked` of a signal: another view of it, or what is left when the other beats are dropped."""
    wanted = np.unique(picked)
    if wanted.size == x.index.size or x.repeated is not None:
        return x.viewed(picked)
    if wanted.size < picked.size:
        raise refused(node, "some elements twice and others not at all", "Slice first, then repeat.")
    kept = np.isin(x.index, wanted)
    par = next(p for p in range(x.stream.par, 0, -1) if x.stream.par % p == 0 and _whole(kept, p))
    x = low.resize(node, x, par, 1)
    beats = kept[::par]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], beats.astype(np.int8), [0]])))
    starts, counts = edges[::2], edges[1::2] - edges[::2]
    period, rest = divmod(len(beats), len(starts))
    if rest or (starts != starts[0] + np.arange(len(starts)) * period).any() or (counts != counts[0]).any():
        text = f"{node.id} takes beats that do not come at regular distances."
        raise EmitError(text, "Take one stretch of one axis.", node.id)
    out = replace(x.stream, rows=len(starts), size=int(counts[0]) * par)
    made = Pick(name=low.free(node.id), node=node.id, inputs=(x.stream,), outputs=(out,), shape=picked.shape,
                period=period, start=int(starts[0]), count=int(counts[0]))  # fmt: skip
    place = np.full(x.index.size, -1)
    place[picked.reshape(-1)] = np.arange(picked.size)
    return Signal(low.add(made, (x.wire,)), out, picked.shape, place[x.index[kept]])


def _whole(kept: np.ndarray, par: int) -> bool:
    """Whether beats of `par` elements stay or go as a whole."""
    groups = kept.reshape(-1, par)
    return bool((groups == groups[:, :1]).all())
