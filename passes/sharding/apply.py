"""What a node's sharding means for its tensors: where they are stored, and what its operation takes them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS
from espalier.model.graph.node import Node, out_port
from espalier.model.graph.operands import named_op, operands
from espalier.model.graph.ops import base_port, category
from espalier.passes.sharding.collectives import collectives
from espalier.passes.sharding.factors import Call, Factors, factors_of
from espalier.passes.sharding.strategies import AxisRule, axis_rules

Placements = tuple[str, ...]


def in_use(node: Node, port: str) -> Placements | None:
    """The placement per axis in which the node's operation takes or gives the tensor of a port; None without one.

    `Node.sharding` has the placement in which a weight is stored. That of its use follows from the input's and the
    result's: with the samples split, each rank needs the whole weight (fully sharded data parallelism).
    """
    if node.sharding is None:
        return None
    ports = node.sharding.ports
    stored = ports.get(port)
    if stored is None or base_port(port) not in ("weight", "bias") or category(node) == "matmul":
        return stored
    given, result = ports.get("data_in"), ports.get("data_out")
    if given is None or result is None:
        return stored
    rules = _rules(_Shapes(node))
    return tuple(_used(rules, port, *axis) for axis in zip(given, result, stored, strict=True))


def _used(rules: tuple[AxisRule, ...], port: str, given: str, result: str, stored: str) -> str:
    """The placement on one axis; as stored if no strategy of the operation has this input and result."""
    for rule in rules:
        out = rule.ports.get("data_out")
        same = rule.ports.get("data_in") == given and (out == result or (out == "P" and result != given))
        if same and port in rule.ports:
            return rule.ports[port]
    return stored


class _Shapes:
    """A node as a key of the cache: by what its strategies depend on."""

    def __init__(self, node: Node) -> None:
        self.node = node
        shapes = tuple(sorted((p, m.shape) for p, m in node.ports.items()))
        self.key = node.op, node.target if node.call == "call_function" else "", shapes, repr(node.args), repr(node.attrs)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shapes) and self.key == other.key


@lru_cache(4096)
def _rules(shapes: _Shapes) -> tuple[AxisRule, ...]:
    """The strategies of a node on one axis, whatever its sizes: symbols count as a size that can be split."""
    node = shapes.node
    sizes = {p: tuple(d if isinstance(d, int) else 1 << 20 for d in m.shape) for p, m in node.ports.items()}
    call = Call(node, (), sizes, frozenset(node.weights))
    try:
        factors = factors_of(call)
    except (KeyError, IndexError, ValueError):
        factors = None
    return tuple(axis_rules(call, factors or Factors({}, {}, {})))


@dataclass(frozen=True, slots=True)
class Reshard:
    """A collective between two nodes, along one axis of the mesh, or of a weight before its use (`source` = `target`).

    `bytes`: of the part of the tensor with which each rank calls it.
    """

    source: str
    target: str
    port: str
    axis: int
    before: Placements
    after: Placements
    collective: str
    bytes: int


def resharding(graph: Graph, sizes: dict[str, int] | None = None) -> Iterator[Reshard]:
    """The collectives of a forward run between the nodes of a sharded graph, in order.

    `sizes`: of the symbols; default: of the trace.
    """
    known = graph.symbols | (sizes or {})
    for node in graph:
        if node.sharding is None:
            continue
        for source, port, before, after in _edges(graph, node):
            meta = node.ports.get(port)
            if meta is None or before == after:
                continue
            size = meta.elements(known) * BITS.get(meta.dtype, 32) / 8
            for found in collectives(before, after, node.sharding.mesh, size):
                yield Reshard(source, node.id, port, found.axis, before, after, found.kind, found.bytes)


def _edges(graph: Graph, node: Node) -> Iterator[tuple[str, str, Placements, Placements]]:
    """(source, port, placement there, placement wanted) of each input and weight of a node that has both."""
    ports = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    for ref, found in zip(node.inputs, ports, strict=True):
        source: Node = graph.nodes[ref.node]
        if found is None or source.sharding is None:
            continue
        before, after = source.sharding.ports.get(out_port(ref.output)), in_use(node, found[0])
        if before is not None and after is not None:
            yield source.id, found[0], before, after
    for port in node.weights if node.call == "call_module" else ():
        stored, after = node.sharding.ports.get(port) if node.sharding else None, in_use(node, port)
        if stored is not None and after is not None:
            yield node.id, port, stored, after


