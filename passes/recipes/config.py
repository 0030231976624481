"""Recipes as people write them: TOML or JSON, our own typed form or the labs' dicts; and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

from espalier.model.borders import read_json, read_toml, reading
from espalier.model.document.codec import Tagged, decode, encode, join
from espalier.model.document.recipe import Raw, Recipe, Step, naming_step
from espalier.model.errors import OptionsError, nearest
from espalier.model.formats.base import Format
from espalier.model.registry import PASSES
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.lab_formats import lab_formats
from espalier.passes.recipes.lab_passes import NOTHING, lab_options, pass_of
from espalier.passes.recipes.lab_pruning import lab_activations, lab_prune
from espalier.passes.recipes.offered import typed
from espalier.passes.select import Select

Json = Any
LAB_BY = ("type", "name", "regex", "regex_name", "module")


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
        return Recipe(tuple(s for k, v in data.items() for s in _named(str(k), v, seed)))
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


def _named(name: str, options: Json, seed: int) -> tuple[Step, ...]:
    if name in NOTHING:
        return ()
    name, options, path = pass_of(name), lab_options(name, options), name
    return _with_activations(Step(name, decode_options(name, options, path), seed), options, path)


def _with_activations(step: Step, options: Json, path: str) -> tuple[Step, ...]:
    """A step; the labs' pruning is two where it prunes activations."""
    if step.pass_name != "prune" or not _is_lab_form("prune", options):
        return (step,)
    found = lab_activations(options, path)
    if found is None:
        return (step,)
    activations = replace(step, pass_name="prune_activations", options=found)
    return (step, activations) if "weight" in options else (activations,)


def _step(data: Json, index: int, seed: int) -> tuple[Step, ...]:
    if not isinstance(data, Mapping):
        raise OptionsError(f"Step {index + 1} is not a table.", "Write {pass = …, options = {…}}.")
    data = cast("Mapping[str, Any]", data)
    with naming_step(index, str(data.get("pass", ""))):
        return _decode_step(data, seed)


def _decode_step(data: Mapping[str, Any], seed: int) -> tuple[Step, ...]:
    known = ("pass", "options", "seed", "enabled")
    for key in data:
        if key not in known:
            raise OptionsError(f"{key} is not a key of a step.", nearest(str(key), known))
    if "pass" not in data:
        raise OptionsError("pass is missing.", "Name the pass.")
    wish: str = decode(str, data["pass"], "pass")
    if wish in NOTHING:
        return ()
    name, given = pass_of(wish), lab_options(wish, data.get("options", {}))
    options = decode_options(name, given, "options")
    step = Step(name, options, decode(int, data.get("seed", seed), "seed"),
                decode(bool, data.get("enabled", True), "enabled"))  # fmt: skip
    return _with_activations(step, given, "options")


def decode_options(name: str, data: Json, path: str = "") -> Any:
    """Typed options of pass `name` from JSON in our form or the labs'."""
    spec = PASSES.get(name)
    if not isinstance(data, Mapping):
        raise OptionsError(f"{path} is {data!r}.", "Write a table of options.")
    lab: Callable[[Mapping[str, Any], str], Any] | None = _LAB_FORMS.get(name)
    if lab and _is_lab_form(name, cast("Mapping[str, Any]", data)):
        return lab(cast("Mapping[str, Any]", data), path)
    if getattr(spec.options, "FREE", False) and "args" not in data:
        data = {"args": dict(cast("Mapping[str, Any]", data))}
    return decode(spec.options, data, path)


def _is_lab_form(name: str, data: Mapping[str, Any]) -> bool:
    return "by" in data if name == "quantize" else "weight" in data or "activation" in data


# -- the labs' quantize dict


def _lab_quantize(data: Mapping[str, Any], path: str) -> QuantizeOptions:
    by = data["by"]
    if by not in LAB_BY:
        raise OptionsError(f"{join(path, 'by')} is {by!r}.", nearest(str(by), LAB_BY))
    by = "regex" if by == "regex_name" else by
    others = [k for k in data if k not in ("by", "default") and (k, type(data[k])) != ("report", bool)]
    rules = [_lab_rule(Select(by, (k,)), data[k], join(path, k)) for k in others]
    default = _lab_rule(Select("all"), data.get("default", {}), join(path, "default"))
    # A default of None leaves what is not named alone; a named None sets it back to float.
    kept = [default] if default and any(default.formats.values()) else []
    return QuantizeOptions((*kept, *(r for r in rules if r is not None)))


def _lab_rule(select: Select, entry: Json, path: str) -> Rule | None:
    if not isinstance(entry, Mapping):
        raise OptionsError(f"{path} is {entry!r}.", "Write {config = {name = …}}.")
    entry = cast("Mapping[str, Any]", entry)
    for key in entry:
        if key != "config" and ("config" in entry or "name" not in entry):
            raise OptionsError(f"{join(path, str(key))} is not an option.", nearest(str(key), ["config", "name"]))
    config = entry.get("config", entry)
    if not isinstance(config, Mapping):
        raise OptionsError(f"{join(path, 'config')} is {config!r}.", "Write a table.")
    where = join(path, "config") if "config" in entry else path
    formats = lab_formats(cast("Mapping[str, Any]", config), where)
    if not formats:
        return None
    return Rule(select, formats)


_LAB_FORMS: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "quantize": _lab_quantize,
    "prune": lab_prune,
}
