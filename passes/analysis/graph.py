"""What the graph is made of: counts by kind and op, edges, parameters and depth."""

from __future__ import annotations

from collections import Counter

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import kind
from espalier.passes.base import Context, NoOptions, Report, analysis


@analysis("graph", "Graph", instant=True)
def graph_report(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Nodes per kind and op, edges, parameters and the longest path from an input to the output."""
    counts = Counter((kind(n), n.op) for n in graph)
    rows = tuple({"kind": k, "op": op, "nodes": count} for (k, op), count in counts.most_common())
    return graph, Report("graph", rows, summarise(graph))


def summarise(graph: Graph) -> dict[str, object]:
    """Nodes, edges, kinds, ops, parameters, depth of a graph."""
    return {
        "nodes": len(graph),
        "edges": sum(1 for _ in graph.edges()),
        "kinds": dict(Counter(kind(n) for n in graph).most_common()),
        "ops": dict(Counter(n.op for n in graph).most_common()),
        "parameters": sum(w.elements for w in graph.weights.values() if w.role == "parameter"),
        "depth": depth(graph),
    }


def depth(graph: Graph) -> int:
    """Edges on the longest path."""
    levels: dict[str, int] = {}
    for node in graph:
        levels[node.id] = max((levels[r.node] + 1 for r in node.inputs), default=0)
    return max(levels.values(), default=0)
