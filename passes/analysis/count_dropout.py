"""Counts dropout layers."""

from __future__ import annotations

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import drop_rate
from espalier.passes.base import Context, NoOptions, Report, analysis


@analysis("count_dropout", "Count dropout", instant=True)
def count_dropout(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """The dropout nodes of the graph, and other functions that drop values in training."""
    dropouts = [n for n in graph if n.op == "dropout"]
    inside = [n for n in graph if n.op != "dropout" and drop_rate(n)]
    rows = tuple({"node": n.id, "module": n.module_path, "p": drop_rate(n)} for n in (*dropouts, *inside))
    return graph, Report("count_dropout", rows, {"dropout_count": len(dropouts), "in_functions": len(inside)})
