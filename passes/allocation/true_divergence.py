"""Measures the true divergence of an allocation, without changing the project: its steps are run first."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from espalier.model.graph.graph import Graph
from espalier.passes.analysis.divergence import DivergenceOptions, divergence
from espalier.passes.base import Context, Report, analysis
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions


@dataclass(frozen=True, slots=True)
class AllocatedOptions(EvaluateOptions):
    """Data; `steps` as in a recipe file."""

    steps: str = field(default='{"steps": []}', metadata={"help": "the steps to run before, as JSON"})
    AGAINST_BASE: ClassVar[bool] = True


@analysis("allocated", "Divergence after further steps", AllocatedOptions)
def allocated(graph: Graph, options: AllocatedOptions, context: Context) -> tuple[Graph, Report]:
    """KL divergence of the outputs from the baseline of the predictions, and accuracy, after further steps.

    The baseline is the model as opened or, if earlier steps changed its weights, the present weights in float.
    """
    from espalier.passes.sensitivity.ports import expansion, expansion_name

    start, name = expansion(graph, context.base), expansion_name(graph, context.base)
    after = replay(graph, load_recipe(json.loads(options.steps)), context).graph
    data = {f.name: getattr(options, f.name) for f in fields(EvaluateOptions)}
    _, report = divergence(after, DivergenceOptions(**data, baseline=name), replace(context, base=start))
    return graph, Report("allocated", report.rows, report.summary)
