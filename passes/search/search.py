"""A search with what it is of: the plain value that travels to the worker and to fleets."""

from __future__ import annotations

from dataclasses import dataclass

from model.graph import Graph
from model.recipe import Recipe
from passes.search.spec import SearchSpec


@dataclass(frozen=True, slots=True)
class Search:
    """`recipe`: the steps that every trial begins with, on `base`."""

    spec: SearchSpec
    recipe: Recipe
    base: Graph
