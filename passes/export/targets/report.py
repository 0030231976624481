"""The analysis that tells what files of other programs hold of a model, before it is exported."""

from __future__ import annotations

from typing import Any

from espalier.model.graph.graph import Graph, Node
from espalier.passes.base import Context, NoOptions, Report, analysis
from espalier.passes.export.targets import TARGETS, holds, refused_model

HELD = "held"


@analysis("export_targets", "Export targets")
def export_targets(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Which choices of each node the file formats of other programs hold with equal values, and what would be held.

    A row per node with a format, a pruned activation or an adapter: its formats, and for each target `held`, or the
    first choice that it has no equal of, why, and a choice that it has. The summary counts the nodes that are held of
    those with choices, or says why no model of this kind is written. An export refuses what is not held, or leaves such
    weights in float if told so.
    """
    chosen = [n for n in graph if n.precision or n.adapters or any(s.flows for s in n.sparsity.values())]
    targets = [name for name, _ in TARGETS.items()]
    rows = [_row(node, graph, targets) for node in chosen]
    why = {name: refused_model(name, context.reading.limits) for name in targets}
    summary = {name: why[name] or f"{sum(r[name] == HELD for r in rows)} of {len(rows)} nodes held" for name in targets}
    return graph, Report("export_targets", tuple(rows), summary)


def _row(node: Node, graph: Graph, targets: list[str]) -> dict[str, Any]:
    formats = ", ".join(f"{port} {choice.format.label}" for port, choice in node.precision.items())
    row: dict[str, Any] = {"node": node.id, "op": node.op, "formats": formats}
    return row | {name: holds(name, node, graph) or HELD for name in targets}
