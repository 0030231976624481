"""Name, kind, op and target of each node in order, and the format conversions of its operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from espalier.model.graph.casts import Cast, casts
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import kind
from espalier.passes.base import Context, NoOptions, Report, Row, analysis


@analysis("types", "Types", instant=True)
def types(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Kind, op, call and target of every node, and the formats between which its operands are converted."""
    casts_at = casts(graph)
    rows = tuple({**_row(n), "casts": _text(casts_at.get(n.id, ()))} for n in graph)
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


def _text(into: Iterable[Cast]) -> str:
    """`data_in: float32 → int 8/4; weight: int 8/4 → int 6/3`."""
    parts = ((c.port, c.before.label if c.before else c.dtype, c.after.label) for c in into)
    return "; ".join(f"{port}: {before} → {after}" for port, before, after in parts)
