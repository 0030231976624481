"""A sweep in a TOML or JSON file: a recipe, inline or by its path, and over, along, variants, seeds, score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from espalier.model.document.codec import decode
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError, nearest
from espalier.passes.recipes.config import load_recipe, read_file
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep.sweep import Sweep
from espalier.passes.sweep.text import parse_axis, parse_variants

MARKS = ("over", "along", "variants", "seeds", "score")
KEYS = ("recipe", "steps", "title", *MARKS)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be varied, as people write it; `seeds`: how many. `score`: options that say on what."""

    over: str = ""
    along: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    seeds: int = 1
    score: EvaluateOptions | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= 1000:
            raise OptionsError(f"seeds is {self.seeds}.", "It must be a whole number from 1 to 1000.")

    @property
    def varies(self) -> bool:
        """Whether there is more than one thing to run."""
        return bool(self.over or self.variants or self.seeds > 1)


def load_wish(path: str | Path, seed: int = 0) -> tuple[Recipe, Wish]:
    """The recipe in a file, and what the file says of a sweep; raises OptionsError with the path of what is wrong."""
    path = Path(path)
    data = read_file(path)
    if not any(k in data for k in MARKS):
        return load_recipe(data, seed), Wish()
    for key in data:
        if key not in KEYS:
            raise OptionsError(f"{key} is not a key of a sweep.", nearest(key, KEYS))
    wish = decode(Wish, {k: _listed(k, v) for k, v in data.items() if k not in ("recipe", "steps")})
    return recipe_in(data, path.parent, "sweep", seed), wish


def _listed(key: str, value: Any) -> Any:
    """One text will do where a list may stand."""
    return [value] if key in ("along", "variants") and isinstance(value, str) else value


def recipe_in(data: Mapping[str, Any], folder: Path, of: str, seed: int = 0) -> Recipe:
    """The recipe of a sweep or a search (`of`): by its path, inline, or as [[steps]]; raises OptionsError."""
    match data.get("recipe"):
        case str(name) if "steps" not in data:
            return load_recipe(folder / name, seed)
        case Mapping() as inner if "steps" not in data:
            return load_recipe(cast("Mapping[str, Any]", inner), seed)
        case None if "steps" in data:
            return load_recipe({"steps": data["steps"]}, seed)
        case _:
            raise OptionsError(f"The {of} has no recipe, or two.", 'Write recipe = "recipe.toml", or [[steps]].')


def made(recipe: Recipe, wish: Wish, score: EvaluateOptions | None, first: int = 0) -> Sweep:
    """The sweep that is wished for; raises OptionsError. `first`: the steps before it are the project's own."""
    if wish.along and not wish.over:
        raise OptionsError("There is nothing to go along with.", "Say what the sweep is over.")
    return Sweep(
        recipe,
        parse_axis(recipe, wish.over, first) if wish.over else None,
        tuple(parse_axis(recipe, text, first, once=False) for text in wish.along),
        parse_variants(recipe, wish.variants, first),
        tuple(range(wish.seeds)),
        score or EvaluateOptions(),
        wish.title,
    )


def joined(wish: Wish, **given: Any) -> Wish:
    """The wish with what was given besides in place of its own."""
    return replace(wish, **{k: v for k, v in given.items() if v})
