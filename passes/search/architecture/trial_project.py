"""A trial of another architecture as a project of its own: a recipe cannot turn one model into another's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from espalier.model.document.project import Project
from espalier.model.errors import OptionsError
from espalier.passes.base import Context
from espalier.passes.recipes.replay import Memo, milestones, replay
from espalier.passes.search.architecture.building import Architect, Built, square
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.with_training import fitted_to


def configured(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the configuration that a trial chose; empty where it keeps the model."""
    return {c.key: params[c.name] for c in space.active(params) if c.kind == "config" and c.name in params}


def source_of(search: Search, space: Space, params: Mapping[str, Any]) -> str:
    """The `config:` source of a trial's model."""
    from espalier.passes.search.architecture.configuration import origin_of

    if search.info is None:
        raise OptionsError("Where the model came from is not known, so no other can be built.", "Open its source.")
    return origin_of(search.info).spec(configured(space, params))


def chosen(
    search: Search, space: Space, params: Mapping[str, Any], context: Context, begins: str = "",
    memo: Memo | None = None,
) -> Project:  # fmt: skip
    """The project of a trial: its configuration, inherited weights, and its recipe run, trainings too, as in the trial.

    `memo`: what the trial itself made. Its tensors are put into the store of `context`. Raises Impossible, and what a
    step raises.
    """
    if search.info is None:
        raise OptionsError("Where the model came from is not known, so no other can be built.", "Open its source.")
    architect = Architect(search.info, search.base, context.store, search.spec.seed, search.spec.inherit)
    built = _held(architect.build(configured(space, params)), context)
    recipe = search.recipe_of(space, params, begins)
    recipe = fitted_to(recipe, set(built.graph.nodes), square(built.graph))
    done = replay(built.graph, recipe, replace(built.context(context), store=context.store), memo)
    return Project(built.info, built.graph, recipe, done.graph, milestones=milestones(recipe, done.results))


def _held(built: Built, context: Context) -> Built:
    for weight in built.graph.weights.values():
        if weight.key:
            context.store.hold(built.store.get(weight.key))
    return built
