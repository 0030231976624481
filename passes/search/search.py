"""A search with its model: the plain value that is sent to workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.passes.search.inherited_weights import with_initial_weights
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.with_training import with_training


@dataclass(frozen=True, slots=True)
class Search:
    """`recipe`: the first steps of every trial, on `base`. `info`: the model's source, for other configurations."""

    spec: SearchSpec
    recipe: Recipe
    base: Graph
    info: SourceInfo | None = None

    def recipe_of(self, space: Space, params: Mapping[str, Any], begins: str = "") -> Recipe:
        """The recipe of a trial, as measured and as applied. Raises OptionsError.

        `begins`: file of another trial's model whose weights it inherited.
        """
        return with_initial_weights(with_training(self.spec, space.apply(self.recipe, params)), begins)
