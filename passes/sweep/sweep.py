"""Sweep: a recipe, an option with a list of values (axis), variants and seeds; every point is a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.registry import PASSES
from espalier.passes.figure import OPENED, START
from espalier.passes.recipes.offered import kept, typed
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep.option_paths import Option, Path, find, rebuilt
from espalier.passes.sweep.values import value_text

MAX_POINTS = 5000


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for an option of step `step` (counted from 0); an empty path switches the step on or off."""

    step: int
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Axis:
    """An option and its values."""

    step: int
    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A line of the plot: its settings and their label."""

    label: str = ""
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """`along`: options that change together with the axis. `seeds` are added to the seeds of all steps.

    Without an axis the recipe is repeated for each variant and seed. `score` without data: static costs only.
    `baseline`: recipe of the state that points are compared with, the project's at the start of the sweep; without
    steps it is the model as opened.
    """

    recipe: Recipe
    axis: Axis | None = None
    along: tuple[Axis, ...] = ()
    variants: tuple[Variant, ...] = (Variant(),)
    seeds: tuple[int, ...] = (0,)
    score: EvaluateOptions = field(default=EvaluateOptions())
    title: str = ""
    baseline: Recipe = field(default=Recipe())

    @property
    def baseline_name(self) -> str:
        """Name of the baseline."""
        return START if self.baseline.active else OPENED

    @property
    def values(self) -> tuple[Any, ...]:
        """The axis's values; (None,) without an axis."""
        return self.axis.values if self.axis else (None,)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axis and the options along it."""
        return (self.axis, *self.along) if self.axis else ()


@dataclass(frozen=True, slots=True)
class Point:
    """One recipe to run, with the indices of its variant (−1: the baseline) and value, and its seed."""

    variant: int
    x: int
    seed: int
    recipe: Recipe


def points(sweep: Sweep) -> tuple[Point, ...]:
    """All points, the baseline first, then by seed and value; raises OptionsError.

    An invalid value is reported before anything runs, with the number of its point.
    """
    for axis in sweep.along:
        if len(axis.values) != len(sweep.values):
            raise OptionsError(
                f"{axis_name(sweep.recipe, axis)} has {len(axis.values)} values, the axis {len(sweep.values)}.",
                "Use the same number for both.",
            )
    count = len(sweep.seeds) * len(sweep.values) * len(sweep.variants)
    if not count or count > MAX_POINTS:
        raise OptionsError(f"The sweep has {count} points.", f"Choose at least 1 and at most {MAX_POINTS}.")
    return Point(-1, 0, sweep.seeds[0], sweep.baseline), *_points(sweep)


def _points(sweep: Sweep) -> Iterator[Point]:
    """Values in the outer, variants in the inner loop, so that all lines grow together."""
    recipes = {(v, x): _recipe(sweep, v, x) for x in range(len(sweep.values)) for v in range(len(sweep.variants))}
    for seed in sweep.seeds:
        for (v, x), recipe in recipes.items():
            yield Point(v, x, seed, _seeded(recipe, seed))


def _recipe(sweep: Sweep, variant: int, x: int) -> Recipe:
    settings = [*sweep.variants[variant].settings, *(Setting(a.step, a.path, a.values[x]) for a in sweep.axes)]
    number = x * len(sweep.variants) + variant + 1
    where = f"point {number} of {len(sweep.values) * len(sweep.variants)}"
    recipe = with_settings(sweep.recipe, settings, where)
    if missing := [s.pass_name for s in recipe.active if s.pass_name not in PASSES]:
        raise OptionsError(
            f"The recipe has the pass {missing[0]}, which is not available.",
            "Load its plug-in, or switch the step off.",
        )
    return recipe


def _seeded(recipe: Recipe, seed: int) -> Recipe:
    return Recipe(tuple(replace(s, seed=s.seed + seed) for s in recipe.steps)) if seed else recipe


# -- settings


def with_settings(recipe: Recipe, settings: Iterable[Setting], where: str = "") -> Recipe:
    """The recipe with these settings; raises OptionsError or FormatError with the option's name and `where`."""
    by_step: dict[int, list[Setting]] = {}
    for setting in settings:
        by_step.setdefault(setting.step, []).append(setting)
    for index, of_step in by_step.items():
        recipe = recipe.set(index, _with(step_at(recipe, index), index, recipe, of_step, where))
    return recipe


def step_at(recipe: Recipe, index: int) -> Step:
    """Step `index`; raises OptionsError if there is none."""
    if not 0 <= index < len(recipe):
        raise OptionsError(f"The recipe has no step {index + 1}.", f"It has {len(recipe)}.")
    return recipe.steps[index]


def _with(step: Step, index: int, recipe: Recipe, settings: Sequence[Setting], where: str) -> Step:
    switches = [s for s in settings if not s.path]
    if switches:
        step = replace(step, enabled=_switched(switches[-1], recipe))
    named = [s for s in settings if s.path]
    if not named:
        return step
    options, name = step_options(step), step_name(recipe, index)
    # Formats first, since their parameters are set in the new formats.
    for formats in (True, False):
        changes = _changes(options, [s for s in named], name, formats, where)
        options = rebuilt(options, changes, f"{name}, {where}" if where else name) if changes else options
    return replace(step, options=kept(options))


def _changes(options: Any, settings: list[Setting], name: str, formats: bool, where: str) -> dict[Path, Any]:
    """New values of formats, or of all other options."""
    changes: dict[Path, Any] = {}
    for setting in settings:
        for option in _matching(options, setting, name, formats):
            context = f"{name}.{setting.path}" + (f", {where}," if where else "")
            changes[option.path] = option.read(setting.value, context)
    return changes


def _matching(options: Any, setting: Setting, name: str, formats: bool) -> list[Option]:
    """The options of a setting; in the first round a parameter may not exist yet."""
    try:
        matching = find(options, setting.path, name)
    except OptionsError:
        if formats:
            return []
        raise
    return [p for p in matching if p.is_format is formats]


def _switched(setting: Setting, recipe: Recipe) -> bool:
    if not isinstance(setting.value, bool):
        name = step_name(recipe, setting.step)
        raise OptionsError(f"{name} is {value_text(setting.value)!r}.", "Use on or off.")
    return setting.value


# -- names


def step_options(step: Step) -> Any:
    """A step's options in their type; raises OptionsError for an unknown pass."""
    return typed(PASSES.get(step.pass_name).name, step.options)


def step_name(recipe: Recipe, index: int) -> str:
    """The pass's name, numbered if several steps have it: `prune`, `prune#2`; raises OptionsError without the step."""
    name = step_at(recipe, index).pass_name
    same = [i for i, s in enumerate(recipe.steps) if s.pass_name == name]
    return f"{name}#{same.index(index) + 1}" if len(same) > 1 else name


def axis_name(recipe: Recipe, axis: Axis | Setting) -> str:
    """`prune.sparsity`, or the step's name for its switch."""
    name = step_name(recipe, axis.step)
    return f"{name}.{axis.path}" if axis.path else name


def axis_title(sweep: Sweep) -> str:
    """Label of the axis: `sparsity`, `weight width`; `seed` without an axis."""
    if sweep.axis is None:
        return "seed"
    if not sweep.axis.path:
        return step_name(sweep.recipe, sweep.axis.step)
    parts = [p for p in sweep.axis.path.split(".") if not p.isdigit() and p not in ("*", "rules", "formats")]
    return " ".join(parts).replace("_", " ")


def check(sweep: Sweep) -> str:
    """The error of an invalid sweep, or an empty string."""
    try:
        points(sweep)
    except EspalierError as error:
        return str(error)
    return ""
