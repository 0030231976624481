"""What of a model no trial changes runs once: its results are kept, batch by batch, and trials begin behind it.

The kept values are those that the whole model would compute: no figure changes by a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, fx, nn

from model.build import NODE
from model.graph import Graph, Node

MOST = 1 << 29  # bytes that are kept


class Prefix:
    """`touched`: nodes that trials are known to change; what else differs from the first graph is found by itself."""

    def __init__(self, touched: frozenset[str], batches: list[dict[str, Tensor]]) -> None:
        self.touched, self.batches = touched, batches
        self._first: Graph | None = None
        self._held: dict[str, list[Any]] = {}
        self._off = False

    def runner(self, module: Any, graph: Graph) -> Callable[[int], Any]:
        """Batch number → the module's result on it."""

        def whole(place: int) -> Any:
            return module(**self.batches[place])

        if self._off or graph.runs == "module" or not isinstance(module, fx.GraphModule) or _writes(module):
            return whole
        self._first = self._first or graph
        clean = unchanged(graph, self._first, self.touched)
        edge = _edge(module, clean)
        if not edge or not self._keep(module, edge):
            return whole
        rest = _rest(module, edge)
        held = [self._held[n.meta[NODE]] for n in edge]
        return lambda place: rest(*(h[place] for h in held), **self.batches[place])

    def _keep(self, module: fx.GraphModule, edge: list[fx.Node]) -> bool:
        """Run what comes before the edge on every batch, unless that is known; False where it takes too much."""
        names = [n.meta[NODE] for n in edge]
        if set(names) <= set(self._held):
            self._held = {n: self._held[n] for n in names}
            return True
        before = _before(module, edge)
        found: list[list[Any]] = [[] for _ in names]
        total = 0
        for inputs in self.batches:
            for values, value in zip(found, before(**inputs), strict=True):
                values.append(value)
                total += value.nbytes if isinstance(value, Tensor) else 0
            if total > MOST:
                self._off, self._held = True, {}
                return False
        self._held = dict(zip(names, found, strict=True))
        return True


def unchanged(graph: Graph, first: Graph, touched: frozenset[str]) -> set[str]:
    """Nodes that compute in `graph` what they do in `first`, and whatever `touched` nodes are given."""
    found: set[str] = set()
    for node in graph:
        held = first.nodes.get(node.id)
        if node.id in touched or held is None or not _same(node, held, graph, first):
            continue
        if all(ref.node in found for ref in node.inputs):
            found.add(node.id)
    return found


def _same(node: Node, held: Node, graph: Graph, first: Graph) -> bool:
    if node is not held and node != held:
        return False
    if any(p.format.stochastic for p in node.precision.values()):
        return False
    return all(graph.weights[n].key == first.weights[n].key for n in node.tensors)


def _writes(module: fx.GraphModule) -> bool:
    """Whether anything writes into its inputs: kept values would not stay what they are."""
    for node in module.graph.nodes:
        if node.op == "call_module" and getattr(module.get_submodule(node.target), "inplace", False):
            return True
        name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
        if node.op == "call_function" and ((name.endswith("_") and not name.startswith("__")) or "out" in node.kwargs):
            return True
    return False


def _edge(module: fx.GraphModule, clean: set[str]) -> list[fx.Node]:
    """The last values that no trial changes, in order."""
    inside = {n for n in module.graph.nodes if n.meta.get(NODE) in clean}
    return [n for n in module.graph.nodes if n in inside and any(u not in inside for u in n.users)]


def _needed(ends: list[fx.Node], stop: set[fx.Node]) -> set[fx.Node]:
    """All that `ends` hang on, without what `stop` gives."""
    found: set[fx.Node] = set()
    todo = [*ends]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [] if node in stop else node.all_input_nodes
    return found


def _before(module: fx.GraphModule, edge: list[fx.Node]) -> Callable[..., Any]:
    needed = _needed(edge, set())
    made, held = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in module.graph.nodes:
        if node in needed or node.op == "placeholder":
            held[node] = made.node_copy(node, held.__getitem__)
    made.output(tuple(held[n] for n in edge))
    return _module(module, made)


def _rest(module: fx.GraphModule, edge: list[fx.Node]) -> Callable[..., Any]:
    """From the kept values, which come first among its arguments, to the results."""
    ends = [n for n in module.graph.nodes if n.op == "output"]
    needed = _needed(ends, set(edge))
    made, held = fx.Graph(), dict[fx.Node, fx.Node]()
    for i, node in enumerate(edge):
        held[node] = made.placeholder(f"kept_{i}")
    for node in module.graph.nodes:
        if (node in needed and node not in held) or node.op == "placeholder":
            held[node] = made.node_copy(node, held.__getitem__)
    return _module(module, made)


def _module(root: nn.Module, graph: fx.Graph) -> Callable[..., Any]:
    found: Any = fx.GraphModule(root, graph)
    return found.eval()
