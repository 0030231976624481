"""Cuts a graph into segments that follow one another through a single tensor, such as the residual stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node, Ref, named_weights
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import weights_of


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a graph. `before`, `after`: the node whose result it takes and gives; None at the model's ends.

    `nodes`: ids of its own nodes in order. Nodes that depend on no parameter, such as masks and rotary tables, belong
    to no segment and are computed in each that reads them.
    """

    nodes: tuple[str, ...]
    before: str | None
    after: str | None

    def part(self, graph: Graph) -> Graph:
        """The segment as a graph: `before` is an input of its own id, `after` its one result."""
        needed, pending = set(self.nodes), list(self.nodes)
        if self.after is None:
            pending += [r.node for r in graph.output.inputs if r.node not in needed]
            needed.update(pending)
        while pending:
            for ref in graph.nodes[pending.pop()].inputs:
                if ref.node not in needed and ref.node != self.before:
                    needed.add(ref.node)
                    pending.append(ref.node)
        needed.discard(self.before or "")
        inputs = {n.id: n for n in graph.placeholders if n.id in needed}
        if self.before:
            port = {"data_out": graph.nodes[self.before].ports["data_out"]}
            inputs[self.before] = Node(self.before, "placeholder", "placeholder", self.before, ports=port)
        nodes = inputs | {n.id: n for n in graph if n.id in needed and n.id not in inputs and n.call != "output"}
        nodes[graph.output.id] = self._output(graph)
        weights = named_weights(nodes.values(), graph.weights)
        if self.after is None:
            return replace(graph, nodes=nodes, weights=weights)
        return replace(graph, nodes=nodes, weights=weights, structure="tensor", output_names=())

    def _output(self, graph: Graph) -> Node:
        return replace(graph.output, args=(Ref(self.after),), kwargs={}) if self.after else graph.output


def parameter_bytes(nodes: Iterable[str], graph: Graph) -> int:
    """Bytes of the distinct stored tensors that nodes read."""
    names = {name for i in nodes for _, name in weights_of(graph.nodes[i], graph)}
    return sum(_bytes(graph.weights[n]) for n in names if n in graph.weights)


def segments_of(graph: Graph, bonds: Iterable[Set[str]] = ()) -> list[Segment]:
    """The segments of a graph in order, each as small as possible but for neighbours that fit into the largest.

    A cut lies where one tensor alone is needed later. `bonds`: sets of nodes that stay in one segment. Raises PassError
    for a graph that cannot be cut.
    """
    own = _own_nodes(graph)
    cuts = _cuts(graph, own)
    for bond in bonds:
        inside = [i for i, name in enumerate(own) if name in bond]
        cuts = [c for c in cuts if not inside or not inside[0] <= c < inside[-1]]
    parts = _joined(_between(own, cuts), graph)
    if len(parts) < 2:
        raise PassError("The model has no place where a single tensor is needed later, so it cannot be streamed.",
                        "Open it in memory.")  # fmt: skip
    ends = [part[-1] for part in parts]
    return [
        Segment(tuple(part), ends[i - 1] if i else None, ends[i] if i + 1 < len(parts) else None)
        for i, part in enumerate(parts)
    ]


def _own_nodes(graph: Graph) -> list[str]:
    """Nodes that depend on a parameter, without the stored tensors themselves."""
    depends: set[str] = set()
    own: list[str] = []
    for node in graph:
        if node.call in ("placeholder", "get_attr", "output"):
            continue
        stored = [graph.weights[name] for _, name in weights_of(node, graph) if name in graph.weights]
        if any(w.role == "parameter" for w in stored) or any(r.node in depends for r in node.inputs):
            depends.add(node.id)
            own.append(node.id)
    return own


def _cuts(graph: Graph, own: Sequence[str]) -> list[int]:
    """Indices of own nodes behind which only their result is needed by later ones."""
    place = {name: i for i, name in enumerate(own)}
    last = dict.fromkeys(own, -1)
    for node in graph:
        at = len(own) if node.call == "output" else place.get(node.id, -1)
        for ref in node.inputs:
            if ref.node in last:
                last[ref.node] = max(last[ref.node], at)
    cuts: list[int] = []
    live: set[str] = set()
    for i, name in enumerate(own):
        live.add(name)
        live -= {n for n in live if last[n] <= i}
        node = graph.nodes[name]
        if live == {name} and node.outputs is None and node.out is not None and i + 1 < len(own):
            cuts.append(i)
    return cuts


def _between(own: Sequence[str], cuts: Sequence[int]) -> list[list[str]]:
    edges = [0, *(c + 1 for c in cuts), len(own)]
    return [list(own[a:b]) for a, b in itertools.pairwise(edges)]


def _joined(parts: list[list[str]], graph: Graph) -> list[list[str]]:
    """Neighbours joined up to the bytes of the largest part."""
    most = max(parameter_bytes(p, graph) for p in parts)
    joined = parts[:1]
    for part in parts[1:]:
        both = [*joined[-1], *part]
        if parameter_bytes(both, graph) <= most:
            joined[-1] = both
        else:
            joined.append(part)
    return joined


def _bytes(weight: Weight) -> int:
    return weight.elements * weight.float_bits // 8
