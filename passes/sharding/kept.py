"""What a rank keeps of a forward pass for the backward pass, by the placements of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS, TensorMeta
from espalier.model.graph.node import Node
from espalier.model.graph.ops import floating, spec
from espalier.passes.sharding.apply import Placements, in_use, operand_edges, weight_edges
from espalier.passes.sharding.collectives import shards
from espalier.passes.sharding.network import differentiated


def kept_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Bytes of a rank: results of all operations but views, as in a plan, and what a plan does not count: copies of
    tensors that are redistributed, gathered weights, values in formats, whole tensors of batch norms in training, and
    two gradients of the largest tensor. `sizes`: of the symbols."""
    known, reached = dict(graph.symbols) | dict(sizes), differentiated(graph)
    total = largest = 0.0
    for node in graph:
        if node.sharding is None or node.id not in reached:
            continue
        for meta, at in _tensors(graph, node):
            if floating(meta):
                size = meta.elements(known) * BITS.get(meta.dtype, 32) / 8 / shards(at, node.sharding.mesh)
                total, largest = total + size, max(largest, size)
    return round(total + 2 * largest)


def _tensors(graph: Graph, node: Node) -> Iterator[tuple[TensorMeta, Placements]]:
    """The tensors that a node adds, with their placements."""
    assert node.sharding is not None
    if node.op == "batch_norm":  # a rank normalises the whole batch
        whole = ("R",) * len(node.sharding.mesh)
        yield from ((node.ports[p], whole) for p in ("data_in", "data_out") if p in node.ports)
        return
    computes = node.call not in ("placeholder", "get_attr", "output") and not spec(node.op).moves
    for port, meta in node.ports.items():
        at = node.sharding.ports.get(port)
        if at is not None and computes and port.startswith("data_out"):
            yield meta, at
        if port in node.precision or port in node.sparsity:
            yield meta, in_use(node, port) or ("R",) * len(node.sharding.mesh)
    for _, _, before, after, meta in operand_edges(graph, node):
        if meta is not None and before != after:
            yield meta, after
    for port, before, after in weight_edges(node):
        if before != after and port in node.ports:
            yield node.ports[port], after
