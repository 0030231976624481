"""What each row of a difference costs alone, on the data of its scores, for the command line and Python."""

from __future__ import annotations

from dataclasses import fields, replace

from espalier.app.commands.opening import Target
from espalier.app.figures.difference import RowCosts, StateComparison
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Step
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.change_divergence import ChangeDivergenceOptions, RowDivergence
from espalier.passes.base import run_step
from espalier.passes.running.splits import EvaluateOptions


def with_costs(
    comparison: StateComparison, options: EvaluateOptions, target: Target, other: WeightStore
) -> StateComparison:
    """The comparison with the divergence that each of its rows causes alone; `target`: A, `other`: the store of B.

    The data are read as A reads them. Raises DataError, and GraphError for a model whose outputs cannot be compared.
    """
    if not comparison.diff:
        return comparison
    data = {f.name: getattr(options, f.name) for f in fields(EvaluateOptions)}
    step = Step("change_divergence", ChangeDivergenceOptions(**data, baseline="A"))
    rows: dict[int, RowDivergence] = {}

    def found(part: object) -> None:
        if isinstance(part, RowDivergence):
            rows[part.index] = part

    context = replace(target.context, store=target.store, base=comparison.a, found=found)
    with target.store.borrowing(keys_of(comparison.b), other):
        summary = run_step(comparison.b, step, context).report.summary
    return replace(comparison, costs=RowCosts(rows, summary["n"], summary["what"], summary["together"]))
