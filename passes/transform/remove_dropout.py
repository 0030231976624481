"""Removes dropout, which does nothing in inference."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.graph.graph import Graph, Ref
from espalier.model.graph.ops import drop_rate
from espalier.passes.base import Context, NoOptions, Report, transform


@transform("remove_dropout", "Remove dropout", instant=True)
def remove_dropout(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Remove every dropout node, and set the dropout rate of other functions, such as attention, to 0."""
    dropouts = [n for n in graph if n.op == "dropout"]
    inside = [n for n in graph if n.op != "dropout" and drop_rate(n)]
    after = graph.replace(*(replace(n, attrs={}) for n in inside))
    for node in dropouts:
        after = after.rewire(Ref(node.id), after.nodes[node.id].inputs[0]).remove(node.id)
    rows = tuple({"node": n.id, "module": n.module_path} for n in (*dropouts, *inside))
    return after, Report("remove_dropout", rows, {"removed": len(dropouts), "in_functions": len(inside)})
