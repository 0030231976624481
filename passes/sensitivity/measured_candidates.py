"""Measurement of candidates: their choice, the run, and the table with the measurements and corrected predictions."""

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
from espalier.passes.sensitivity.correction import Correction, fit_correction
from espalier.passes.sensitivity.measure import Baseline, Measured
from espalier.passes.sensitivity.ports import FormatPort
from espalier.passes.sensitivity.table import Candidate, Sensitivity

if TYPE_CHECKING:
    from espalier.model.data.base import Split
    from espalier.passes.sensitivity.candidate_cache import CandidateCache

Cell = tuple[int, int]  # row of the table, candidate
MIN_DIVERGENCE = 1e-5  # of candidates measured for a correction
FIRST = 24  # random candidates measured first under a time limit, so that a partial result is unbiased
_LOWEST, _HIGHEST = 1e-5, 0.1  # range of divergences of measured configurations
MIXED = 5  # formats of a mixed configuration


def sample_cells(rows: Sequence[Sensitivity], count: int, seed: int) -> list[Cell]:
    """Cells to measure for a correction: a sample stratified by predicted divergence."""
    cells = [
        (r, c) for r, row in enumerate(rows) for c, kl in enumerate(row.predicted) if MIN_DIVERGENCE <= kl < math.inf
    ]
    cells.sort(key=lambda cell: rows[cell[0]].predicted[cell[1]])
    random = np.random.default_rng(seed)
    parts = np.array_split(np.arange(len(cells)), min(count, len(cells))) if cells and count else []
    return sorted(cells[int(random.choice(part))] for part in parts)


def all_cells(rows: Sequence[Sensitivity]) -> list[Cell]:
    """All cells."""
    return [(r, c) for r, row in enumerate(rows) for c in range(len(row.candidates))]


def measure_cells(
    rows: Sequence[Sensitivity], cells: Sequence[Cell], places: Mapping[tuple[str, str], FormatPort], run: Graph,
    split: Split, batch_size: int, context: Context, on_result: Callable[[Cell, Measured], None],
    kept: CandidateCache | None = None, until: float = math.inf,
) -> Baseline:  # fmt: skip
    """Measure cells in the order of the nodes that they change, so that each runs only the nodes after its change.

    Cached results (`kept`) are passed to `on_result` first. No measurement starts after `until` (of
    time.perf_counter), except the first.
    """
    baseline = Baseline(run, split, batch_size, context)
    order = {name: i for i, name in enumerate(run.nodes)}

    def first(cell: Cell) -> int:
        row = rows[cell[0]]
        return min(order[n] for n, _ in places[row.node, row.port].tensors)

    known = {c: m for c in cells if kept is not None and (m := kept.get(*_candidate(rows, c))) is not None}
    for cell, result in known.items():
        on_result(cell, result)
    sampled = set(sample_cells(rows, FIRST, context.seed)) if until < math.inf else set[Cell]()
    ordered = sorted((c for c in cells if c not in known), key=lambda c: (c not in sampled, first(c), c))
    graphs = (with_candidate(run, places[rows[r].node, rows[r].port], rows[r].candidates[c], context)
              for r, c in ordered)  # fmt: skip
    for i, (cell, result) in enumerate(zip(ordered, baseline.walk(graphs), strict=True)):
        if kept is not None:
            kept.put(*_candidate(rows, cell), result)
        context.progress(i + 1, len(ordered), f"measuring {rows[cell[0]].node}")
        on_result(cell, result)
        if time.perf_counter() > until:
            break
    return baseline


def _candidate(rows: Sequence[Sensitivity], cell: Cell) -> tuple[str, str, Candidate]:
    row = rows[cell[0]]
    return row.node, row.port, row.candidates[cell[1]]


def with_candidate(run: Graph, place: FormatPort, candidate: Candidate, context: Context) -> Graph:
    """`run` with a candidate at a port."""
    nodes = dict.fromkeys(n for n, _ in place.tensors)
    return run.replace(*(_with(run[n], place, candidate, run, context) for n in nodes))


def _with(node: Node, place: FormatPort, candidate: Candidate, run: Graph, context: Context) -> Node:
    port = place.port
    if candidate.format is not None:
        node = replace(node, precision={**node.precision, port: Precision(candidate.format)})
    if candidate.sparsity:
        node = replace(node, sparsity={**node.sparsity, port: _sparsity(node, place, candidate, run, context)})
    return node


def _sparsity(node: Node, place: FormatPort, candidate: Candidate, run: Graph, context: Context) -> Sparsity:
    """A mask for a stored weight; top-k per sample for an activation."""
    if place.weight is None:
        return Sparsity(candidate.method, candidate.sparsity, "local", None, 0, "top_k")
    from espalier.passes.choices.pruning import Choice
    from espalier.passes.pruning.patterns import Scored, mask

    stored = context.store.get(run.weights[place.weight].key or "")
    choice = Choice(candidate.sparsity, candidate.method, "local")  # type: ignore[arg-type]
    scored = Scored(stored.float32().reshape(-1), stored.shape, view_at(node, place.port))
    pruned = mask(scored, choice)
    key = context.store.hold(Tensor(pruned.bits, "uint8"))
    return Sparsity(candidate.method, candidate.sparsity, "local", key, pruned.zeros)


def sample_configurations(rows: Sequence[Sensitivity], count: int, seed: int, columns: int) -> list[list[Cell]]:
    """Configurations to measure, alternately uniform and mixed from formats of similar divergence, spread over the
    predicted divergences; of weights only, of weights and inputs, and of all ports. `columns`: number of candidates
    that are the same in each row."""
    random = np.random.default_rng(seed)
    usable = [r for r, row in enumerate(rows) if len(row.candidates) >= columns]
    kinds = [[r for r in usable if rows[r].port in ports] for ports in (("weight",), ("weight", "data_in"))] + [usable]
    kinds = [k for k in kinds if len(k) > 1]
    if not kinds or not columns:
        return []
    configurations: list[list[Cell]] = []
    for i in range(count):
        kind = kinds[i // 2 % len(kinds)]
        sums = np.array([sum(rows[r].predicted[c] for r in kind) for c in range(columns)])
        wanted = _LOWEST * (_HIGHEST / _LOWEST) ** ((i + 0.5) / count)
        order = np.argsort(np.abs(np.log(np.maximum(sums, 1e-300) / wanted)), kind="stable")
        near = order[: 1 if i % 2 == 0 else MIXED]
        configurations.append([(r, int(random.choice(near))) for r in kind])
    return configurations


def measure_configurations(
    rows: Sequence[Sensitivity], mixed: Sequence[Sequence[Cell]], places: Mapping[tuple[str, str], FormatPort],
    baseline: Baseline, context: Context,
) -> list[tuple[float, float]]:  # fmt: skip
    """(predicted, measured) divergence of each configuration."""
    from espalier.passes.sensitivity.combined import CombinedDivergences

    table, pairs = CombinedDivergences(rows), list[tuple[float, float]]()
    for i, cells in enumerate(mixed):
        graph, chosen = baseline.graph, dict[tuple[str, str], Candidate]()
        for r, c in cells:
            row = rows[r]
            graph = with_candidate(graph, places[row.node, row.port], row.candidates[c], context)
            chosen[row.node, row.port] = row.candidates[c]
        context.progress(i + 1, len(mixed), "measuring whole configurations")
        pairs.append((table.of(chosen), baseline.measure(graph).kl))
    return pairs


def with_measurements(row: Sensitivity, divergences: Mapping[int, float]) -> Sensitivity:
    """A row with the measured divergences of its candidates."""
    return replace(row, measured=tuple(divergences.get(c, m) for c, m in enumerate(row.measured)))


def table_correction(rows: Sequence[Sensitivity]) -> Correction:
    """Fit a correction to the measurements of a table."""
    triples = (t for row in rows for t in zip(row.predicted, row.noise, row.measured, strict=True))
    return fit_correction([(p, n, m) for p, n, m in triples if m is not None])


def corrected_row(row: Sensitivity, by: Correction) -> Sensitivity:
    """A row with corrected predictions."""
    return replace(row, predicted=tuple(by.of(p, n) for p, n in zip(row.predicted, row.noise, strict=True)))


def rank_agreement(rows: Sequence[Sensitivity]) -> dict[str, Any]:
    """Rank correlation of predictions and measurements: of all, and of those above 1e-4."""
    from espalier.passes.sensitivity.correction import spearman

    pairs = [(p, m) for row in rows for p, m in zip(row.predicted, row.measured, strict=True)
             if m is not None and math.isfinite(p) and math.isfinite(m)]  # fmt: skip
    large = [(p, m) for p, m in pairs if m > 1e-4]
    return {"measured": len(pairs), "spearman": spearman([p for p, _ in pairs], [m for _, m in pairs]),
            "spearman_large": spearman([p for p, _ in large], [m for _, m in large])}  # fmt: skip
