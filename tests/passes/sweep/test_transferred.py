"""A sweep moved to another recipe varies the same option of the same step."""

from __future__ import annotations

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.passes.base import NoOptions
from espalier.passes.choices.freeze import FreezeOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.sweep.sweep import Axis, Setting, Sweep, Variant, points
from espalier.passes.sweep.transferred import transferred

DROPOUT, OTHER = Step("remove_dropout", NoOptions()), Step("freeze", FreezeOptions())


def prune(ratio: float) -> Step:
    return Step("prune", PruneOptions(sparsity=ratio))


def test_the_option_follows_its_step() -> None:
    """Of two steps of a pass the second stays the second, where steps were added before them."""
    before = Recipe((prune(0.1), prune(0.2)))
    sweep = Sweep(before, Axis(1, "sparsity", (0.3, 0.5)), (Axis(0, "sparsity", (0.1, 0.2)),),
                  (Variant("off", (Setting(0, "", False),)),), baseline=before)  # fmt: skip
    now = Recipe((DROPOUT, prune(0.1), OTHER, prune(0.7)))
    moved = transferred(sweep, before, now)
    assert moved.recipe == now and moved.axis is not None and moved.axis.step == 3
    assert moved.along[0].step == 1 and moved.variants[0].settings[0].step == 1
    assert moved.baseline == now
    ratios = [p.recipe.steps[3].options.sparsity for p in points(moved) if p.variant >= 0]
    assert ratios == [0.3, 0.5]


def test_the_same_recipe_gives_the_same_sweep() -> None:
    before = Recipe((prune(0.1),))
    sweep = Sweep(before, Axis(0, "sparsity", (0.3, 0.5)))
    assert transferred(sweep, before, before) == sweep


def test_steps_of_the_sweep_itself_stay_behind_the_recipe() -> None:
    before = Recipe((DROPOUT,))
    sweep = Sweep(before.append(prune(0.1)), Axis(1, "sparsity", (0.3, 0.5)), baseline=before)
    moved = transferred(sweep, before, Recipe())
    assert moved.recipe == Recipe((prune(0.1),)) and moved.axis == Axis(0, "sparsity", (0.3, 0.5))


def test_a_recipe_without_the_step_is_refused() -> None:
    before = Recipe((DROPOUT, prune(0.1)))
    sweep = Sweep(before, Axis(1, "sparsity", (0.3,)))
    with pytest.raises(OptionsError, match="no step 'prune'"):
        transferred(sweep, before, Recipe((DROPOUT,)))


def test_a_sweep_of_another_recipe_is_refused() -> None:
    with pytest.raises(OptionsError, match="a recipe of its own"):
        transferred(Sweep(Recipe((prune(0.1),)), Axis(0, "sparsity", (0.3,))), Recipe((DROPOUT,)), Recipe())
