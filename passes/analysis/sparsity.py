"""Zeros of weights: count, pattern, and empty rows, columns and groups."""

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
from espalier.passes.observed.stored_tensors import NO_WEIGHTS
from espalier.passes.pruning.mask_changes import change
from espalier.passes.pruning.patterns import seen
from espalier.passes.unpruned import prunable, unpruned, unpruned_note

GROUP = 4  # consecutive inputs, of which sparse tensor cores need at most two non-zero


@dataclass(frozen=True, slots=True)
class SparsityOptions:
    """None; masks are compared with those of the opened model."""

    AGAINST_BASE: ClassVar[bool] = True


@analysis("sparsity", "Sparsity", SparsityOptions)
def sparsity(graph: Graph, options: SparsityOptions, context: Context) -> tuple[Graph, Report]:
    """Zeros of the weights of Linears and convolutions, stored zeros included, each weight once.

    `pattern`: the pruning pattern; `most_of_4`: maximum of non-zero values among four consecutive inputs (at most 2:
    2:4 sparsity). `empty_rows`, `empty_columns`: outputs and inputs without non-zero weights. `kept_l1`: remaining
    share of Σ|w|. `dropped`, `restored`: changes of the mask since the model was opened. Pruned activations have their
    own rows. The summary counts matrices that no mask can take, such as experts, as not pruned, and names them.
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
    activations = [_activation(n, p, s) for n in graph for p, s in n.sparsity.items() if s.flows]
    others = unpruned(graph).values()
    elements += sum(m.elements for m in others)
    summary: Row = {"weights": len(rows), "zeros": zeros, "elements": elements, "sparsity": zeros / max(elements, 1),
                    "activations": len(activations)}  # fmt: skip
    summary |= {"note": unpruned_note(others)} if others else {}
    return graph, Report("sparsity", (*rows, *activations), summary)


def _row(name: str, node: Node, graph: Graph, before: dict[str, Sparsity] | None, context: Context) -> Row:
    weight, pruning = graph.weights[name], node.sparsity.get("weight")
    if weight.key is None:
        raise PassError(*NO_WEIGHTS)
    values = np.abs(context.store.get(weight.key).float32()).reshape(-1)
    mask = keep(pruning, weight.elements, context.store) if pruning else None
    remaining = values if mask is None else values * mask
    rows = seen((remaining != 0).reshape(weight.shape), view_at(node, "weight"))
    total = float(values.sum(dtype=np.float64))
    changed = None if before is None else change(before.get(name), pruning, context.store)
    return {
        "node": node.id, "port": "weight", "weight": name, "shape": weight.shape, "elements": weight.elements,
        "zeros": weight.elements - int(np.count_nonzero(remaining)),
        "sparsity": 1 - np.count_nonzero(remaining) / max(weight.elements, 1),
        "method": pruning.method if pruning else None, "pattern": pruning.label if pruning else None,
        "scope": pruning.scope if pruning else None,
        "empty_rows": int((~rows.any(1)).sum()), "rows": rows.shape[0],
        "empty_columns": int((~rows.any(0)).sum()), "columns": rows.shape[1], "most_of_4": _max_of_group(rows),
        "kept_l1": float(remaining.sum(dtype=np.float64)) / total if total else None,
        "dropped": changed.dropped if changed else None, "restored": changed.restored if changed else None,
    }  # fmt: skip


def _max_of_group(rows: NDArray[np.bool_]) -> int:
    """The maximum of non-zero values in any GROUP of a row; the last group may be shorter."""
    if not rows.size:
        return 0
    starts = np.arange(0, rows.shape[1], GROUP)
    return int(np.add.reduceat(rows, starts, axis=1, dtype=np.uint8).max())


def _masked(graph: Graph) -> dict[str, Sparsity]:
    """Weight name → its pruning."""
    pairs = ((weight_at(n, "weight", graph), n.sparsity.get("weight")) for n in graph if n.sparsity)
    return {name: s for name, s in pairs if name is not None and s is not None}


def _activation(node: Node, port: str, pruning: Sparsity) -> Row:
    return {"node": node.id, "port": port, "sparsity": pruning.ratio, "method": pruning.method,
            "pattern": pruning.label, "scope": pruning.scope, "threshold": pruning.threshold}  # fmt: skip
