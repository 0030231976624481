"""Physical removal: units and layers whose masks say that they do nothing are taken out, and the model is smaller."""

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
from espalier.passes.structure.sets import Structure, Units, structure_of
from espalier.passes.structure.shape_check import disagreement


@dataclass(frozen=True, slots=True)
class RemovePrunedOptions:
    """Where to look for units that do nothing."""

    select: Select = field(default=Select(), metadata={"help": "sets that contain one of these nodes"})


@transform("remove_pruned", "Remove what is pruned", RemovePrunedOptions)
def remove_pruned(graph: Graph, options: RemovePrunedOptions, context: Context) -> tuple[Graph, Report]:
    """Take out all heads, neurons, channels and layers that are masked as a whole; other masks are cut to size.

    The smaller model computes what the masked one did, but for a residual width, where norms now see fewer channels:
    fine-tune after. One unit of each set stays. Blocks of formats along a cut dimension begin anew.
    """
    bare, rows = _without_layers(graph, options, context)
    structure = structure_of(bare)
    gone: dict[Axis, Kept] = {}
    for held in structure.sets:
        if not any(matches(bare.nodes[m.node], options.select) for m in held.members):
            continue
        which = dead(structure, held, context.store)
        if which.any():
            rows.append(_row(held, structure, which))
        if which.any() and not held.blocked:
            gone[held.axis] = _one_left(which)
    removal = Removal(structure, gone, context.store)
    after = removal.run() if gone else bare
    if after is not graph and (fault := disagreement(after, context)):
        raise fault
    rows += [{"node": n, "kind": f"scale of {p}", "note": "it does not fit any more; the format's own holds"}
             for n, p in removal.dropped]  # fmt: skip
    summary = _summary(graph, after, gone)
    if bare is graph and not summary["removed"]:  # no error: a recipe whose pruning is switched off must still run
        summary["warning"] = _nothing(options.select, rows)
    return after, Report("remove_pruned", tuple(rows), summary)


def _without_layers(graph: Graph, options: RemovePrunedOptions, context: Context) -> tuple[Graph, list[Row]]:
    """The graph without branches that add nothing."""
    silent = {n.id for n in graph if n.sparsity and matches(n, options.select) and wholly_masked(n, graph)}
    ways = idle(graph, silent) if silent and graph.runs == "graph" else {}
    if not ways:
        return graph, []
    after = bypassed(graph, ways)
    rows: list[Row] = [{"node": r.node, "kind": "branch", "removed": 1, "note": ""} for r in ways]
    return after, rows


def _one_left(which: Kept) -> Kept:
    if not which.all():
        return which
    kept = which.copy()
    kept[0] = False
    return kept


def _row(held: Units, structure: Structure, which: Kept) -> Row:
    count, note = int(np.count_nonzero(which)), ""
    if held.blocked:
        count, note = 0, f"kept: {held.blocked.node}: {held.blocked.text}"
    elif which.all():
        count, note = count - 1, "one stays"
    elif held.norm:
        note = f"changes the statistics of {held.norm}"
    return {"node": held.first.node, "kind": held.kind, "units": held.size, "removed": count,
            "left": held.size - count, "note": note}  # fmt: skip


def _nothing(select: Select, rows: list[Row]) -> str:
    """Why nothing was removed, and what to do."""
    if rows:
        return f"Nothing removed: {rows[0]['note']}. Prune other structures."
    where = "" if select.by == "all" else " where it looks"
    also = "" if select.by == "all" else ", or select all"
    return f"Nothing removed: no unit is masked as a whole{where}. Prune structures first{also}."


def _summary(before: Graph, after: Graph, gone: dict[Axis, Kept]) -> Row:
    def count(graph: Graph) -> int:
        return sum(w.elements for w in graph.weights.values() if w.role == "parameter")

    return {"removed": sum(int(w.sum()) for w in gone.values()), "nodes": len(before) - len(after),
            "parameters_before": count(before), "parameters": count(after)}  # fmt: skip
