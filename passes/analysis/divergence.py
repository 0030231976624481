"""Measures the divergence of the present model from the opened one, or of single candidates; no prediction."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from espalier.model.document.graph_json import fingerprint
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, analysis, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.figure import EXPANSION, OPENED, wilson
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split
from espalier.passes.select import Select
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.passes.sensitivity.measure import Baseline, Measured

MAX_BASELINES = 2  # in the cache: for the data of the score and of sensitivities


@dataclass(frozen=True, slots=True)
class Cell:
    """A candidate at a port of a node."""

    node: str
    port: str
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class DivergenceOptions(EvaluateOptions):
    """The data; `cells` are measured one at a time on the present weights, without the graph's own formats."""

    baseline: str = field(default=OPENED, metadata={"help": "name of the baseline graph"})
    cells: tuple[Cell, ...] = field(
        default=(), metadata={"help": "single choices to measure; empty: those of the graph"}
    )
    AGAINST_BASE: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Truth:
    """A measured cell: KL divergence of the outputs in nats a sample, and the accuracy with it alone."""

    cell: Cell
    kl: float
    accuracy: float | None


@analysis("divergence", "Divergence from the baseline", DivergenceOptions)
def divergence(graph: Graph, options: DivergenceOptions, context: Context) -> tuple[Graph, Report]:
    """KL divergence of the outputs from those of the opened model, and the accuracy, on the same samples.

    Single candidates are measured against the present weights in float, as sensitivities are predicted.
    """
    from espalier.passes.sensitivity.ports import expansion, expansion_name

    if not options.cells:
        baseline = against(context.base or expansion(graph, None), options, context)
        name = options.baseline if context.base else EXPANSION
        summary = _figures(baseline.measure(graph)) | {"baseline": name, "what": baseline.outputs.words}
        return graph, Report("divergence", (), summary)
    start = expansion(graph, context.base)
    baseline = against(start, options, context)
    rows: list[Row] = []
    for cell, measured in _each(start, options.cells, baseline, context):
        context.found(Truth(cell, measured.kl, measured.accuracy))
        rows.append({"node": cell.node, "port": cell.port, "choice": cell.candidate.label} | _figures(measured))
        context.progress(len(rows), len(options.cells), f"{cell.node} {cell.candidate.label}")
    summary = {"cells": len(rows), "baseline": expansion_name(graph, context.base), "what": baseline.outputs.words}
    return graph, Report("divergence", tuple(rows), summary)


def _figures(measured: Measured) -> Row:
    scored = bool(measured.figures)
    values: Row = {
        "kl": measured.kl,
        "accuracy": measured.accuracy,
        "agreement": measured.agreement,
        **measured.figures,
    }
    row = {k: v for k, v in values.items() if v is not None} | {"n": measured.targets if scored else measured.samples}
    if measured.accuracy is None:
        return row
    return row | {"interval": list(wilson(measured.accuracy, measured.targets))}


def _each(
    start: Graph, cells: tuple[Cell, ...], baseline: Baseline, context: Context
) -> Iterator[tuple[Cell, Measured]]:
    """Each cell with its measurement, in the order of the nodes, so that cells of one node share the run before it."""
    position = {name: i for i, name in enumerate(start.nodes)}
    unknown = next((c.node for c in cells if c.node not in position), None)
    if unknown is not None:
        raise OptionsError(f"There is no node {unknown!r}.", "Compute the sensitivities again.")
    ordered = sorted(cells, key=lambda c: position[c.node])
    return zip(ordered, baseline.walk(with_cell(start, c, context) for c in ordered), strict=True)


def with_cell(graph: Graph, cell: Cell, context: Context) -> Graph:
    """The graph with one candidate applied."""
    select, candidate = Select("name", (cell.node,)), cell.candidate
    if candidate.sparsity:
        options = PruneOptions(sparsity=candidate.sparsity, method=candidate.method, select=select)  # type: ignore[arg-type]
        graph = run_step(graph, Step("prune", options), context).graph
    if candidate.format:
        rule = Rule(select, {cell.port: candidate.format})
        graph = run_step(graph, Step("quantize", QuantizeOptions((rule,))), context).graph
    return graph


# -- baselines cached between jobs

_CACHE: dict[Hashable, Baseline] = {}


def forget() -> None:
    """Drop the cached baselines, of documents that were closed."""
    _CACHE.clear()


def against(graph: Graph, options: EvaluateOptions, context: Context) -> Baseline:
    """The baseline of `graph` on the options' data, from a cache of the last ones."""
    from espalier.model.data.recent import signature
    from espalier.passes.sensitivity.measure import Baseline

    plain = EvaluateOptions(**{n: getattr(options, n) for n in EvaluateOptions.__dataclass_fields__})
    key = fingerprint(graph), plain, context.reading, signature(plain.data)
    baseline = _CACHE.pop(key, None)
    if baseline is None:
        data = load_task(plain, context.reading, whole=plain.split in ("", "all"))
        baseline = Baseline(graph, measured_split(data, plain.split, plain.limit), plain.batch_size, context)
    baseline.context = replace(context)
    _CACHE[key] = baseline
    while len(_CACHE) > MAX_BASELINES:
        _CACHE.pop(next(iter(_CACHE)))
    return baseline
