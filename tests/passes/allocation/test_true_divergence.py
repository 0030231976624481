"""The true divergence after further steps: that of the recipe which an allocation would make, and nothing is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.base import parse_format
from espalier.model.opening import open_any
from espalier.passes.allocation.plan import steps
from espalier.passes.allocation.true_divergence import AllocatedOptions
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.replay import replay
from espalier.passes.sensitivity.table import Candidate


def test_it_is_the_divergence_of_the_recipe(tmp_path: Path) -> None:
    opened = open_any("demo:digits-mlp", tmp_path)
    graph = opened.project.graph
    chosen = {
        (n.id, "weight"): Candidate(parse_format("integer(width=3, frac_width=2)"), 0.25)
        for n in graph
        if n.op == "linear"
    }
    made = Recipe(steps(graph, chosen))
    assert [s.pass_name for s in made.steps] == ["prune", "quantize"]

    def context() -> Context:
        return Context(opened.store, base=opened.project.base)

    options = AllocatedOptions("demo:digits", limit=100, steps=json.dumps(recipe_to_dict(made)))
    done = run_step(graph, Step("allocated", options), context())
    after = replay(graph, made, context()).graph
    told = run_step(after, Step("divergence", DivergenceOptions("demo:digits", limit=100)), context()).report.summary
    assert done.graph is graph and done.report.summary["kl"] == pytest.approx(told["kl"]) and told["kl"] > 1e-4
    assert done.report.summary["accuracy"] == told["accuracy"]
    nothing = run_step(graph, Step("allocated", AllocatedOptions("demo:digits", limit=100)), context()).report.summary
    assert nothing["kl"] == pytest.approx(0, abs=1e-9)
