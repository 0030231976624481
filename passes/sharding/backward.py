"""The collectives of a backward pass that follow from the placements of a graph, as the ranks of a run call them.

A gradient is added up over all readers of a tensor, then settled: a partial sum of a tensor that is whole is reduced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS, TensorMeta
from espalier.model.graph.node import Node, in_port, out_port
from espalier.model.graph.ops import floating
from espalier.passes.sharding.apply import Placements, Reshard, computed, operand_edges, rule_of, weight_edges
from espalier.passes.sharding.collectives import collectives
from espalier.passes.sharding.costs_of_nodes import trained
from espalier.passes.sharding.network import differentiated

Slot = tuple[str, str]  # a node and a result, or "" and a weight


class Backward:
    """A backward pass over a sharded graph. `sizes`: of the symbols, default: of the trace. `results`: numbers of the
    model's results that have a gradient; default: all."""

    def __init__(
        self, graph: Graph, sizes: dict[str, int] | None = None, results: Collection[int] | None = None
    ) -> None:
        self.graph, self.sizes = graph, graph.symbols | (sizes or {})
        self.reached, self.results = differentiated(graph), results
        self.given: dict[Slot, list[Placements]] = defaultdict(list)

    def __iter__(self) -> Iterator[Reshard]:
        for node in reversed(list(self.graph)):
            if node.sharding is None:
                continue
            if node.call == "output":
                yield from self._operands(node, {})
            elif node.call == "get_attr":
                self.given["", node.weights["value"]] += self.given.pop((node.id, "data_out"), [])
            elif node.id in self.reached and floating(node.out):
                yield from self._node(node)
        yield from self._weights()

    def _node(self, node: Node) -> Iterator[Reshard]:
        assert node.sharding is not None
        reached = False
        for port, meta in node.ports.items():
            if not port.startswith("data_out") or not self.given.get((node.id, port)):
                continue
            reached, at = True, node.sharding.ports.get(port)
            if at is None:
                continue
            total = _sum(self.given.pop((node.id, port)))
            wanted = _whole(at)
            yield from self._moved(node, node.id, port, meta, total, wanted)
            if port == "data_out":
                yield from self._moved(node, node.id, port, meta, wanted, _whole(computed(node, at)))
        if reached:
            rules = [rule_of(node, axis) for axis in range(len(node.sharding.mesh))]
            names = {p for rule in rules if rule for p in rule.gradients}
            arising = {p: tuple(rule.gradients.get(p, "R") if rule else "R" for rule in rules) for p in names}
            yield from self._operands(node, arising)

    def _operands(self, node: Node, arising: dict[str, Placements]) -> Iterator[Reshard]:
        """What the gradients of a node's operands and weights, which arise in these placements, cost."""
        for ref, port, before, after, meta in operand_edges(self.graph, node):
            if node.call == "output" and self.results is not None and port not in map(in_port, self.results):
                continue
            if meta is not None and floating(meta) and ref.node in self.reached:
                slot = ref.node, out_port(ref.output)
                yield from self._operand(node, slot, port, before, after, arising.get(port, _whole(after)), meta)
        for port, before, after in weight_edges(node):
            name, meta = node.weights[port], node.ports.get(port)
            if meta is not None and trained(self.graph.weights[name]):
                yield from self._operand(node, ("", name), port, before, after, arising.get(port, _whole(after)), meta)

    def _operand(
        self, node: Node, slot: Slot, port: str, before: Placements, after: Placements, gradient: Placements,
        meta: TensorMeta,
    ) -> Iterator[Reshard]:  # fmt: skip
        if before != after:
            wanted = tuple("R" if b == "P" and g != "P" else b for b, g in zip(before, gradient, strict=True))
            yield from self._moved(node, slot[0] or node.id, port, meta, gradient, wanted)
            gradient = wanted
        self.given[slot].append(gradient)

    def _moved(
        self, node: Node, source: str, port: str, meta: TensorMeta, before: Placements, after: Placements
    ) -> Iterator[Reshard]:
        assert node.sharding is not None
        if before != after:
            size = meta.elements(self.sizes) * BITS.get(meta.dtype, 32) / 8
            for found in collectives(before, after, node.sharding.mesh, size):
                yield Reshard(source, node.id, port, found.axis, before, after, found.kind, found.bytes)

    def _weights(self) -> Iterator[Reshard]:
        """The sums of gradients that arise as weights are stored."""
        stored: dict[str, tuple[Placements, tuple[int, ...]]] = {}
        for node in self.graph:
            for port, name in node.weights.items():
                at = node.sharding and node.sharding.ports.get("data_out" if node.call == "get_attr" else port)
                if node.sharding and at:
                    stored.setdefault(name, (at, node.sharding.mesh))
        for name, (at, mesh) in stored.items():
            if gradients := self.given.get(("", name)):
                weight, total = self.graph.weights[name], _sum(gradients)
                size = weight.elements * BITS.get(weight.dtype, 32) / 8
                for found in collectives(total, _whole(at), mesh, size):
                    yield Reshard(name, name, "weight", found.axis, total, _whole(at), found.kind, found.bytes)


def _whole(placements: Placements) -> Placements:
    """The placement of a gradient: that of a partial sum is whole."""
    return tuple("R" if p == "P" else p for p in placements)


def _sum(gradients: list[Placements]) -> Placements:
    """The placement of the sum of gradients: of whole and partial ones it is partial."""
    return tuple("P" if "P" in axis else next((p for p in axis if p != "R"), "R")
                 for axis in zip(*gradients, strict=True))  # fmt: skip
