"""What a node's sharding means for its tensors: where they are stored, and what its operation takes them in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS, Sharding, TensorMeta
from espalier.model.graph.node import Node, Ref, in_port, map_arg, out_port
from espalier.model.graph.operands import named_op, operands
from espalier.model.graph.ops import base_port, category
from espalier.passes.sharding.collectives import collectives
from espalier.passes.sharding.factors import Call, Factors
from espalier.passes.sharding.shape_factors import factors_of
from espalier.passes.sharding.strategies import AxisRule, axis_rules

Placements = tuple[str, ...]
BLANK = Ref("")


def in_use(node: Node, port: str) -> Placements | None:
    """The placement per axis in which the node's operation takes or gives the tensor of a port; None without one.

    `Node.sharding` has the placement in which a weight is stored. That of its use follows from the input's and the
    result's: with the samples split, each rank needs the whole weight (fully sharded data parallelism).
    """
    if node.sharding is None or node.op == "sym_size":  # which reads no values
        return None
    ports = node.sharding.ports
    stored = ports.get(port)
    if stored is None or base_port(port) not in ("weight", "bias") or category(node) == "matmul":
        return stored
    given, result = ports.get("data_in"), ports.get("data_out")
    if given is None or result is None:
        return stored
    rules = (rule_of(node, axis) for axis in range(len(stored)))
    return tuple(
        rule.ports[port] if rule and port in rule.ports else text for rule, text in zip(rules, stored, strict=True)
    )


def rule_of(node: Node, axis: int) -> AxisRule | None:
    """The strategy on one axis: of those with the node's input and result (or a sum for it) that of its weight."""
    assert node.sharding is not None
    return _fitting(_Shapes(node), tuple((p, texts[axis]) for p, texts in node.sharding.ports.items()))


def stored_as_used(graph: Graph, shardings: Mapping[str, Sharding]) -> dict[str, Sharding]:
    """Shardings of nodes whose whole stored weights every use takes split alike: stored split, which moves nothing."""
    wanted: dict[str, set[Placements]] = {}
    holders: dict[str, list[tuple[str, str]]] = {}
    for node in graph:
        sharding = shardings.get(node.id)
        if sharding is None:
            continue
        placed = replace(node, sharding=sharding)
        ports = operands(named_op(node), node.args, node.kwargs, graph.nodes)
        reads = [(graph.nodes[r.node], (p or ("",))[0]) for r, p in zip(node.inputs, ports, strict=True)]
        uses = [(s.weights["value"], p) for s, p in reads if s.call == "get_attr"]
        if node.call == "get_attr":
            holders.setdefault(node.weights["value"], []).append((node.id, "data_out"))
        else:
            uses += [(w, p) for p, w in node.weights.items()]
            for port, weight in node.weights.items():
                holders.setdefault(weight, []).append((node.id, port))
        for weight, port in uses:
            wanted.setdefault(weight, set()).add(in_use(placed, port) or ())
    found: dict[str, Sharding] = {}
    for weight, uses in wanted.items():
        use = next(iter(uses))
        whole = all(set(shardings[n].ports.get(p, ("P",))) == {"R"} for n, p in holders.get(weight, ()))
        if len(uses) == 1 and whole and any(p.startswith("S") for p in use) and "P" not in use:
            for name, port in holders[weight]:
                old = found.get(name, shardings[name])
                found[name] = replace(old, ports={**old.ports, port: use})
    return found


class _Shapes:
    """A node as a key of the caches: by what its strategies depend on, so that equal nodes of equal blocks are one."""

    def __init__(self, node: Node) -> None:
        self.node = node
        kwargs = [(k, map_arg(a, _blank)) for k, a in node.kwargs.items()]
        self.key = (
            node.op,
            node.target if node.call == "call_function" else "",
            tuple(sorted((p, m.shape) for p, m in node.ports.items())),
            tuple(node.weights),
            repr(([map_arg(a, _blank) for a in node.args], kwargs, node.attrs)),
        )
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shapes) and self.key == other.key


def _blank(ref: Ref) -> Ref:
    """Any reference: which node it names does not matter."""
    return BLANK


@lru_cache(8192)
def _fitting(shapes: _Shapes, placed: tuple[tuple[str, str], ...]) -> AxisRule | None:
    """The strategy of a node with these placements on one axis."""
    ports = dict(placed)
    result, stored = ports.get("data_out"), ports.get("weight")
    fitting = [r for r in _rules(shapes) if r.ports.get("data_in") == ports.get("data_in")
               and r.ports.get("data_out") in (result, "P")]  # fmt: skip
    return max(
        fitting, key=lambda r: (r.ports.get("weight") == stored, r.ports.get("data_out") == result), default=None
    )


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
        yield from resharding_at(node, graph, known)


def resharding_at(node: Node, graph: Graph, sizes: dict[str, int]) -> Iterator[Reshard]:
    """Those before a node and of its result, from the node, its inputs and the sizes of the symbols alone."""
    if node.sharding is None:
        return
    for source, port, before, after, meta in edges(graph, node):
        if meta is None or before == after:
            continue
        size = meta.elements(sizes) * BITS.get(meta.dtype, 32) / 8
        for found in collectives(before, after, node.sharding.mesh, size):
            yield Reshard(source, node.id, port, found.axis, before, after, found.kind, found.bytes)


Edge = tuple[str, str, Placements, Placements, TensorMeta | None]


def edges(graph: Graph, node: Node) -> Iterator[Edge]:
    """(source, port, placement there, placement wanted, tensor) of inputs, weights and results of a node."""
    sharding = node.sharding
    assert sharding is not None
    for ref, port, before, after, meta in operand_edges(graph, node):
        yield ref.node, port, before, after, meta
    for port, stored, after in weight_edges(node):
        yield node.id, port, stored, after, node.ports.get(port)
    result = sharding.ports.get("data_out")
    if result is not None and node.call in ("call_module", "call_function"):
        yield node.id, "data_out", computed(node, result), result, node.ports.get("data_out")


def operand_edges(
    graph: Graph, node: Node
) -> Iterator[tuple[Ref, str, Placements, Placements, TensorMeta | None]]:  # fmt: skip
    """(source, port, placement there, placement wanted, tensor) of the inputs of a node."""
    ports = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    for i, (ref, found) in enumerate(zip(node.inputs, ports, strict=True)):
        source: Node = graph.nodes[ref.node]
        if found is None or source.sharding is None:
            continue
        port = in_port(i) if node.call == "output" else found[0]
        before, after = source.sharding.ports.get(out_port(ref.output)), in_use(node, port)
        if before is not None and after is not None:
            yield ref, port, before, after, found[1]


def weight_edges(node: Node) -> Iterator[tuple[str, Placements, Placements]]:
    """(port, placement in which it is stored, placement of its use) of the weights of a layer."""
    for port in node.weights if node.call == "call_module" and node.sharding else ():
        assert node.sharding is not None
        stored, after = node.sharding.ports.get(port), in_use(node, port)
        if stored is not None and after is not None:
            yield port, stored, after


def computed(node: Node, result: Placements) -> Placements:
    """The placements in which the operation itself gives its result: a sum that is split is a partial sum."""
    if node.sharding is None or "data_in" not in node.sharding.ports:
        return result
    rules = (rule_of(node, axis) for axis in range(len(result)))
    return tuple(rule.ports["data_out"] if rule else text for rule, text in zip(rules, result, strict=True))
