"""Take dropout out: in inference it does nothing, and it hides what follows what."""

from __future__ import annotations

from model.graph import Graph, Node, Ref
from passes.base import Context, NoOptions, Report, transform


@transform("remove_dropout", "Remove dropout", instant=True)
def remove_dropout(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Remove every dropout node; its users take its input instead."""
    found = [n for n in graph if n.op == "dropout"]
    after = graph
    for node in found:
        after = after.rewire(Ref(node.id), _input(after.nodes[node.id])).remove(node.id)
    rows = tuple({"node": n.id, "module": n.module_path} for n in found)
    return after, Report("remove_dropout", rows, {"removed": len(found)})


def _input(node: Node) -> Ref:
    return node.inputs[0]
