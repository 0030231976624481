"""The labs' first table: each node's name, kind, op and target, in order."""

from __future__ import annotations

from collections import Counter

from model.graph import Graph, Node
from model.ops import kind
from passes.base import Context, NoOptions, Report, Row, analysis


@analysis("types", "Types", instant=True)
def types(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Kind, op, call and target of every node."""
    rows = tuple(_row(n) for n in graph)
    return graph, Report("types", rows, dict(Counter(kind(n) for n in graph).most_common()))


def _row(node: Node) -> Row:
    return {
        "node": node.id,
        "kind": kind(node),
        "op": node.op,
        "call": node.call,
        "target": node.target,
        "module": node.module_path,
    }
