"""The true divergence of the present model from the one opened, or of single choices; nothing is predicted."""

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

KEPT = 2  # baselines that stay warm: that of the score's data and that of the sensitivities'


@dataclass(frozen=True, slots=True)
class Cell:
    """A candidate at a port of a node."""

    node: str
    port: str
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class DivergenceOptions(EvaluateOptions):
    """Which data; `cells` are tried one at a time in place of the graph's own choices, from the present weights."""

    baseline: str = field(default=OPENED, metadata={"help": "name of the baseline graph"})
    cells: tuple[Cell, ...] = field(
        default=(), metadata={"help": "single choices to measure; empty: those of the graph"}
    )
    AGAINST_BASE: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Truth:
    """What a cell really costs: KL divergence of the outputs in nats a sample, and the accuracy with it alone."""

    cell: Cell
    kl: float
    accuracy: float | None


@analysis("divergence", "Divergence from the baseline", DivergenceOptions)
def divergence(graph: Graph, options: DivergenceOptions, context: Context) -> tuple[Graph, Report]:
    """KL divergence of the outputs from those of the model as opened, and the accuracy, on the same samples.

    Single choices are measured where the sensitivities were predicted: from the present weights in float.
    """
    from espalier.passes.sensitivity.ports import expansion, expansion_name

    if not options.cells:
        baseline = against(context.base or expansion(graph, None), options, context)
        name = options.baseline if context.base else EXPANSION
        told = _figures(baseline.measure(graph)) | {"baseline": name, "what": baseline.outputs.words}
        return graph, Report("divergence", (), told)
    start = expansion(graph, context.base)
    baseline = against(start, options, context)
    rows: list[Row] = []
    for cell, found in _each(start, options.cells, baseline, context):
        context.found(Truth(cell, found.kl, found.accuracy))
        rows.append({"node": cell.node, "port": cell.port, "choice": cell.candidate.label} | _figures(found))
        context.progress(len(rows), len(options.cells), f"{cell.node} {cell.candidate.label}")
    told = {"cells": len(rows), "baseline": expansion_name(graph, context.base), "what": baseline.outputs.words}
    return graph, Report("divergence", tuple(rows), told)


def _figures(found: Measured) -> Row:
    figures: Row = {"kl": found.kl, "accuracy": found.accuracy, "agreement": found.agreement}
    told = {k: v for k, v in figures.items() if v is not None} | {"n": found.samples}
    return told if found.accuracy is None else told | {"interval": list(wilson(found.accuracy, found.samples))}


def _each(
    start: Graph, cells: tuple[Cell, ...], baseline: Baseline, context: Context
) -> Iterator[tuple[Cell, Measured]]:
    """Each cell with its figures, in the order of the nodes: those of one node share what comes before it."""
    place = {name: i for i, name in enumerate(start.nodes)}
    unknown = next((c.node for c in cells if c.node not in place), None)
    if unknown is not None:
        raise OptionsError(f"There is no node {unknown!r}.", "Compute the sensitivities again.")
    ordered = sorted(cells, key=lambda c: place[c.node])
    return zip(ordered, baseline.walk(given(start, c, context) for c in ordered), strict=True)


def given(graph: Graph, cell: Cell, context: Context) -> Graph:
    """The graph with one choice."""
    select, candidate = Select("name", (cell.node,)), cell.candidate
    if candidate.sparsity:
        options = PruneOptions(sparsity=candidate.sparsity, method=candidate.method, select=select)  # type: ignore[arg-type]
        graph = run_step(graph, Step("prune", options), context).graph
    if candidate.format:
        rule = Rule(select, {cell.port: candidate.format})
        graph = run_step(graph, Step("quantize", QuantizeOptions((rule,))), context).graph
    return graph


# -- baselines that stay warm between jobs

_HELD: dict[Hashable, Baseline] = {}


def against(graph: Graph, options: EvaluateOptions, context: Context) -> Baseline:
    """The baseline that `graph` makes on the options' data; one that was made lately is taken again."""
    from espalier.model.data.recent import signature
    from espalier.passes.sensitivity.measure import Baseline

    wish = EvaluateOptions(**{n: getattr(options, n) for n in EvaluateOptions.__dataclass_fields__})
    key = fingerprint(graph), wish, context.reading, signature(wish.data)
    held = _HELD.pop(key, None)
    if held is None:
        data = load_task(wish, context.reading, whole=wish.split in ("", "all"))
        held = Baseline(graph, measured_split(data, wish.split, wish.limit), wish.batch_size, context)
    held.context = replace(context)
    _HELD[key] = held
    while len(_HELD) > KEPT:
        _HELD.pop(next(iter(_HELD)))
    return held
