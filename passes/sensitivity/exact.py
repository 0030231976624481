"""Which candidates are measured truly, and what that finds: the table with what was measured, and corrected by it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision, Sparsity
from espalier.model.graph.views import view_at
from espalier.model.store.weights import Tensor
from espalier.passes.base import Context
from espalier.passes.sensitivity.correct import Correction, learned
from espalier.passes.sensitivity.measure import Baseline, Measured
from espalier.passes.sensitivity.places import Place
from espalier.passes.sensitivity.table import Candidate, Sensitivity

if TYPE_CHECKING:
    from espalier.model.data.base import Split
    from espalier.passes.sensitivity.candidate_cache import Kept

Cell = tuple[int, int]  # row of the table, candidate
LEAST = 1e-5  # divergence from which candidates are measured for a correction
SOON = 24  # candidates that come first where time is short, so that what it suffices for is fair
_LOWEST, _HIGHEST = 1e-5, 0.1  # divergences of the whole configurations that are
MIXED = 5  # formats of a mixture


def picked(rows: Sequence[Sensitivity], count: int, seed: int) -> list[Cell]:
    """Cells to measure for a correction: spread evenly over the predicted divergences, the steep end included."""
    cells = [(r, c) for r, row in enumerate(rows) for c, kl in enumerate(row.predicted) if LEAST <= kl < math.inf]
    cells.sort(key=lambda cell: rows[cell[0]].predicted[cell[1]])
    random = np.random.default_rng(seed)
    parts = np.array_split(np.arange(len(cells)), min(count, len(cells))) if cells and count else []
    return sorted(cells[int(random.choice(part))] for part in parts)


def every(rows: Sequence[Sensitivity]) -> list[Cell]:
    """All cells."""
    return [(r, c) for r, row in enumerate(rows) for c in range(len(row.candidates))]


def measured(
    rows: Sequence[Sensitivity], cells: Sequence[Cell], places: Mapping[tuple[str, str], Place], run: Graph,
    split: Split, batch_size: int, context: Context, heard: Callable[[Cell, Measured], None], kept: Kept | None = None,
    until: float = math.inf,
) -> Baseline:  # fmt: skip
    """Measure cells, in the order of the nodes that they change, so that each runs only what comes after it; those that
    are `kept` are told at once. With `until` (of time.perf_counter) no more are begun after it, one at least is.
    """
    baseline = Baseline(run, split, batch_size, context)
    order = {name: i for i, name in enumerate(run.nodes)}

    def first(cell: Cell) -> int:
        row = rows[cell[0]]
        return min(order[n] for n, _ in places[row.node, row.port].tensors)

    known = {c: m for c in cells if kept is not None and (m := kept.get(*_asked(rows, c))) is not None}
    for cell, found in known.items():
        heard(cell, found)
    soon = set(picked(rows, SOON, context.seed)) if until < math.inf else set[Cell]()
    ordered = sorted((c for c in cells if c not in known), key=lambda c: (c not in soon, first(c), c))
    graphs = (given(run, places[rows[r].node, rows[r].port], rows[r].candidates[c], context) for r, c in ordered)
    for i, (cell, found) in enumerate(zip(ordered, baseline.walk(graphs), strict=True)):
        if kept is not None:
            kept.put(*_asked(rows, cell), found)
        context.progress(i + 1, len(ordered), f"measuring {rows[cell[0]].node}")
        heard(cell, found)
        if time.perf_counter() > until:
            break
    return baseline


def _asked(rows: Sequence[Sensitivity], cell: Cell) -> tuple[str, str, Candidate]:
    row = rows[cell[0]]
    return row.node, row.port, row.candidates[cell[1]]


def given(run: Graph, place: Place, candidate: Candidate, context: Context) -> Graph:
    """The graph that is run, with a candidate at a place."""
    nodes = dict.fromkeys(n for n, _ in place.tensors)
    return run.replace(*(_with(run[n], place, candidate, run, context) for n in nodes))


def _with(node: Node, place: Place, candidate: Candidate, run: Graph, context: Context) -> Node:
    port = place.port
    if candidate.format is not None:
        node = replace(node, precision={**node.precision, port: Precision(candidate.format)})
    if candidate.sparsity:
        node = replace(node, sparsity={**node.sparsity, port: _sparsity(node, place, candidate, run, context)})
    return node


def _sparsity(node: Node, place: Place, candidate: Candidate, run: Graph, context: Context) -> Sparsity:
    """A mask of a stored weight; of what flows a share of each sample."""
    if place.weight is None:
        return Sparsity(candidate.method, candidate.sparsity, "local", None, 0, "top_k")
    from espalier.passes.choices.pruning import Choice
    from espalier.passes.pruning.patterns import Scored, mask

    stored = context.store.get(run.weights[place.weight].key or "")
    choice = Choice(candidate.sparsity, candidate.method, "local")  # type: ignore[arg-type]
    scored = Scored(stored.float32().reshape(-1), stored.shape, view_at(node, place.port))
    found = mask(scored, choice)
    key = context.store.hold(Tensor(found.bits, "uint8"))
    return Sparsity(candidate.method, candidate.sparsity, "local", key, found.zeros)


def mixtures(rows: Sequence[Sensitivity], count: int, seed: int, columns: int) -> list[list[Cell]]:
    """Whole configurations to measure: one column for all, and mixtures of those near it; of weights alone, of what
    layers take besides, of everything; spread over the divergences that they are predicted. `columns`: those that
    mean the same in each row."""
    random = np.random.default_rng(seed)
    known = [r for r, row in enumerate(rows) if len(row.candidates) >= columns]
    kinds = [[r for r in known if rows[r].port in ports] for ports in (("weight",), ("weight", "data_in"))] + [known]
    kinds = [k for k in kinds if len(k) > 1]
    if not kinds or not columns:
        return []
    found: list[list[Cell]] = []
    for i in range(count):
        kind = kinds[i // 2 % len(kinds)]
        sums = np.array([sum(rows[r].predicted[c] for r in kind) for c in range(columns)])
        wanted = _LOWEST * (_HIGHEST / _LOWEST) ** ((i + 0.5) / count)
        order = np.argsort(np.abs(np.log(np.maximum(sums, 1e-300) / wanted)), kind="stable")
        near = order[: 1 if i % 2 == 0 else MIXED]
        found.append([(r, int(random.choice(near))) for r in kind])
    return found


def wholes(
    rows: Sequence[Sensitivity], mixed: Sequence[Sequence[Cell]], places: Mapping[tuple[str, str], Place],
    baseline: Baseline, context: Context,
) -> list[tuple[float, float]]:  # fmt: skip
    """(predicted, measured) of whole configurations."""
    from espalier.passes.sensitivity.whole import Wholes

    table, found = Wholes(rows), list[tuple[float, float]]()
    for i, cells in enumerate(mixed):
        graph, chosen = baseline.graph, dict[tuple[str, str], Candidate]()
        for r, c in cells:
            row = rows[r]
            graph = given(graph, places[row.node, row.port], row.candidates[c], context)
            chosen[row.node, row.port] = row.candidates[c]
        context.progress(i + 1, len(mixed), "measuring whole configurations")
        found.append((table.of(chosen), baseline.measure(graph).kl))
    return found


def told(row: Sensitivity, found: Mapping[int, float]) -> Sensitivity:
    """A row with what was measured of its candidates."""
    return replace(row, measured=tuple(found.get(c, m) for c, m in enumerate(row.measured)))


def correction(rows: Sequence[Sensitivity]) -> Correction:
    """What the measurements in a table say of its predictions."""
    return learned([(p, n, m) for row in rows for p, n, m in zip(row.predicted, row.noise, row.measured, strict=True)
                    if m is not None])  # fmt: skip


def corrected(row: Sensitivity, by: Correction) -> Sensitivity:
    """A row with its predictions put right."""
    return replace(row, predicted=tuple(by.of(p, n) for p, n in zip(row.predicted, row.noise, strict=True)))


def agreement(rows: Sequence[Sensitivity]) -> dict[str, Any]:
    """How well the predictions of a table order what was measured: in all, and above 1e-4."""
    from espalier.passes.sensitivity.correct import ranks_agree

    pairs = [(p, m) for row in rows for p, m in zip(row.predicted, row.measured, strict=True)
             if m is not None and math.isfinite(p) and math.isfinite(m)]  # fmt: skip
    large = [(p, m) for p, m in pairs if m > 1e-4]
    return {"measured": len(pairs), "spearman": ranks_agree([p for p, _ in pairs], [m for _, m in pairs]),
            "spearman_large": ranks_agree([p for p, _ in large], [m for _, m in large])}  # fmt: skip
