"""Masks of whole units: every weight and bias of a set is zero where a unit lies; and units whose masks say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.structure.axes import Kept, numbers
from espalier.passes.structure.sets import PORTS, Member, Structure, Units, stored

Bools = NDArray[np.bool_]


def maskable(member: Member, graph: Graph) -> bool:
    """Whether a member's tensor takes a mask at its node."""
    return member.port in PORTS and graph.nodes[member.node].call != "get_attr"


def kept_elements(node: Node, port: str, shape: tuple[int, ...], store: WeightStore) -> Bools | None:
    """The mask of a port's tensor, True = kept; None where it has none."""
    held = node.sparsity.get(port)
    if held is None or held.mask is None:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    return np.unpackbits(store.get(held.mask).array, count=count).astype(np.bool_).reshape(shape)


def with_mask(node: Node, port: str, kept: Bools, like: Sparsity, store: WeightStore) -> Node:
    """The node with a mask for a port, as `like` describes it; none where nothing is zero."""
    zeros = kept.size - int(np.count_nonzero(kept))
    held = {p: s for p, s in node.sparsity.items() if p != port}
    if zeros:
        key = store.hold(Tensor(np.packbits(kept.reshape(-1)), "uint8"))
        held[port] = replace(like, mask=key, zeros=zeros)
    return replace(node, sparsity=held)


def masked(
    structure: Structure, gone: Mapping[Units, Kept], like: Sparsity, store: WeightStore
) -> tuple[Graph, dict[str, int]]:
    """The graph with the units `gone` masked in all their tensors, and the zeros of each node's tensors.

    Masks that are there already stay; units of several kinds may go in one tensor.
    """
    graph, places = structure.graph, dict[tuple[str, str], list[tuple[Member, Kept]]]()
    for held, which in gone.items():
        for member in held.members:
            if which.any() and maskable(member, graph):
                place = structure.place(member, held.axis, which)
                places.setdefault((member.node, member.port), []).append((member, place))
    nodes: dict[str, Node] = {}
    for (name, port), members in places.items():
        node = nodes.get(name, graph.nodes[name])
        shape = graph.weights[members[0][0].weight].shape
        before = kept_elements(node, port, shape, store)
        kept = np.ones(shape, np.bool_) if before is None else before
        for member, place in members:
            kept[(slice(None),) * member.dim + (place,)] = False
        nodes[name] = with_mask(node, port, kept, _joined(node.sparsity.get(port), like), store)
    after = graph.replace(*nodes.values())
    return after, {k: sum(s.zeros for s in n.sparsity.values()) for k, n in nodes.items()}


def _joined(before: Sparsity | None, like: Sparsity) -> Sparsity:
    """What a mask of two prunings is called: "heads+neurons"."""
    if before is None or before.flows or like.pattern in before.pattern.split("+"):
        return like
    return replace(like, pattern=f"{before.pattern}+{like.pattern}", size=(1, 1))


# -- which units are masked


def dead(structure: Structure, held: Units, store: WeightStore) -> Kept:
    """Which units of a set their masks take out of the model: all layers that take them in are masked there.

    Where a norm's statistics run over them, and where no layer takes them, all that gives them must be masked too.
    """
    taking = [m for m in held.members if m.role == "columns"]
    wanted = taking if taking and held.norm is None else [m for m in held.members if m.role != "own"]
    if not wanted or not all(maskable(m, structure.graph) for m in _needed(wanted, structure.graph)):
        return np.zeros(held.size, np.bool_)
    found = np.ones(held.size, np.bool_)
    for member in _needed(wanted, structure.graph):
        found &= ~_alive(structure, held, member, store)
        if not found.any():
            break
    return found


def _needed(members: Sequence[Member], graph: Graph) -> Iterator[Member]:
    """Those through which values flow: a stored tensor that a layer takes stands at the layer too."""
    return (m for m in members if graph.nodes[m.node].call != "get_attr")


def _alive(structure: Structure, held: Units, member: Member, store: WeightStore) -> Kept:
    """Which units have an element that is not masked in a member."""
    graph = structure.graph
    kept = kept_elements(graph.nodes[member.node], member.port, graph.weights[member.weight].shape, store)
    if kept is None:
        return np.ones(held.size, np.bool_)
    along = kept.any(axis=tuple(i for i in range(kept.ndim) if i != member.dim))
    unit = numbers(structure.dims(member), held.axis)
    found = np.zeros(held.size, np.bool_)
    found[unit[along & (unit >= 0)]] = True
    return found


def wholly_masked(node: Node, graph: Graph) -> bool:
    """Whether a layer gives nothing: its weight and its bias are masked to the last element."""
    own = {p: n for p, n in stored(node, graph).items() if p in PORTS}
    return "weight" in own and all(
        (s := node.sparsity.get(p)) is not None and s.zeros == graph.weights[n].elements for p, n in own.items()
    )
