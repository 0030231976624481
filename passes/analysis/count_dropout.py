"""Count dropout layers: the labs' first analysis."""

from __future__ import annotations

from model.graph import Graph
from passes.base import Context, NoOptions, Report, analysis


@analysis("count_dropout", "Count dropout", instant=True)
def count_dropout(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """How many dropout nodes the graph has, and which."""
    found = [n for n in graph if n.op == "dropout"]
    rows = tuple({"node": n.id, "module": n.module_path, "p": n.attrs.get("p")} for n in found)
    return graph, Report("count_dropout", rows, {"dropout_count": len(found)})
