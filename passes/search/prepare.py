"""Prepares a search before its first trial: checks it, expands its space on the model, and makes its runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, is_lasting
from espalier.passes.recipes.replay import Memo, check_ready, prefix_keys, recipe_key, replay
from espalier.passes.search.expand import expand
from espalier.passes.search.feasibility import check_grid, check_limits, check_spec
from espalier.passes.search.fit import fit
from espalier.passes.search.goals import Wanted, wanted
from espalier.passes.search.identity import Identity, identity
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space, uniform
from espalier.passes.search.target import check_model
from espalier.passes.search.trial_run import TrialRun

if TYPE_CHECKING:
    from espalier.passes.search.architecture.building import Architect
    from espalier.passes.search.architecture.superset import Layout
    from espalier.passes.search.predicted_start import Forecast


@dataclass(frozen=True, slots=True)
class Prepared:
    """A search that can run. `graph`: the result of its own recipe, on which the space was expanded; `first`: the
    recipe of one trial."""

    want: Wanted
    space: Space
    graph: Graph
    first: Recipe
    identity: Identity
    architect: Architect | None = None

    def runner(self, search: Search, context: Context, memo: Memo) -> TrialRun:
        """The runner of its trials: with training, or post-training alone."""
        tunes = search.info is not None and any(s.pass_name == "finetune" for s in search.recipe.steps)
        if search.spec.train != "none" or self.architect or tunes:
            return self._trained(search, context)
        from espalier.passes.search.post_training import Plain

        rungs = search.spec.rungs if search.spec.pruner != "none" else ()
        return Plain(search.base, search.spec.score, self.want, memo, rungs, self.space)

    def _trained(self, search: Search, context: Context) -> TrialRun:
        from espalier.passes.search.trained import Trained

        if search.info is None:
            raise OptionsError("The model's source is unknown, so it cannot be built or trained again.",
                               "Open it from its source.")  # fmt: skip
        return Trained(search.spec, self.space, search.recipe, search.base, search.info, context, self.architect)

    def gathered(self, seconds: float, context: Context) -> bool:
        """Gather gradient statistics of the forecast for about `seconds`; returns whether they are complete."""
        from espalier.passes.search.predicted_start import gathered

        return gathered(self.space, self.graph, context, seconds)

    def forecast(self, count: int, context: Context, in_time: Callable[[float], float]) -> Forecast:
        """First configurations of a warm start: the predicted front, or uniform ones from the cheapest to the dearest.

        `in_time` maps a limit in seconds (0: none) to one that leaves time for trials.
        """
        from espalier.passes.search.predicted_start import Forecast, promising

        context.progress(0, 0, "predicting where to begin")
        # Each architecture would have a front of its own.
        predicted = None if self.architect else promising(self.space, self.graph, self.want, context, count, in_time)
        return predicted if predicted and predicted.starts else Forecast(tuple(uniform(self.space, count)))


def prepared(search: Search, context: Context, memo: Memo) -> Prepared:
    """Check a search and expand its space; raises OptionsError where it cannot run as written."""
    spec = search.spec
    want = wanted(spec)
    if not spec.study:
        raise OptionsError("The search has no name.", 'Give it one: study = "…".')
    check_spec(spec, want, search.recipe)
    check_model(spec.target, context.reading.limits)
    graph, store, deepest = graph_of_recipe(search.recipe, search.base, context, memo), context.store, None
    if any(entry.kind == "config" for entry in spec.space):
        deepest = _layout(search, graph, context)
        graph, store = deepest.graph, deepest.built.store
    space = expand(spec, graph, search.recipe)
    space = deepest.conditioned(space) if deepest else space
    check_grid(spec, space)
    space = fit(space, graph, store)
    if deepest is None:
        check_limits(space, graph, want)
    first = search.recipe_of(space, next(uniform(space, 1)))
    check_ready(first)
    return Prepared(want, space, graph, first, identity(search, space), deepest.architect if deepest else None)


def _layout(search: Search, graph: Graph, context: Context) -> Layout:
    """The layout on the deepest model of a space that varies the configuration."""
    from espalier.passes.search.architecture.superset import layout

    entries = tuple(replace(e, when=None) for e in search.spec.space if e.kind == "config")
    choices = list(expand(replace(search.spec, space=entries), graph, search.recipe).choices)
    return layout(search.spec, choices, search.recipe, search.base, search.info, context)


def graph_of_recipe(recipe: Recipe, base: Graph, context: Context, memo: Memo) -> Graph:
    """The graph of the recipe; if it is not memoised, without its trainings, which change no layer's kind."""
    if recipe.active and recipe_key(recipe) in memo.graphs:
        return memo.graphs[prefix_keys(recipe.active)[-1]].graph
    quick = Recipe(tuple(replace(s, enabled=s.enabled and not is_lasting(s.pass_name)) for s in recipe.steps))
    return replay(base, quick, context, memo).graph
