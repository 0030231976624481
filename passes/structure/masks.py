"""Masks of units: all weights and biases of a unit are masked; and detection of fully masked units."""

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
    """The mask of a port's tensor, True = kept; None without a mask."""
    sparsity = node.sparsity.get(port)
    if sparsity is None or sparsity.mask is None:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    return np.unpackbits(store.get(sparsity.mask).array, count=count).astype(np.bool_).reshape(shape)


def with_mask(node: Node, port: str, kept: Bools, like: Sparsity, store: WeightStore) -> Node:
    """The node with a mask for a port, described by `like`; without one if nothing is zero."""
    zeros = kept.size - int(np.count_nonzero(kept))
    sparsity = {p: s for p, s in node.sparsity.items() if p != port}
    if zeros:
        key = store.hold(Tensor(np.packbits(kept.reshape(-1)), "uint8"))
        sparsity[port] = replace(like, mask=key, zeros=zeros)
    return replace(node, sparsity=sparsity)


def masked(
    structure: Structure, gone: Mapping[Units, Kept], like: Sparsity, store: WeightStore
) -> tuple[Graph, dict[str, int]]:
    """(the graph with the units `gone` masked in all their tensors, zeros of each node's tensors).

    Present masks are kept; units of several sets may be masked in one tensor.
    """
    graph, masked_at = structure.graph, dict[tuple[str, str], list[tuple[Member, Kept]]]()
    for units, which in gone.items():
        for member in units.members:
            if which.any() and maskable(member, graph):
                elements = structure.place(member, units.axis, which)
                masked_at.setdefault((member.node, member.port), []).append((member, elements))
    nodes: dict[str, Node] = {}
    for (name, port), members in masked_at.items():
        node = nodes.get(name, graph.nodes[name])
        shape = graph.weights[members[0][0].weight].shape
        before = kept_elements(node, port, shape, store)
        kept = np.ones(shape, np.bool_) if before is None else before
        for member, elements in members:
            kept[(slice(None),) * member.dim + (elements,)] = False
        nodes[name] = with_mask(node, port, kept, _joined(node.sparsity.get(port), like), store)
    after = graph.replace(*nodes.values())
    return after, {k: sum(s.zeros for s in n.sparsity.values()) for k, n in nodes.items()}


def _joined(before: Sparsity | None, like: Sparsity) -> Sparsity:
    """Pattern of a mask of two prunings: "heads+neurons"."""
    if before is None or before.flows or like.pattern in before.pattern.split("+"):
        return like
    return replace(like, pattern=f"{before.pattern}+{like.pattern}", size=(1, 1))


# -- masked units


def dead(structure: Structure, units: Units, store: WeightStore) -> Kept:
    """The units of a set without effect: the columns of all layers that read them are masked.

    If a norm's statistics include them, or no layer reads them, the rows that produce them must be masked too.
    """
    reading = [m for m in units.members if m.role == "columns"]
    wanted = reading if reading and units.norm is None else [m for m in units.members if m.role != "own"]
    if not wanted or not all(maskable(m, structure.graph) for m in _needed(wanted, structure.graph)):
        return np.zeros(units.size, np.bool_)
    result = np.ones(units.size, np.bool_)
    for member in _needed(wanted, structure.graph):
        result &= ~_alive(structure, units, member, store)
        if not result.any():
            break
    return result


def _needed(members: Sequence[Member], graph: Graph) -> Iterator[Member]:
    """Members at layers; a stored tensor of a function has a member at the function too."""
    return (m for m in members if graph.nodes[m.node].call != "get_attr")


def _alive(structure: Structure, units: Units, member: Member, store: WeightStore) -> Kept:
    """The units with an unmasked element in a member."""
    graph = structure.graph
    kept = kept_elements(graph.nodes[member.node], member.port, graph.weights[member.weight].shape, store)
    if kept is None:
        return np.ones(units.size, np.bool_)
    along = kept.any(axis=tuple(i for i in range(kept.ndim) if i != member.dim))
    unit = numbers(structure.dims(member), units.axis)
    alive = np.zeros(units.size, np.bool_)
    alive[unit[along & (unit >= 0)]] = True
    return alive


def wholly_masked(node: Node, graph: Graph) -> bool:
    """Whether a layer's weight and bias are fully masked, so that it returns 0."""
    own = {p: n for p, n in stored(node, graph).items() if p in PORTS}
    return "weight" in own and all(
        (s := node.sparsity.get(p)) is not None and s.zeros == graph.weights[n].elements for p, n in own.items()
    )
