"""Recipes as people write them: TOML or JSON, our typed form or that of a dialect; and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

from espalier.model.borders import read_json, read_toml, reading
from espalier.model.document.codec import Tagged, decode, encode
from espalier.model.document.recipe import Raw, Recipe, Step, naming_step
from espalier.model.errors import OptionsError, nearest, unknown
from espalier.model.formats.base import Format
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec
from espalier.passes.figure import BASELINES, OPENED
from espalier.passes.recipes.dialects import DIALECTS
from espalier.passes.recipes.offered import typed

Json = Any


def load_recipe(source: str | Path | Mapping[str, Any], seed: int = 0) -> Recipe:
    """A recipe from a TOML or JSON file or from a dict; raises OptionsError with the path of what is wrong.

    The caller's dict is never altered. `seed` is for steps that name none.
    """
    data = source if isinstance(source, Mapping) else read_file(Path(source))
    name = "The recipe" if isinstance(source, Mapping) else Path(source).name
    with reading(name, OptionsError, "cannot be read", "Correct what it says of its steps."):
        return _recipe(data, seed)


def _recipe(data: Mapping[str, Any], seed: int) -> Recipe:
    if "steps" not in data:
        return Recipe(tuple(s for k, v in data.items() for s in _entry(str(k), v, str(k), seed)))
    extra = [k for k in data if k != "steps"]
    if extra:
        raise OptionsError(f"{extra[0]} is not a key of a recipe.", nearest(str(extra[0]), ["steps"]))
    if not isinstance(data["steps"], list):
        raise OptionsError("steps is not a list.", "Write steps = [{pass = …, options = {…}}].")
    return Recipe(tuple(s for i, d in enumerate(cast("list[Any]", data["steps"])) for s in _step(d, i, seed)))


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """A recipe as people read it: every option with its value, formats as text; `load_recipe` reads it back."""
    return {"steps": [_readable(s) for s in recipe.steps]}


def _readable(step: Step) -> dict[str, Any]:
    options = typed(step.pass_name, step.options) if step.pass_name in PASSES else step.options
    data = options.data if isinstance(options, Raw) else readable(options)
    found: dict[str, Any] = {"pass": step.pass_name, "options": data, "seed": step.seed}
    return found if step.enabled else {**found, "enabled": False}


def readable(value: Any) -> Json:
    """Plain JSON of options in which nothing is left out but what is None by default."""
    match value:
        case Format():
            return str(value)
        case tuple() | list():
            return [readable(v) for v in cast("list[Any]", value)]
        case Mapping():
            return {str(k): readable(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            known = {f.name: (f, getattr(value, f.name)) for f in fields(value) if f.init}
            table = {n: readable(v) for n, (f, v) in known.items() if not (v is None and f.default is None)}
            return {value.tag: table} if isinstance(value, Tagged) else table
        case _:
            return encode(value)


def read_file(path: Path) -> Mapping[str, Any]:
    """The table in a TOML or JSON file; raises OptionsError."""
    with reading(
        path, OptionsError, "cannot be read", "Write TOML or JSON.", "Give the path of a TOML or JSON file.", "recipe"
    ):
        data: Any = read_json(path) if path.suffix == ".json" else read_toml(path)
    if not isinstance(data, Mapping):
        raise OptionsError(f"{path.name} holds no table.", "Write {steps = [...]} or pass names with options.")
    return cast("Mapping[str, Any]", data)


def _entry(name: str, options: Json, path: str, seed: int, enabled: bool = True) -> tuple[Step, ...]:
    """The steps for a pass name with options, in our form or in that of a dialect."""
    for _, dialect in DIALECTS.items():
        steps = dialect.steps(name, options, path)
        if steps is not None:
            return tuple(replace(s, seed=seed, enabled=enabled) for s in steps)
    if name not in PASSES:
        names = {*PASSES, *(n for _, dialect in DIALECTS.items() for n in dialect.names)}
        raise OptionsError(f"There is no pass {name!r}.", unknown(name, names))
    return (Step(name, decode_options(name, options, path), seed, enabled),)


def _step(data: Json, index: int, seed: int) -> tuple[Step, ...]:
    if not isinstance(data, Mapping):
        raise OptionsError(f"Step {index + 1} is not a table.", "Write {pass = …, options = {…}}.")
    data = cast("Mapping[str, Any]", data)
    with naming_step(index, str(data.get("pass", ""))):
        known = ("pass", "options", "seed", "enabled")
        for key in data:
            if key not in known:
                raise OptionsError(f"{key} is not a key of a step.", nearest(str(key), known))
        if "pass" not in data:
            raise OptionsError("pass is missing.", "Name the pass.")
        return _entry(
            decode(str, data["pass"], "pass"), data.get("options", {}), "options",
            decode(int, data.get("seed", seed), "seed"), decode(bool, data.get("enabled", True), "enabled"),
        )  # fmt: skip


def decode_options(name: str, data: Json, path: str = "") -> Any:
    """Typed options of pass `name` from JSON."""
    spec = PASSES.get(name)
    if not isinstance(data, Mapping):
        raise OptionsError(f"{path} is {data!r}.", "Write a table of options.")
    data = cast("Mapping[str, Any]", data)
    if getattr(spec.options, "FREE", False) and "args" not in data:
        data = {"args": dict(data)}
    _check_baseline(spec, data, path)
    return decode(spec.options, data, path)


def _check_baseline(spec: PassSpec, data: Mapping[str, Any], path: str) -> None:
    """Raise OptionsError for another name of a baseline than that of the graph which passes compare with."""
    chosen = data.get("baseline", OPENED)
    named = {f.name: f.default for f in fields(spec.options)}.get("baseline") == OPENED
    if named and chosen != OPENED:
        where = f"{path}.baseline" if path else "baseline"
        raise OptionsError(f"{where} is {chosen!r}.", f"Possible: {OPENED} ({BASELINES[OPENED]}).")
