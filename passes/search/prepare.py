"""What is known of a search before its first trial: what is wrong with it, its space on the model, its runner."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import xxhash

from espalier.model.document.codec import encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, is_lasting
from espalier.passes.recipes.replay import Memo, check_ready, prefix_keys, recipe_key, replay
from espalier.passes.search.expand import expand
from espalier.passes.search.feasibility import check_grid, check_limits, check_spec
from espalier.passes.search.fit import fit
from espalier.passes.search.goals import Wanted, wanted
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space, uniform
from espalier.passes.search.trial_run import TrialRun

if TYPE_CHECKING:
    from espalier.passes.search.architecture.building import Architect
    from espalier.passes.search.architecture.superset import Layout
    from espalier.passes.search.predicted_start import Forecast
    from espalier.passes.search.study import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A search that can run. `graph`: what its own recipe leads to, where the space was expanded; `first`: the recipe
    of some trial."""

    want: Wanted
    space: Space
    graph: Graph
    first: Recipe
    fingerprint: str
    architect: Architect | None = None

    def runner(self, plan: Plan) -> TrialRun:
        """What runs its trials."""
        search = plan.search
        if plan.runner is not None:
            return plan.runner(search, self, plan.context, plan.memo)
        tunes = search.info is not None and any(s.pass_name == "finetune" for s in search.recipe.steps)
        if search.spec.train != "none" or self.architect or tunes:
            return self._trained(search, plan.context)
        from espalier.passes.search.post_training import Plain

        rungs = search.spec.rungs if search.spec.pruner != "none" else ()
        return Plain(search.base, search.spec.score, self.want, plan.memo, rungs, self.space)

    def _trained(self, search: Search, context: Context) -> TrialRun:
        from espalier.passes.search.trained import Trained

        if search.info is None:
            raise OptionsError("Where the model came from is not known, so it cannot be built or trained anew.",
                               "Open it from its source.")  # fmt: skip
        return Trained(search.spec, self.space, search.recipe, search.base, search.info, context, self.architect)

    def gathered(self, seconds: float, context: Context) -> bool:
        """Go on with what the forecast is made from, for about so long: whether that is all by now."""
        from espalier.passes.search.predicted_start import gathered

        return gathered(self.space, self.graph, context, seconds)

    def forecast(self, count: int, context: Context, in_time: Callable[[float], float]) -> Forecast:
        """What a warm start tries first: the predicted front, or uniform configurations from cheap to dear.

        `in_time` tells for a limit of seconds, or none (0), the one that leaves time for trials.
        """
        from espalier.passes.search.predicted_start import Forecast, promising

        context.progress(0, 0, "predicting where to begin")
        # Of architectures each would have a front of its own.
        found = None if self.architect else promising(self.space, self.graph, self.want, context, count, in_time)
        return found if found and found.starts else Forecast(tuple(uniform(self.space, count)))


def prepared(search: Search, context: Context, memo: Memo) -> Prepared:
    """Raises OptionsError where the search cannot run as it is written."""
    spec = search.spec
    want = wanted(spec)
    if not spec.study:
        raise OptionsError("The search has no name.", 'Give it one: study = "…".')
    check_spec(spec, want, search.recipe)
    graph, store, laid = reached(search.recipe, search.base, context, memo), context.store, None
    if any(entry.kind == "config" for entry in spec.space):
        laid = _laid_out(search, graph, context)
        graph, store = laid.graph, laid.built.store
    space = expand(spec, graph, search.recipe)
    space = laid.conditioned(space) if laid else space
    check_grid(spec, space)
    space = fit(space, graph, store)
    if laid is None:
        check_limits(space, graph, want)
    first = search.recipe_of(space, next(uniform(space, 1)))
    check_ready(first)
    return Prepared(want, space, graph, first, _fingerprint(search, space), laid.architect if laid else None)


def _laid_out(search: Search, graph: Graph, context: Context) -> Layout:
    """The deepest model of a space that varies the configuration."""
    from espalier.passes.search.architecture.superset import layout

    entries = tuple(replace(e, when=None) for e in search.spec.space if e.kind == "config")
    choices = list(expand(replace(search.spec, space=entries), graph, search.recipe).choices)
    return layout(search.spec, choices, search.recipe, search.base, search.info, context)


def reached(recipe: Recipe, base: Graph, context: Context, memo: Memo) -> Graph:
    """What the recipe leads to; where that is not known, without its trainings, which change no layer's kind."""
    if recipe.active and recipe_key(recipe) in memo.graphs:
        return memo.graphs[prefix_keys(recipe.active)[-1]].graph
    quick = Recipe(tuple(replace(s, enabled=s.enabled and not is_lasting(s.pass_name)) for s in recipe.steps))
    return replay(base, quick, context, memo).graph


def _contents(search: Search) -> dict[str, str]:
    """Name of data → a hash of its files, where there are some."""
    from espalier.model.data.recent import content_of

    options = [search.spec.score, search.spec.finetune, *(s.options for s in search.recipe.active)]
    named = (o.get("data", "") if isinstance(o, Mapping) else getattr(o, "data", "") for o in options)
    return {n: held for n in dict.fromkeys(named) if isinstance(n, str) and (held := content_of(n))}


def _fingerprint(search: Search, space: Space) -> str:
    """Equal where trials of two searches can stand in one study: same model, recipe, space, goals and data."""
    spec = search.spec
    facts = [fingerprint(search.base), recipe_key(search.recipe), encode(space.choices), encode(spec.goals),
             spec.summed, list(spec.within), encode(spec.score), spec.train, spec.finetune,
             spec.sampler in ("cmaes", "qmc"), *([spec.begin_at] if spec.begin_at != "source" else []),
             *([held] if (held := _contents(search)) else [])]  # fmt: skip
    return xxhash.xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()
