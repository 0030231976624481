"""Shape and dtype of every port."""

from __future__ import annotations

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, NoOptions, Report, analysis


@analysis("shapes", "Shapes", instant=True)
def shapes(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """One row per port; a shape entry is a number or an expression over the free sizes.

    `sizes` and `elements` are the shape at the example's sizes, which the summary names.
    """
    rows = tuple(
        {
            "node": n.id,
            "port": port,
            "shape": meta.shape,
            "dtype": meta.dtype,
            "sizes": meta.sizes(graph.symbols),
            "elements": meta.elements(graph.symbols),
        }
        for n in graph
        for port, meta in n.ports.items()
    )
    return graph, Report("shapes", rows, {"ports": len(rows), "symbols": dict(graph.symbols)})
