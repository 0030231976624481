"""Freezes and unfreezes parameters of nodes."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, transform
from espalier.passes.choices.freeze import FreezeOptions, trained_by
from espalier.passes.select import chosen


@transform("freeze", "Freeze", FreezeOptions, instant=True)
def freeze(graph: Graph, options: FreezeOptions, context: Context) -> tuple[Graph, Report]:
    """Exclude parameters of the selected nodes from training. A shared parameter is frozen for all its nodes."""
    return _set(graph, options, False)


@transform("unfreeze", "Unfreeze", FreezeOptions, instant=True)
def unfreeze(graph: Graph, options: FreezeOptions, context: Context) -> tuple[Graph, Report]:
    """Include parameters of the selected nodes in training, also beside adapters."""
    return _set(graph, options, True)


def _set(graph: Graph, options: FreezeOptions, trainable: bool) -> tuple[Graph, Report]:
    verb = "frozen" if not trainable else "trained"
    part = options.part
    nodes = chosen(graph, options.select, lambda n: any(trained_by(n, graph, part)), verb)
    owner = {name: n.id for n in reversed(nodes) for name in trained_by(n, graph, part)}
    changed = {k: replace(w, trainable=trainable, rests=False) for k in owner
               if (w := graph.weights[k]).trainable != trainable or w.rests}  # fmt: skip
    rows = tuple({"node": owner[k], "parameter": k, "elements": w.elements} for k, w in changed.items())
    summary = {"parameters": len(rows), "elements": sum(w.elements for w in changed.values())}
    return graph.with_weights(changed), Report("unfreeze" if trainable else "freeze", rows, summary)
