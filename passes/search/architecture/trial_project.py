"""A trial of another architecture as a project of its own, because a recipe cannot change a model's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from espalier.model.document.project import Project
from espalier.model.errors import OptionsError
from espalier.passes.base import Context
from espalier.passes.recipes.replay import Memo, milestones, replay
from espalier.passes.search.architecture.building import Architect, Built, square
from espalier.passes.search.architecture.configuration import UNKNOWN_SOURCE
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.with_training import fitted_to


def configured(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration keys that a trial chose; empty if it keeps the model."""
    return {c.key: params[c.name] for c in space.active(params) if c.kind == "config" and c.name in params}


def source_of(search: Search, space: Space, params: Mapping[str, Any]) -> str:
    """The `config:` source of a trial's model."""
    from espalier.passes.search.architecture.configuration import origin_of

    if search.info is None:
        raise OptionsError(UNKNOWN_SOURCE, "Open it from its source.")
    return origin_of(search.info).spec(configured(space, params))


def chosen(
    search: Search, space: Space, params: Mapping[str, Any], context: Context, begins: str = "",
    memo: Memo | None = None,
) -> Project:  # fmt: skip
    """The project of a trial: its configuration, inherited weights, and its recipe replayed with trainings.

    `memo`: the trial's own results. The tensors are written to the store of `context`. Raises Impossible, and errors of
    the steps.
    """
    if search.info is None:
        raise OptionsError(UNKNOWN_SOURCE, "Open it from its source.")
    architect = Architect(search.info, search.base, context.store, search.spec.seed, search.spec.inherit)
    built = _copied(architect.build(configured(space, params)), context)
    recipe = search.recipe_of(space, params, begins)
    recipe = fitted_to(recipe, set(built.graph.nodes), square(built.graph))
    replayed = replay(built.graph, recipe, replace(built.context(context), store=context.store), memo)
    return Project(built.info, built.graph, recipe, replayed.graph, milestones=milestones(recipe, replayed.results))


def _copied(built: Built, context: Context) -> Built:
    for weight in built.graph.weights.values():
        if weight.key:
            context.store.hold(built.store.get(weight.key))
    return built
