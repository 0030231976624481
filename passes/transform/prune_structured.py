"""Structured pruning: masks whole heads, neurons, channels, widths or layers, which another pass removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.model.errors import GraphError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Sparsity
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.prune_structured import WITHOUT, PruneStructuredOptions
from espalier.passes.running.splits import calibration_split, data_of
from espalier.passes.select import chosen, matches
from espalier.passes.structure.axes import Kept
from espalier.passes.structure.layers import mask_layers
from espalier.passes.structure.masks import dead, masked
from espalier.passes.structure.scores import WITH_DATA, Amount, fewest, scores
from espalier.passes.structure.sets import Structure, Units, structure_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@transform("prune_structured", "Prune structures", PruneStructuredOptions)
def prune_structured(graph: Graph, options: PruneStructuredOptions, context: Context) -> tuple[Graph, Report]:
    """Mask whole units in all weights and biases that contain them, so that removing them does not change the result.

    Coupled dimensions are inferred from the graph (DepGraph, Fang et al. 2023, arXiv:2301.12900). Masks can be
    measured, trained and undone; *Remove what is pruned* then makes the model smaller.
    """
    split = _split(options, context)
    amount = Amount(options.ratio, options.count, options.multiple, options.scope, options.score == "taylor")
    if options.what == "layers":
        like = Sparsity(options.score, options.ratio, options.scope, None, 0, "layers")
        return mask_layers(graph, options.select, amount, like, split, options.batch_size, context)
    structure = structure_of(graph)
    free, blocked = _chosen(structure, options)
    like = Sparsity(options.score, options.ratio, options.scope, None, 0, options.what)
    worth = scores(structure, free, options.score, split, options.batch_size, context)
    already = {s: dead(structure, s, context.store) for s in free}
    pruned = fewest(worth, already, amount)
    after, zeros = masked(structure, pruned, like, context.store)
    rows = [_row(s, structure, pruned[s]) for s in free] + [_blocked_row(s, structure) for s in blocked]
    count = sum(int(w.sum()) for w in pruned.values())
    summary = {"sets": len(free), "units": sum(s.size for s in free), "gone": count, "blocked": len(blocked),
               "zeros": sum(zeros.values())}  # fmt: skip
    return after, Report("prune_structured", tuple(rows), summary)


def _split(options: PruneStructuredOptions, context: Context) -> Split | None:
    """The data sample, if the score needs one."""
    if options.score not in WITH_DATA:
        return None
    if not options.data:
        raise PassError(f"The score {options.score} needs data, but none is named.",
                        "Name some, such as demo:reviews, or choose l1.")  # fmt: skip
    return calibration_split(data_of(options), context)


def _chosen(structure: Structure, options: PruneStructuredOptions) -> tuple[list[Units], list[Units]]:
    """The selected sets of the kind: removable and blocked ones. Raises GraphError."""
    graph = structure.graph
    kind = [s for s in structure.sets if s.kind == options.what]
    members = {m.node for s in kind for m in s.members}
    if not kind:
        kinds = sorted({s.kind for s in structure.sets if s.kind != "other" and not s.blocked})
        hint = f"It has {', '.join(kinds)}." if kinds else "Nothing can be removed from it."
        raise GraphError(f"This model has no {WITHOUT[options.what]}.", hint)
    chosen(graph, options.select, lambda n: n.id in members, f"pruned by {options.what}")
    selected = [s for s in kind if any(matches(graph.nodes[m.node], options.select) for m in s.members)]
    free, blocked = [s for s in selected if not s.blocked], [s for s in selected if s.blocked]
    if not free and blocked[0].blocked:
        reason = blocked[0].blocked
        raise GraphError(f"{reason.node} prevents the removal of the {options.what} of {blocked[0].first.node}: "
                         f"{reason.text}.", "Select others.", reason.node)  # fmt: skip
    return free, blocked


def _row(units: Units, structure: Structure, pruned: Kept) -> Row:
    nodes = list(dict.fromkeys(m.node for m in units.members if structure.graph.nodes[m.node].call != "get_attr"))
    note = f"changes the statistics of {units.norm}" if units.norm else ""
    return {"node": units.first.node, "kind": units.kind, "units": units.size, "gone": int(pruned.sum()),
            "left": int(np.count_nonzero(~pruned)), "nodes": len(nodes), "note": note}  # fmt: skip


def _blocked_row(units: Units, structure: Structure) -> Row:
    reason = units.blocked
    assert reason is not None
    return {**_row(units, structure, np.zeros(units.size, np.bool_)), "note": f"{reason.node}: {reason.text}"}
