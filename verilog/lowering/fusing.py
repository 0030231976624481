"""Fusion of several nodes into one hardware operation: functions of one tensor, and RMS norms.

Nodes are fused only if no format is set between them; the result is one table or norm.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.operands import operands
from espalier.model.graph.ports import choice
from espalier.verilog.design.host_part import SHAPE_ONLY, constants

PASSES = ("to", "clone", "identity", "dropout", "contiguous", "detach", "alias")  # identities
FUNCTIONS = (
    "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "celu", "selu", "mish", "softplus", "hardtanh",
    "relu6", "hardswish", "hardsigmoid", "logsigmoid", "softsign", "exp", "log", "sqrt", "rsqrt", "reciprocal", "erf",
    "abs", "sin", "cos", "square", "exp2", "log2", "log1p", "expm1", "pow", "clamp", "clamp_min", "clamp_max",
)  # fmt: skip
COMBINE = ("add", "sub", "rsub", "mul", "div")


@dataclass(frozen=True, slots=True)
class Function:
    """`nodes`, in graph order, are a function of `source`; `first` is the first of them that reads it."""

    source: Ref
    first: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """x / √(mean(x²) + eps), times the tensor `gamma` where there is one."""

    source: Ref
    first: str
    nodes: tuple[str, ...]
    eps: float
    gamma: Ref | None


Fused = Function | RmsNorm


def fused(graph: Graph, builtin: Container[str], constants: frozenset[str]) -> dict[str, Fused]:
    """Fusible groups by their last node; `builtin`: ops with a built-in rule, which a table may replace."""
    users: dict[str, list[str]] = {}
    for node in graph:
        for ref in node.inputs:
            if node.op not in SHAPE_ONLY:
                users.setdefault(ref.node, []).append(node.id)
    groups: dict[str, Fused] = {}
    grouped: set[str] = set()
    regions = _regions(graph, frozenset(f for f in FUNCTIONS if f in builtin), constants)
    for node in reversed(list(graph)):
        group = _norm(graph, node, constants) or regions.get(node.id)
        if group is None or grouped & set(group.nodes):
            continue
        inside = set(group.nodes)
        if all(set(users.get(n, ())) <= inside for n in group.nodes if n != node.id):
            groups[node.id] = group
            grouped |= inside
    return groups


# ---- functions of one tensor


def _regions(graph: Graph, functions: frozenset[str], constants: frozenset[str]) -> dict[str, Function]:
    regions: dict[str, Function] = {}
    for node in graph:
        if node.id in constants or node.call in ("placeholder", "output", "get_attr"):
            continue
        if node.op in functions or node.op in PASSES or _combines(node):
            region = _region(graph, node, regions)
            if region is not None:
                regions[node.id] = region
    fusible = (k for k, f in regions.items() if len([n for n in f.nodes if graph.nodes[n].op not in PASSES]) > 1)
    return {k: regions[k] for k in fusible if any(graph.nodes[n].op in functions for n in regions[k].nodes)}


def _combines(node: Node) -> bool:
    has_only_tensors_and_numbers = all(isinstance(a, Ref | int | float) for a in node.args) and not node.kwargs
    return node.op in COMBINE and len(node.args) == 2 and has_only_tensors_and_numbers


def _region(graph: Graph, node: Node, regions: dict[str, Function]) -> Function | None:
    """The region that ends in `node`: with its operands' regions if no format is set between, else of it alone."""
    refs = tuple(dict.fromkeys(node.inputs))
    if not refs or any(r.output for r in refs):
        return None
    within = [regions[r.node] if _unformatted(graph, node, r) and r.node in regions else None for r in refs]
    sources = {f.source if f else r for f, r in zip(within, refs, strict=True)}
    if len(sources) != 1:
        within, sources = [None] * len(refs), set(refs)
        if len(refs) != 1:
            return None
    source = sources.pop()
    inside = {n for f in within if f for n in f.nodes} | {node.id}
    nodes = tuple(n for n in graph.nodes if n in inside)
    shapes = {graph.nodes[n].out.shape for n in nodes if graph.nodes[n].out is not None}  # type: ignore[union-attr]
    chosen = {graph.nodes[n].precision.get("data_in") for n in nodes if source in graph.nodes[n].inputs}
    if len(shapes) != 1 or len(chosen) != 1:
        return None
    return Function(source, next(n for n in nodes if source in graph.nodes[n].inputs), nodes)


def _unformatted(graph: Graph, node: Node, ref: Ref) -> bool:
    """Whether no format is set between a node and its operand."""
    return "data_out" not in graph.nodes[ref.node].precision and "data_in" not in node.precision


# ---- RMS norms


def unfused_formats(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The ports whose formats prevent the fusion of an RMS norm, by node."""
    constant_nodes, blocking = constants(graph), dict[str, tuple[str, ...]]()
    for last in graph:
        norm = _norm(graph, last, constant_nodes, with_formats=True)
        for node in () if norm is None else (graph.nodes[n] for n in norm.nodes):
            outer = {"data_in"} if norm is not None and node.id == norm.first else set[str]()
            outer |= {p for p in node.precision if node is last and p.startswith("data_out")}
            if _formats_within(graph, node, norm.source, norm.gamma, last):  # type: ignore[union-attr]
                blocking[node.id] = tuple(p for p in node.precision if p not in outer)
    return blocking


def _norm(graph: Graph, last: Node, constants: frozenset[str], with_formats: bool = False) -> RmsNorm | None:
    """Match γ·(x·rsqrt(mean(x²) + ε)), or that without γ, ending in `last`; `with_formats`: despite inner formats."""
    if last.op != "mul" or len(last.args) != 2:
        return None
    factors = [a for a in last.args if isinstance(a, Ref) and a.node in constants]
    gamma = factors[0] if len(factors) == 1 else None
    scaled = last if gamma is None else _producer(graph, next(a for a in last.args if a != gamma), "mul")
    if scaled is None or len(scaled.args) != 2:
        return None
    root = next((r for a in scaled.args if (r := _producer(graph, a, "rsqrt")) is not None), None)
    total = _producer(graph, root.args[0], "add") if root is not None else None
    mean = _producer(graph, total.args[0], "mean") if total is not None else None
    square = _producer(graph, mean.args[0], "pow", "mul") if mean is not None else None
    if root is None or total is None or mean is None or square is None:
        return None
    source, eps = square.args[0], total.args[1]
    if not (_squares(square, mean) and isinstance(source, Ref) and isinstance(eps, int | float)):
        return None
    steps = _between(graph, {last.id, scaled.id, root.id, total.id, mean.id, square.id}, source)
    if source not in scaled.args:
        return None
    if not with_formats and any(_formats_within(graph, graph.nodes[n], source, gamma, last) for n in steps):
        return None
    return RmsNorm(source, square.id, tuple(n for n in graph.nodes if n in steps), float(eps), gamma)


def _formats_within(graph: Graph, node: Node, source: Ref, gamma: Ref | None, last: Node) -> bool:
    """Whether a node has a format for a tensor between the steps of a norm."""
    if node is not last and any(port.startswith("data_out") for port in node.precision):
        return True
    reads = zip(node.inputs, operands(node.op, node.args, node.kwargs, graph.nodes), strict=True)
    return any(at is not None and ref not in (source, gamma) and choice(node, at[0]) is not None for ref, at in reads)


def _producer(graph: Graph, value: Any, *ops: str) -> Node | None:
    """The node that computes a value, seen through identities, if its op is one of `ops`."""
    while isinstance(value, Ref):
        node = graph.nodes[value.node]
        if node.op in ops:
            return node
        if node.op not in PASSES:
            return None
        value = node.inputs[0]
    return None


def _squares(square: Node, mean: Node) -> bool:
    """Whether `mean` is of squares over the last axis."""
    squared = square.args[1] == 2 if square.op == "pow" else square.args[1] == square.args[0]
    return squared and mean.args[1:] in (((-1,), True), (-1, True))


def _between(graph: Graph, names: set[str], source: Ref) -> set[str]:
    """`names` and the identities between them."""
    nodes, todo = set(names), list(names)
    while todo:
        for ref in graph.nodes[todo.pop()].inputs:
            if ref.node not in nodes and ref != source and graph.nodes[ref.node].op in PASSES:
                nodes.add(ref.node)
                todo.append(ref.node)
    return nodes
