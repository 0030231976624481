"""Sweep files in TOML or JSON: a recipe, inline or by path, and over, along, variants, seeds, score."""

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
from espalier.passes.sweep.spec_text import parse_axis, parse_variants
from espalier.passes.sweep.sweep import Sweep

MARKS = ("over", "along", "variants", "seeds", "score")
KEYS = ("recipe", "steps", "title", *MARKS)


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A sweep's specification as text; `seeds`: number of seeds. `score`: options of the evaluation."""

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
        """Whether there is more than one point."""
        return bool(self.over or self.variants or self.seeds > 1)


def load_spec(path: str | Path, seed: int = 0) -> tuple[Recipe, SweepSpec]:
    """Read (recipe, sweep specification) from a file; raises OptionsError with the path of the error."""
    path = Path(path)
    data = read_file(path)
    if not any(k in data for k in MARKS):
        return load_recipe(data, seed), SweepSpec()
    for key in data:
        if key not in KEYS:
            raise OptionsError(f"{key} is not a key of a sweep.", nearest(key, KEYS))
    spec = decode(SweepSpec, {k: _listed(k, v) for k, v in data.items() if k not in ("recipe", "steps")})
    return recipe_in(data, path.parent, "sweep", seed), spec


def _listed(key: str, value: Any) -> Any:
    """Convert a single text to a list."""
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


def build_sweep(recipe: Recipe, spec: SweepSpec, score: EvaluateOptions | None, first: int = 0) -> Sweep:
    """Build the sweep of a specification; raises OptionsError. `first`: the first step that is not the project's."""
    if spec.along and not spec.over:
        raise OptionsError("along needs an axis.", "Name the option to sweep over.")
    return Sweep(
        recipe,
        parse_axis(recipe, spec.over, first) if spec.over else None,
        tuple(parse_axis(recipe, text, first, once=False) for text in spec.along),
        parse_variants(recipe, spec.variants, first),
        tuple(range(spec.seeds)),
        score or EvaluateOptions(),
        spec.title,
    )


def with_overrides(spec: SweepSpec, **given: Any) -> SweepSpec:
    """The specification with the given non-empty values."""
    return replace(spec, **{k: v for k, v in given.items() if v})
