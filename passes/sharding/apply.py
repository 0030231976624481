"""What a node's sharding means for its tensors: where they are stored, and what its operation takes them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Ref
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Node, out_port
from espalier.model.graph.operands import operands
from espalier.model.graph.ops import base_port, category

Placement = str
STORED = ("weight", "bias")


def in_use(node: Node, port: str) -> tuple[Placement, ...] | None:
    """The placement per axis in which the node's operation takes or gives the tensor of a port; None without one.

    A stored tensor that is split along an axis over which the samples are split as well is gathered for its use (fully
    sharded data parallelism).
    """
    if node.sharding is None:
        return None
    ports = node.sharding.ports
    texts = ports.get(port)
    if texts is None or base_port(port) not in STORED or category(node) == "matmul":
        return texts
    given, result = ports.get("data_in", ()), ports.get("data_out", ())
    return tuple(
        "R" if text.startswith("S") and axis < min(len(given), len(result)) and _samples(node, given[axis], result[axis])
        else text
        for axis, text in enumerate(texts)
    )  # fmt: skip


def _samples(node: Node, given: Placement, result: Placement) -> bool:
    """Whether an axis splits the samples (or rows) of a node, so that every part needs the whole weight."""
    if given != result or not given.startswith("S"):
        return False
    meta = node.ports.get("data_in")
    by_rows = node.op in ("linear", "embedding", "layer_norm", "rms_norm")
    rank = len(meta.shape) if meta else 1
    last = rank if node.op == "embedding" else rank - 1
    return given == "S0" or (by_rows and int(given[1:]) < last)


@dataclass(frozen=True, slots=True)
class Reshard:
    """A change of placement between two nodes, along one axis of the mesh.

    `bytes`: of the part of the tensor that a device holds before it. `collective`: as torch names it.
    """

    source: str
    target: str
    port: str
    axis: int
    before: Placement
    after: Placement
    collective: str
    bytes: float


def collective_of(before: Placement, after: Placement) -> str:
    """The collective that changes a placement; empty where none is needed."""
    if before == after or before == "R" or after == "P":
        return ""
    if before == "P":
        return "all_reduce" if after == "R" else "reduce_scatter"
    return "all_gather" if after == "R" else "all_to_all"


def resharding(graph: Graph) -> Iterator[Reshard]:
    """The changes of placement along the edges of a graph, in order, and the gathers of stored tensors."""
    for node in graph:
        if node.sharding is None:
            continue
        if node.call == "call_module":
            pairs = [(a, "data_in") for a in node.args[:1] if isinstance(a, Ref)]
        else:
            ports = operands(node.op, node.args, node.kwargs, graph.nodes)
            pairs = [(ref, (found or ("", None))[0]) for ref, found in zip(node.inputs, ports, strict=False)]
        for ref, port in pairs:
            source, wanted = graph.nodes[ref.node], in_use(node, port)
            name = out_port(ref.output)
            if source.sharding and wanted and (stored := source.sharding.ports.get(name)):
                yield from _changes(graph, (source.id, node.id, port), source.ports.get(name), stored, wanted)
        for port in node.weights:
            stored, wanted = node.sharding.ports.get(port), in_use(node, port)
            if node.call == "call_module" and stored and wanted:
                yield from _changes(graph, (node.id, node.id, port), node.ports.get(port), stored, wanted)


def _changes(
    graph: Graph, where: tuple[str, str, str], meta: TensorMeta | None, before: tuple[Placement, ...],
    after: tuple[Placement, ...],
) -> Iterator[Reshard]:  # fmt: skip
    from espalier.model.graph.meta import BITS

    source, target, port = where
    sharding = graph.nodes[target].sharding
    if meta is None or sharding is None:
        return
    total = meta.elements(graph.symbols) * BITS.get(meta.dtype, 32) / 8
    held = total
    for size, old in zip(sharding.mesh, before, strict=False):
        held /= size if old.startswith("S") else 1
    for axis, (old, new) in enumerate(zip(before, after, strict=False)):
        if sharding.mesh[axis] > 1 and (collective := collective_of(old, new)):
            yield Reshard(source, target, port, axis, old, new, collective, held)
            held *= sharding.mesh[axis] if new == "R" and old.startswith("S") else 1
            held /= sharding.mesh[axis] if new.startswith("S") and old == "P" else 1
