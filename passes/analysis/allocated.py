"""The true divergence of what an allocation would give, without making it the project's: its steps run first."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import ClassVar

from model.graph import Graph
from passes.analysis.divergence import DivergenceOptions, divergence
from passes.analysis.evaluate import EvaluateOptions
from passes.base import Context, Report, analysis
from passes.config import load_recipe
from passes.replay import replay


@dataclass(frozen=True, slots=True)
class AllocatedOptions(EvaluateOptions):
    """Which data; `steps` as in a recipe's file."""

    steps: str = field(default='{"steps": []}', metadata={"help": "the steps to run before, as JSON"})
    AGAINST_BASE: ClassVar[bool] = True


@analysis("allocated", "Divergence after further steps", AllocatedOptions)
def allocated(graph: Graph, options: AllocatedOptions, context: Context) -> tuple[Graph, Report]:
    """KL divergence of the outputs from those of the model in float, and the accuracy, after some further steps."""
    after = replay(graph, load_recipe(json.loads(options.steps)), context).graph
    data = DivergenceOptions(**{f.name: getattr(options, f.name) for f in fields(EvaluateOptions)})
    _, report = divergence(after, data, context)
    return graph, Report("allocated", report.rows, report.summary)
