"""A search with what it is of: the plain value that travels to the worker and to fleets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.passes.search.inherited_weights import beginning
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.with_training import with_training


@dataclass(frozen=True, slots=True)
class Search:
    """`recipe`: the steps that every trial begins with, on `base`. `info`: its source, for other configurations."""

    spec: SearchSpec
    recipe: Recipe
    base: Graph
    info: SourceInfo | None = None

    def recipe_of(self, space: Space, params: Mapping[str, Any], begins: str = "") -> Recipe:
        """The recipe of a trial: what is measured, and what the window applies. Raises OptionsError.

        `begins`: the model at whose weights it began, where those are another trial's.
        """
        return beginning(with_training(self.spec, space.apply(self.recipe, params)), begins)
