"""Where zeros are: how many, in which pattern, and whether whole rows, columns or groups went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import view_at
from espalier.passes.analysis.statistics import keep
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.choices.prune import prunable
from espalier.passes.observed.stored_tensors import NO_WEIGHTS
from espalier.passes.pruning.mask_changes import change
from espalier.passes.pruning.patterns import seen

GROUP = 4  # inputs in a row, of which sparse tensor cores want at most two


@dataclass(frozen=True, slots=True)
class SparsityOptions:
    """None; but the masks are compared with those of the model as it was opened."""

    AGAINST_BASE: ClassVar[bool] = True


@analysis("sparsity", "Sparsity", SparsityOptions)
def sparsity(graph: Graph, options: SparsityOptions, context: Context) -> tuple[Graph, Report]:
    """Zeros of the weights of Linears and convolutions, those that are stored as 0 included, each weight once.

    `pattern` is what was asked for; `most_of_4` what came of it: how many of any four inputs in a row are not zero (2
    or less: 2:4 holds). `empty_rows`, `empty_columns`: outputs and inputs whose weights are all zero. `kept_l1`: the
    share of Σ|w| that is left. `dropped` and `restored`: elements whose mask is another than in the model as it was
    opened. Activations that are pruned have rows of their own.
    """
    owners: dict[str, Node] = {}
    for node in graph:
        if prunable(node, graph):
            owners.setdefault(weight_at(node, "weight", graph) or "", node)
    before = None if context.base is None else _masked(context.base)
    rows: list[Row] = []
    for i, (name, node) in enumerate(owners.items()):
        context.progress(i, len(owners), name)
        rows.append(_row(name, node, graph, before, context))
    zeros, elements = sum(r["zeros"] for r in rows), sum(r["elements"] for r in rows)
    flowing = [_flowing(n, p, s) for n in graph for p, s in n.sparsity.items() if s.flows]
    summary = {"weights": len(rows), "zeros": zeros, "elements": elements, "sparsity": zeros / max(elements, 1),
               "activations": len(flowing)}  # fmt: skip
    return graph, Report("sparsity", (*rows, *flowing), summary)


def _row(name: str, node: Node, graph: Graph, before: dict[str, Sparsity] | None, context: Context) -> Row:
    weight, held = graph.weights[name], node.sparsity.get("weight")
    if weight.key is None:
        raise PassError(*NO_WEIGHTS)
    values = np.abs(context.store.get(weight.key).float32()).reshape(-1)
    mask = keep(held, weight.elements, context.store) if held else None
    left = values if mask is None else values * mask
    rows = seen((left != 0).reshape(weight.shape), view_at(node, "weight"))
    total = float(values.sum(dtype=np.float64))
    changed = None if before is None else change(before.get(name), held, context.store)
    return {
        "node": node.id, "port": "weight", "weight": name, "shape": weight.shape, "elements": weight.elements,
        "zeros": weight.elements - int(np.count_nonzero(left)),
        "sparsity": 1 - np.count_nonzero(left) / max(weight.elements, 1),
        "method": held.method if held else None, "pattern": held.label if held else None,
        "scope": held.scope if held else None,
        "empty_rows": int((~rows.any(1)).sum()), "rows": rows.shape[0],
        "empty_columns": int((~rows.any(0)).sum()), "columns": rows.shape[1], "most_of_4": _most(rows),
        "kept_l1": float(left.sum(dtype=np.float64)) / total if total else None,
        "dropped": changed.dropped if changed else None, "restored": changed.restored if changed else None,
    }  # fmt: skip


def _most(rows: NDArray[np.bool_]) -> int:
    """The most that are not zero of any GROUP in a row; a shorter last group counts as it is."""
    if not rows.size:
        return 0
    starts = np.arange(0, rows.shape[1], GROUP)
    return int(np.add.reduceat(rows, starts, axis=1, dtype=np.uint8).max())


def _masked(graph: Graph) -> dict[str, Sparsity]:
    """Weight name → its pruning."""
    held = ((weight_at(n, "weight", graph), n.sparsity.get("weight")) for n in graph if n.sparsity)
    return {name: s for name, s in held if name is not None and s is not None}


def _flowing(node: Node, port: str, held: Sparsity) -> Row:
    return {"node": node.id, "port": port, "sparsity": held.ratio, "method": held.method, "pattern": held.label,
            "scope": held.scope, "threshold": held.threshold}  # fmt: skip
