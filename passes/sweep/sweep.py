"""What a sweep is: a recipe, an option that moves along a list of values, variants of the rest, and seeds.

Every point is a recipe of its own.
"""

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
from espalier.passes.sweep.places import Path, Place, find, rebuilt
from espalier.passes.sweep.values import value_text

MOST = 5000  # points; a sweep of more is a slip


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for an option of step `step` (counted from 0); an empty path switches the step on or off."""

    step: int
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Axis:
    """An option and the values that it takes in turn."""

    step: int
    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A line of the plot: what is set apart from the recipe, and what that is called."""

    label: str = ""
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """`along` moves with the axis, value by value. `seeds` are added to the seeds of all steps.

    Without an axis the recipe is repeated as it is, once for each variant and seed. `score` without data: sizes alone.
    `baseline`: the recipe of the state that points are compared with, the project's where the sweep begins; without a
    step it is the model as opened.
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
        """What the baseline is called."""
        return START if self.baseline.active else OPENED

    @property
    def values(self) -> tuple[Any, ...]:
        """What the axis takes; one nothing where there is none."""
        return self.axis.values if self.axis else (None,)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axis and what moves along with it."""
        return (self.axis, *self.along) if self.axis else ()


@dataclass(frozen=True, slots=True)
class Point:
    """One recipe to run: of which variant (−1: the baseline), which value, which seed."""

    variant: int
    x: int
    seed: int
    recipe: Recipe


def points(sweep: Sweep) -> tuple[Point, ...]:
    """All points, the baseline first, then seed by seed from the first value on; raises OptionsError.

    An impossible value is told before anything runs, with the number of its point.
    """
    for axis in sweep.along:
        if len(axis.values) != len(sweep.values):
            raise OptionsError(
                f"{axis_name(sweep.recipe, axis)} has {len(axis.values)} values, the axis {len(sweep.values)}.",
                "Give both as many.",
            )
    count = len(sweep.seeds) * len(sweep.values) * len(sweep.variants)
    if not count or count > MOST:
        raise OptionsError(f"The sweep has {count} points.", f"Ask for at least one and at most {MOST}.")
    return Point(-1, 0, sweep.seeds[0], sweep.baseline), *_points(sweep)


def _points(sweep: Sweep) -> Iterator[Point]:
    """Values outside, variants inside: lines grow together, and steps that they share run once."""
    made = {(v, x): _made(sweep, v, x) for x in range(len(sweep.values)) for v in range(len(sweep.variants))}
    for seed in sweep.seeds:
        for (v, x), recipe in made.items():
            yield Point(v, x, seed, _seeded(recipe, seed))


def _made(sweep: Sweep, variant: int, x: int) -> Recipe:
    settings = [*sweep.variants[variant].settings, *(Setting(a.step, a.path, a.values[x]) for a in sweep.axes)]
    number = x * len(sweep.variants) + variant + 1
    where = f"point {number} of {len(sweep.values) * len(sweep.variants)}"
    recipe = with_settings(sweep.recipe, settings, where)
    if missing := [s.pass_name for s in recipe.active if s.pass_name not in PASSES]:
        raise OptionsError(
            f"The recipe has the pass {missing[0]}, which is not available.",
            "Open the plug-in that has it, or switch the step off.",
        )
    return recipe


def _seeded(recipe: Recipe, seed: int) -> Recipe:
    return Recipe(tuple(replace(s, seed=s.seed + seed) for s in recipe.steps)) if seed else recipe


# -- one recipe with other values


def with_settings(recipe: Recipe, settings: Iterable[Setting], where: str = "") -> Recipe:
    """The recipe with these options; raises OptionsError or FormatError, naming the option and `where` it stands."""
    by_step: dict[int, list[Setting]] = {}
    for setting in settings:
        by_step.setdefault(setting.step, []).append(setting)
    for index, wished in by_step.items():
        recipe = recipe.set(index, _with(step_at(recipe, index), index, recipe, wished, where))
    return recipe


def step_at(recipe: Recipe, index: int) -> Step:
    """Step `index`; raises OptionsError where there is none."""
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
    # Formats first: their parameters are set in what they have become, all of them at once.
    for whole in (True, False):
        changes = _changes(options, [s for s in named], name, whole, where)
        options = rebuilt(options, changes, f"{name}, {where}" if where else name) if changes else options
    return replace(step, options=kept(options))


def _changes(options: Any, settings: list[Setting], name: str, whole: bool, where: str) -> dict[Path, Any]:
    """What is to be set: formats as a whole, or all that is none."""
    changes: dict[Path, Any] = {}
    for setting in settings:
        for place in _meant(options, setting, name, whole):
            told = f"{name}.{setting.path}" + (f", {where}," if where else "")
            changes[place.path] = place.read(setting.value, told)
    return changes


def _meant(options: Any, setting: Setting, name: str, whole: bool) -> list[Place]:
    """The places of a setting; in the first round what is not there yet is no mistake."""
    try:
        found = find(options, setting.path, name)
    except OptionsError:
        if whole:
            return []
        raise
    return [p for p in found if p.is_format is whole]


def _switched(setting: Setting, recipe: Recipe) -> bool:
    if not isinstance(setting.value, bool):
        name = step_name(recipe, setting.step)
        raise OptionsError(f"{name} is {value_text(setting.value)!r}.", "A step is on or off.")
    return setting.value


# -- names


def step_options(step: Step) -> Any:
    """A step's options in their own type; raises OptionsError for a pass that is not here."""
    return typed(PASSES.get(step.pass_name).name, step.options)


def step_name(recipe: Recipe, index: int) -> str:
    """The pass's name, with its number among steps of that name where there are several: `prune`, `prune#2`."""
    name = recipe.steps[index].pass_name
    same = [i for i, s in enumerate(recipe.steps) if s.pass_name == name]
    return f"{name}#{same.index(index) + 1}" if len(same) > 1 else name


def axis_name(recipe: Recipe, axis: Axis | Setting) -> str:
    """`prune.sparsity`, or the step's name alone where it is switched."""
    name = step_name(recipe, axis.step)
    return f"{name}.{axis.path}" if axis.path else name


def axis_title(sweep: Sweep) -> str:
    """The axis in words: `sparsity`, `weight width`; `seed` where there is none."""
    if sweep.axis is None:
        return "seed"
    if not sweep.axis.path:
        return step_name(sweep.recipe, sweep.axis.step)
    parts = [p for p in sweep.axis.path.split(".") if not p.isdigit() and p not in ("*", "rules", "formats")]
    return " ".join(parts).replace("_", " ")


def check(sweep: Sweep) -> str:
    """Why the sweep cannot run, in a sentence; empty when it can."""
    try:
        points(sweep)
    except EspalierError as error:
        return str(error)
    return ""
