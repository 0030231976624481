"""Count dropout layers."""

from __future__ import annotations

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import drop_rate
from espalier.passes.base import Context, NoOptions, Report, analysis


@analysis("count_dropout", "Count dropout", instant=True)
def count_dropout(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """How many dropout nodes the graph has, and which; and how many other functions drop values in training."""
    found = [n for n in graph if n.op == "dropout"]
    inside = [n for n in graph if n.op != "dropout" and drop_rate(n)]
    rows = tuple({"node": n.id, "module": n.module_path, "p": drop_rate(n)} for n in (*found, *inside))
    return graph, Report("count_dropout", rows, {"dropout_count": len(found), "in_functions": len(inside)})
