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
    """The steps that a search begins with, and the search; raises OptionsError with the path of what is wrong."""
    path = Path(path)
    recipe, spec = read_search(read_file(path), path.parent, seed)
    return recipe, spec if spec.study else replace(spec, study=path.stem)


def read_search(data: Mapping[str, Any], folder: Path, seed: int = 0) -> tuple[Recipe, SearchSpec]:
    """The same of a table; `about`, a text for people, is passed over."""
    known = [*(f.name for f in fields(SearchSpec)), *OWN]
    for key in data:
        if key not in known:
            raise OptionsError(f"{key} is not a key of a search.", nearest(str(key), known))
    spec: SearchSpec = decode(SearchSpec, {k: _listed(k, v) for k, v in data.items() if k not in OWN})
    recipe = recipe_in(data, folder, "search", seed) if {"recipe", "steps"} & set(data) else Recipe()
    return recipe, spec


def filled(recipe: Recipe, score: EvaluateOptions) -> Recipe:
    """The recipe with the data of the score where a training names none: templates are of any model's data."""
    plain = EvaluateOptions()
    own = {n: v for n in SHARED if (v := getattr(score, n)) != getattr(plain, n)}
    steps = (
        replace(s, options=replace(s.options, **own)) if s.pass_name == "finetune" and not s.options.data else s
        for s in recipe.steps
    )
    return Recipe(tuple(steps)) if own else recipe


def search_to_dict(spec: SearchSpec) -> dict[str, Any]:
    """A search as people read it, without what is as by default; `read_search` reads it back."""
    plain = readable(SearchSpec())
    return {k: v for k, v in readable(spec).items() if v != plain.get(k)}


def _listed(key: str, value: Any) -> Any:
    """One will do where a list may stand; a goal may be its figure alone, ports one text."""
    held = cast("list[Any]", [value] if key in TEXTS and not isinstance(value, list) else value)
    match key:
        case "goals":
            return [{"figure": g} if isinstance(g, str) else g for g in held]
        case "space":
            return [_entry(e) for e in held]
        case _:
            return held


def _entry(entry: Any) -> Any:
    """An entry in which lists and single values may stand for texts."""
    if not isinstance(entry, Mapping):
        return entry
    found = dict(cast("Mapping[str, Any]", entry))
    if isinstance(found.get("ports"), str):
        found["ports"] = [p.strip() for p in found["ports"].split(",")]
    if isinstance(found.get("values"), list):
        found["values"] = ", ".join(str(v).lower() if isinstance(v, bool) else str(v) for v in found["values"])
    elif isinstance(found.get("values"), int | float):
        found["values"] = str(found["values"])
    return found
