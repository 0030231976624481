"""A sweep of one recipe as a sweep of another."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.passes.sweep.sweep import Sweep


def transferred(sweep: Sweep, before: Recipe, recipe: Recipe) -> Sweep:
    """The sweep with `recipe` in place of `before`, the recipe of the document when it ran.

    Steps that the sweep added behind `before` are kept. An option belongs to the n-th step of its pass, in both
    recipes. Raises OptionsError where `recipe` has no such step.
    """
    count = len(before)
    added = sweep.recipe.steps[count:] if sweep.recipe.steps[:count] == before.steps else ()
    if not added and sweep.recipe != before:
        raise OptionsError("The sweep ran on a recipe of its own.", "Start it in the panel Sweeps.")
    steps = (*recipe.steps, *added)

    def moved(index: int) -> int:
        if index >= count:
            return index - count + len(recipe)
        name = sweep.recipe.steps[index].pass_name
        place = _places(sweep.recipe.steps, name).index(index)
        found = _places(recipe.steps, name)
        if place >= len(found):
            raise OptionsError(f"The recipe has no step {name!r} to vary.", "Add it, or start another sweep.")
        return found[place]

    return replace(
        sweep, recipe=Recipe(steps), axis=sweep.axis and replace(sweep.axis, step=moved(sweep.axis.step)),
        along=tuple(replace(a, step=moved(a.step)) for a in sweep.along),
        variants=tuple(replace(v, settings=tuple(replace(s, step=moved(s.step)) for s in v.settings))
                       for v in sweep.variants),
        baseline=recipe if sweep.baseline == before else sweep.baseline,
    )  # fmt: skip


def _places(steps: tuple[Step, ...], name: str) -> list[int]:
    return [i for i, step in enumerate(steps) if step.pass_name == name]
