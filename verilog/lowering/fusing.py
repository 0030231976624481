"""Nodes that hardware does as one: functions of one tensor written in steps, and RMS norms written in steps.

Only steps between which nobody chose a format; one is the table, or the norm, of them all.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.operands import operands
from espalier.model.graph.ports import choice
from espalier.verilog.design.hosting import LOOKS, constants

PASSES = ("to", "clone", "identity", "dropout", "contiguous", "detach", "alias")  # hand on what they get
FUNCTIONS = (
    "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "celu", "selu", "mish", "softplus", "hardtanh",
    "relu6", "hardswish", "hardsigmoid", "logsigmoid", "softsign", "exp", "log", "sqrt", "rsqrt", "reciprocal", "erf",
    "abs", "sin", "cos", "square", "exp2", "log2", "log1p", "expm1", "pow", "clamp", "clamp_min", "clamp_max",
)  # fmt: skip
COMBINE = ("add", "sub", "rsub", "mul", "div")


@dataclass(frozen=True, slots=True)
class Function:
    """`nodes`, in their order, are a function of `source`, which `first` is the first of them to read."""

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


def fused(graph: Graph, known: Container[str], constants: frozenset[str]) -> dict[str, Fused]:
    """What may be one, by the last of its nodes; `known`: the ops with a template of ours, which a table equals."""
    users: dict[str, list[str]] = {}
    for node in graph:
        for ref in node.inputs:
            if node.op not in LOOKS:
                users.setdefault(ref.node, []).append(node.id)
    found: dict[str, Fused] = {}
    taken: set[str] = set()
    regions = _regions(graph, frozenset(f for f in FUNCTIONS if f in known), constants)
    for node in reversed(list(graph)):
        made = _norm(graph, node, constants) or regions.get(node.id)
        if made is None or taken & set(made.nodes):
            continue
        inside = set(made.nodes)
        if all(set(users.get(n, ())) <= inside for n in made.nodes if n != node.id):
            found[node.id] = made
            taken |= inside
    return found


# ---- functions of one tensor


def _regions(graph: Graph, functions: frozenset[str], constants: frozenset[str]) -> dict[str, Function]:
    made: dict[str, Function] = {}
    for node in graph:
        if node.id in constants or node.call in ("placeholder", "output", "get_attr"):
            continue
        if node.op in functions or node.op in PASSES or _combines(node):
            found = _region(graph, node, made)
            if found is not None:
                made[node.id] = found
    several = (k for k, f in made.items() if len([n for n in f.nodes if graph.nodes[n].op not in PASSES]) > 1)
    return {k: made[k] for k in several if any(graph.nodes[n].op in functions for n in made[k].nodes)}


def _combines(node: Node) -> bool:
    plain = all(isinstance(a, Ref | int | float) for a in node.args) and not node.kwargs
    return node.op in COMBINE and len(node.args) == 2 and plain


def _region(graph: Graph, node: Node, made: dict[str, Function]) -> Function | None:
    """The steps up to `node`: through the operands' own as far as nobody chose a format between, else from them on."""
    refs = tuple(dict.fromkeys(node.inputs))
    if not refs or any(r.output for r in refs):
        return None
    within = [made[r.node] if _open(graph, node, r) and r.node in made else None for r in refs]
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


def _open(graph: Graph, node: Node, ref: Ref) -> bool:
    """Whether nobody chose a format between a node and an operand of it."""
    return "data_out" not in graph.nodes[ref.node].precision and "data_in" not in node.precision


# ---- RMS norms


def unfused_formats(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The ports whose formats keep the steps of an RMS norm apart, by node."""
    known, found = constants(graph), dict[str, tuple[str, ...]]()
    for last in graph:
        made = _norm(graph, last, known, chosen=True)
        for node in () if made is None else (graph.nodes[n] for n in made.nodes):
            kept = {"data_in"} if made is not None and node.id == made.first else set[str]()
            kept |= {p for p in node.precision if node is last and p.startswith("data_out")}
            if _between_chosen(graph, node, made.source, made.gamma, last):  # type: ignore[union-attr]
                found[node.id] = tuple(p for p in node.precision if p not in kept)
    return found


def _norm(graph: Graph, last: Node, constants: frozenset[str], chosen: bool = False) -> RmsNorm | None:
    """`last` is γ·(x·rsqrt(mean(x²) + ε)), or that without γ; `chosen`: also with formats between its steps."""
    if last.op != "mul" or len(last.args) != 2:
        return None
    known = [a for a in last.args if isinstance(a, Ref) and a.node in constants]
    gamma = known[0] if len(known) == 1 else None
    scaled = last if gamma is None else _behind(graph, next(a for a in last.args if a != gamma), "mul")
    if scaled is None or len(scaled.args) != 2:
        return None
    root = next((r for a in scaled.args if (r := _behind(graph, a, "rsqrt")) is not None), None)
    total = _behind(graph, root.args[0], "add") if root is not None else None
    mean = _behind(graph, total.args[0], "mean") if total is not None else None
    square = _behind(graph, mean.args[0], "pow", "mul") if mean is not None else None
    if root is None or total is None or mean is None or square is None:
        return None
    source, eps = square.args[0], total.args[1]
    if not (_squares(square, mean) and isinstance(source, Ref) and isinstance(eps, int | float)):
        return None
    steps = _between(graph, {last.id, scaled.id, root.id, total.id, mean.id, square.id}, source)
    if source not in scaled.args:
        return None
    if not chosen and any(_between_chosen(graph, graph.nodes[n], source, gamma, last) for n in steps):
        return None  # each step is computed by itself
    return RmsNorm(source, square.id, tuple(n for n in graph.nodes if n in steps), float(eps), gamma)


def _between_chosen(graph: Graph, node: Node, source: Ref, gamma: Ref | None, last: Node) -> bool:
    """Whether a format is chosen for what only flows between the steps of a norm."""
    if node is not last and any(port.startswith("data_out") for port in node.precision):
        return True
    found = zip(node.inputs, operands(node.op, node.args, node.kwargs, graph.nodes), strict=True)
    return any(at is not None and ref not in (source, gamma) and choice(node, at[0]) is not None for ref, at in found)


def _behind(graph: Graph, value: Any, *ops: str) -> Node | None:
    """The node behind a value, through those that hand it on, where it is one of `ops`."""
    while isinstance(value, Ref):
        node = graph.nodes[value.node]
        if node.op in ops:
            return node
        if node.op not in PASSES:
            return None
        value = node.inputs[0]
    return None


def _squares(square: Node, mean: Node) -> bool:
    """Whether it is the mean of squares over the last axis."""
    squared = square.args[1] == 2 if square.op == "pow" else square.args[1] == square.args[0]
    return squared and mean.args[1:] in (((-1,), True), (-1, True))


def _between(graph: Graph, names: set[str], source: Ref) -> set[str]:
    """`names`, and what hands values on between them."""
    found, todo = set(names), list(names)
    while todo:
        for ref in graph.nodes[todo.pop()].inputs:
            if ref.node not in found and ref != source and graph.nodes[ref.node].op in PASSES:
                found.add(ref.node)
                todo.append(ref.node)
    return found
