"""The rows of the node table: facts and choices of each node. No Qt."""

from __future__ import annotations

from typing import Any

from espalier.app.canvas.node_metrics import trains
from espalier.app.figures.captions import shape_text
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import macs

Row = dict[str, Any]
ALWAYS = ("node", "op", "path", "output", "parameters", "macs", "weight", "input")


def row_of(node: Node, graph: Graph) -> Row:
    """Facts and choices of a node; None where a column says nothing of it."""
    weight, data, sparsity = node.precision.get("weight"), node.precision.get("data_in"), node.sparsity.get("weight")
    size = sum(w.elements for name in node.weights.values() if (w := graph.weights.get(name)) and w.role == "parameter")
    frozen = trains(node, graph)
    adapter = next(iter(node.adapters.values()), None)
    return {
        "node": node.id,
        "title": node.annotation.title or None,
        "op": node.op,
        "path": (node.target if node.call == "call_module" else node.module_path) or None,
        "output": shape_text(node.out) if node.out else None,
        "dtype": node.out.dtype if node.out else None,
        "parameters": size or None,
        "macs": macs(node, graph.symbols) or None,
        "weight": weight.label if weight else None,
        "input": data.label if data else None,
        "sparsity": sparsity.ratio if sparsity else None,
        "adapter": adapter.label if adapter else None,
        "trains": None if frozen != frozen else ("frozen", "own weights", "adapter")[int(frozen)],
        "tag": node.annotation.colour or None,
        "note": node.annotation.note.partition("\n")[0] or None,
        "muted": node.annotation.muted or None,
    }


def rows_of(graph: Graph) -> list[Row]:
    """A row for each node, without the columns that say nothing of any of them."""
    rows = [row_of(node, graph) for node in graph]
    used = {k for row in rows for k, v in row.items() if v is not None} | set(ALWAYS)
    return [{k: v for k, v in row.items() if k in used} for row in rows]
