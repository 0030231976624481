"""The cost `communication`: what ranks send each other in a forward run of a graph that has a sharding."""

from __future__ import annotations

import math

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import BITS
from espalier.model.graph.node import in_port, out_port
from espalier.model.graph.ports import choice
from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.sharding.collectives import Placements, collectives
from espalier.passes.sharding.factors import Call, call_of
from espalier.passes.sharding.options import batch_symbols
from espalier.passes.sharding.strategies import Strategy, strategies

PORTS = ("data_in", "weight", "bias")


def sent_by(node: Node, graph: Graph) -> float:
    """Bytes that a rank sends for the operands of a node, at the traced sizes, in their formats.

    A tensor that several nodes read in the same placement moves once; each counts its part.
    """
    if node.call == "output":
        return sum(_result(node, i, graph) for i in range(len(node.inputs)))
    call = call_of(node, graph, dict(graph.symbols), batch_symbols(graph)) if node.sharding else None
    if call is None or node.call in ("placeholder", "get_attr"):
        return 0.0
    needed, total = _strategy(call), 0.0
    for port, ref in call.inputs:
        source = graph.nodes[ref.node]
        if source.sharding is not None:
            before = source.sharding.ports.get(out_port(ref.output))
            readers = 1 if source.call == "get_attr" else _readers(node, port, ref.node, graph)
            total += _sent(node, port, before, needed.ports.get(port), call) / readers
    if node.sharding is not None:
        for port in node.weights:
            total += _sent(node, port, node.sharding.ports.get(port), needed.ports.get(port), call)
    return total


def _strategy(call: Call) -> Strategy:
    """The strategy that a node's placements of activations stand for: the one that moves its stored weights least."""
    assert call.node.sharding is not None
    own = call.node.sharding
    found = strategies(call, own.mesh)
    flowing = [p for p in call.shapes if p not in call.stored]
    fitting = [s for s in found if all(s.ports[p] == own.ports.get(p, s.ports[p]) for p in flowing)]
    stored = [p for p in call.stored if p in call.shapes]
    return min(fitting or found, key=lambda s: sum(s.ports[p] != own.ports.get(p, s.ports[p]) for p in stored))


def _readers(node: Node, port: str, source: str, graph: Graph) -> int:
    """How many operands in the same placement read a tensor."""
    assert node.sharding is not None
    at, count = node.sharding.ports.get(port), 0
    for other in graph:
        if other.sharding is None or source not in {r.node for r in other.inputs}:
            continue
        call = call_of(other, graph, dict(graph.symbols), batch_symbols(graph))
        if call is not None:
            count += sum(r.node == source and other.sharding.ports.get(p) == at for p, r in call.inputs)
    return max(count, 1)


def _result(node: Node, number: int, graph: Graph) -> float:
    """Bytes sent to bring a result of the model into its placement."""
    ref = node.inputs[number]
    source, out = graph.nodes[ref.node], out_port(ref.output)
    if node.sharding is None or source.sharding is None or out not in source.ports:
        return 0.0
    before, after = source.sharding.ports.get(out), node.sharding.ports.get(in_port(number))
    if before is None or after is None:
        return 0.0
    meta = source.ports[out]
    size = meta.elements(dict(graph.symbols)) * BITS.get(meta.dtype, 32) / 8
    return sum(c.sent() for c in collectives(before, after, node.sharding.mesh, size))


def _sent(node: Node, port: str, before: Placements | None, after: Placements | None, call: Call) -> float:
    if before is None or after is None or port not in node.ports or node.sharding is None:
        return 0.0
    size = math.prod(call.shapes[port]) * BITS.get(node.ports[port].dtype, 32) / 8
    chosen = choice(node, port)
    coded = chosen.format.stored_bits(call.shapes[port]) / 8 if chosen else None
    return sum(c.sent() for c in collectives(before, after, node.sharding.mesh, size, coded))


def communication(graph: Graph) -> float:
    """Bytes that each rank sends; not a number for a graph without sharding."""
    if not any(n.sharding for n in graph):
        return math.nan
    return sum(sent_by(n, graph) for n in graph)


COSTS.add("communication", Cost(
    "communication", "Communication", "B", "low",
    "bytes that each rank sends in a forward run at the traced sizes, of a model with a sharding (pass shard)",
    of=lambda graph, score: communication(graph),
    shares=Shares(node=sent_by, ports=PORTS),
))  # fmt: skip
