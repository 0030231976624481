"""Physical removal of units and layers that are fully masked; the model becomes smaller."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.select import Select, matches
from espalier.passes.structure.axes import Axis, Kept
from espalier.passes.structure.blocks import bypassed, idle
from espalier.passes.structure.masks import dead, wholly_masked
from espalier.passes.structure.removal import Removal
from espalier.passes.structure.sets import Units, structure_of
from espalier.passes.structure.shape_check import disagreement


@dataclass(frozen=True, slots=True)
class RemovePrunedOptions:
    """Selected nodes."""

    select: Select = field(default=Select(), metadata={"help": "sets that contain one of these nodes"})


@transform("remove_pruned", "Remove what is pruned", RemovePrunedOptions)
def remove_pruned(graph: Graph, options: RemovePrunedOptions, context: Context) -> tuple[Graph, Report]:
    """Remove all heads, neurons, channels and layers that are fully masked; other masks are sliced.

    The smaller model computes the same as the masked one, except for a residual width, where norms average fewer
    channels: fine-tune afterwards. One unit of each set stays. Format blocks along a smaller dimension are regrouped.
    """
    bare, rows = _without_layers(graph, options, context)
    structure = structure_of(bare)
    removed: dict[Axis, Kept] = {}
    for units in structure.sets:
        if not any(matches(bare.nodes[m.node], options.select) for m in units.members):
            continue
        which = dead(structure, units, context.store)
        if which.any():
            rows.append(_row(units, which))
        if which.any() and not units.blocked:
            removed[units.axis] = _except_one(which)
    removal = Removal(structure, removed, context.store)
    after = removal.run() if removed else bare
    if after is not graph and (error := disagreement(after, context)):
        raise error
    rows += [{"node": n, "kind": f"scale of {p}", "note": "it no longer fits; the format's own scale is used"}
             for n, p in removal.dropped]  # fmt: skip
    summary = _summary(graph, after, removed)
    if bare is graph and not summary["removed"]:  # a warning, as a recipe with its pruning disabled must still run
        summary["warning"] = _nothing(options.select, rows)
    return after, Report("remove_pruned", tuple(rows), summary)


def _without_layers(graph: Graph, options: RemovePrunedOptions, context: Context) -> tuple[Graph, list[Row]]:
    """The graph without fully masked residual branches."""
    masked = {n.id for n in graph if n.sparsity and matches(n, options.select) and wholly_masked(n, graph)}
    replacements = idle(graph, masked) if masked and graph.runs == "graph" else {}
    if not replacements:
        return graph, []
    after = bypassed(graph, replacements)
    rows: list[Row] = [{"node": r.node, "kind": "branch", "removed": 1, "note": ""} for r in replacements]
    return after, rows


def _except_one(which: Kept) -> Kept:
    if not which.all():
        return which
    others = which.copy()
    others[0] = False
    return others


def _row(units: Units, which: Kept) -> Row:
    count, note = int(np.count_nonzero(which)), ""
    if units.blocked:
        count, note = 0, f"kept: {units.blocked.node}: {units.blocked.text}"
    elif which.all():
        count, note = count - 1, "one stays"
    elif units.norm:
        note = f"changes the statistics of {units.norm}"
    return {"node": units.first.node, "kind": units.kind, "units": units.size, "removed": count,
            "left": units.size - count, "note": note}  # fmt: skip


def _nothing(select: Select, rows: list[Row]) -> str:
    """Why nothing was removed, and what to do."""
    if rows:
        return f"Nothing removed: {rows[0]['note']}. Prune other structures."
    where = "" if select.by == "all" else " in the selection"
    also = "" if select.by == "all" else ", or select all"
    return f"Nothing removed: no unit is fully masked{where}. Prune structures first{also}."


def _summary(before: Graph, after: Graph, removed: dict[Axis, Kept]) -> Row:
    def count(graph: Graph) -> int:
        return sum(w.elements for w in graph.weights.values() if w.role == "parameter")

    return {"removed": sum(int(w.sum()) for w in removed.values()), "nodes": len(before) - len(after),
            "parameters_before": count(before), "parameters": count(after)}  # fmt: skip
