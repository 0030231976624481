"""A search in a TOML or JSON file: the keys of a SearchSpec, and a recipe, inline or by its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from espalier.model.document.codec import decode
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError, nearest
from espalier.passes.recipes.config import read_file, readable
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.with_training import SHARED
from espalier.passes.sweep.spec import recipe_in

TEXTS = ("within", "rungs", "goals", "space")
OWN = ("recipe", "steps", "about")


def load_search(path: str | Path, seed: int = 0) -> tuple[Recipe, SearchSpec]:
    """The first steps of a search, and its specification; raises OptionsError with the path of an invalid key."""
    path = Path(path)
    recipe, spec = read_search(with_goals(read_file(path)), path.parent, seed)
    return recipe, spec if spec.study else replace(spec, study=path.stem)


def with_goals(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of a new search; without goals its goal is the main metric of the task."""
    return {"goals": "main", **data}


def read_search(data: Mapping[str, Any], folder: Path, seed: int = 0) -> tuple[Recipe, SearchSpec]:
    """The same from a table; the free text `about` is ignored."""
    keys = [*(f.name for f in fields(SearchSpec)), *OWN]
    for key in data:
        if key not in keys:
            raise OptionsError(f"{key} is not a key of a search.", nearest(str(key), keys))
    spec: SearchSpec = decode(SearchSpec, {k: _listed(k, v) for k, v in data.items() if k not in OWN})
    recipe = recipe_in(data, folder, "search", seed) if {"recipe", "steps"} & set(data) else Recipe()
    return recipe, spec


def filled(recipe: Recipe, score: EvaluateOptions) -> Recipe:
    """The recipe with the data of the score in trainings that name none, such as those of templates."""
    plain = EvaluateOptions()
    data = {n: v for n in SHARED if (v := getattr(score, n)) != getattr(plain, n)}
    steps = (
        replace(s, options=replace(s.options, **data)) if s.pass_name == "finetune" and not s.options.data else s
        for s in recipe.steps
    )
    return Recipe(tuple(steps)) if data else recipe


def search_to_dict(spec: SearchSpec) -> dict[str, Any]:
    """A search as a readable table without defaults; `read_search` reads it."""
    plain = readable(SearchSpec())
    return {k: v for k, v in readable(spec).items() if v != plain.get(k)}


def _listed(key: str, value: Any) -> Any:
    """The value with its short forms expanded: one element for a list, a figure for a goal."""
    items = cast("list[Any]", [value] if key in TEXTS and not isinstance(value, list) else value)
    match key:
        case "goals":
            return [{"figure": g} if isinstance(g, str) else g for g in items]
        case "space":
            return [_entry(e) for e in items]
        case _:
            return items


def _entry(entry: Any) -> Any:
    """A space entry with lists and single values converted to the text form of its keys."""
    if not isinstance(entry, Mapping):
        return entry
    table = dict(cast("Mapping[str, Any]", entry))
    if isinstance(table.get("ports"), str):
        table["ports"] = [p.strip() for p in table["ports"].split(",")]
    if isinstance(table.get("values"), list):
        table["values"] = ", ".join(str(v).lower() if isinstance(v, bool) else str(v) for v in table["values"])
    elif isinstance(table.get("values"), int | float):
        table["values"] = str(table["values"])
    return table
