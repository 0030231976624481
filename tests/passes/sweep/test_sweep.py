"""Sweeps as values: lists of values, options by their paths, variants, points; and what is told of mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.formats.integer import Integer
from espalier.passes.recipes.config import load_recipe
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep.example import example
from espalier.passes.sweep.option_paths import list_options
from espalier.passes.sweep.spec_text import parse_axis, parse_variants
from espalier.passes.sweep.sweep import Axis, Setting, Sweep, axis_title, points, with_settings
from espalier.passes.sweep.values import parse_values, values_text
from espalier.passes.sweep.variable_options import offer_for, offers, suggested_lines, usual_axis
from tests.model.zoo import case

LABS = {
    "quantize_transform_pass": {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8,
                              "weight_frac_width": 4, "bias_width": 8, "bias_frac_width": 4}},
    },
    "prune_transform_pass": {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}},
    "finetune": {"data": "demo:reviews"},
}  # fmt: skip


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe(LABS)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("4:32:4", (4, 8, 12, 16, 20, 24, 28, 32)),
        ("0.1:0.9:0.1", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
        ("4, 8, 12…32", (4, 8, 12, 16, 20, 24, 28, 32)),
        ("4, 8, …, 20", (4, 8, 12, 16, 20)),
        ("0.5,0.6...0.8", (0.5, 0.6, 0.7, 0.8)),
        ("1…4", (1, 2, 3, 4)),
        ("8:2:-2", (8, 6, 4, 2)),
        ("1:2:0.5", (1.0, 1.5, 2.0)),
        ("−1, 1e-4", (-1, 1e-4)),
        ("l1, random", ("l1", "random")),
        ("on, off", (True, False)),
        ("integer(width=8, frac_width=4), mxint, float", ("integer(width=8, frac_width=4)", "mxint", "float")),
        ("3, 3, 2", (3, 2)),
    ],
)
def test_lists_of_values(text: str, values: tuple[Any, ...]) -> None:
    found = parse_values(text)
    assert found == values and [type(v) for v in found] == [type(v) for v in values]
    assert parse_values(values_text(found)) == found


@pytest.mark.parametrize("text", ["", " , ", "4:3:1", "4:8:0", "1:2:3:4", "4…", "1:x", "0:1:0.0001", "0:nan"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse_values(text)
    assert error.value.hint


def test_a_short_name_means_all_that_are_called_so(recipe: Recipe) -> None:
    done = with_settings(recipe, [Setting(0, "width", 4), Setting(0, "weight.frac_width", 2)])
    formats = done.steps[0].options.rules[0].formats
    assert formats == {"data_in": Integer(4, 4), "weight": Integer(4, 2), "bias": Integer(4, 4)}
    one = with_settings(recipe, [Setting(0, "rules.0.formats.bias.width", 16)]).steps[0].options.rules[0].formats
    assert one["bias"] == Integer(16, 4) and one["weight"] == Integer(8, 4)
    starred = with_settings(recipe, [Setting(0, "rules.*.formats.*.width", 3)]).steps[0].options.rules[0].formats
    assert {f.width for f in starred.values()} == {3}


def test_formats_are_set_before_their_parameters(recipe: Recipe) -> None:
    done = with_settings(recipe, [Setting(0, "weight.block", 16), Setting(0, "weight", "mxint")])
    formats = done.steps[0].options.rules[0].formats
    assert formats["weight"].name == "mxint" and formats["weight"].block == 16
    assert with_settings(recipe, [Setting(0, "weight", "float")]).steps[0].options.rules[0].formats["weight"] is None


def test_the_recipe_itself_stays(recipe: Recipe) -> None:
    before = load_recipe(LABS)
    with_settings(recipe, [Setting(1, "sparsity", 0.1), Setting(2, "", False)])
    assert recipe == before


def test_every_option_has_a_place(recipe: Recipe) -> None:
    names = {p.name for p in list_options(recipe.steps[0].options)}
    assert {"rules.0.formats.weight", "rules.0.formats.weight.width", "rules.0.gradient"} <= names
    assert not any("select" in n for n in names)
    epochs = next(p for p in list_options(recipe.steps[2].options) if p.name == "epochs")
    assert epochs.kind is float and epochs.metadata["max"] == 1000.0
    method = next(p for p in list_options(recipe.steps[1].options) if p.name == "method")
    assert {"l1", "random"} <= set(method.choices)


def test_variants_are_the_product_of_their_values(recipe: Recipe) -> None:
    axis = parse_axis(recipe, "prune.sparsity=0.1:0.9:0.1")
    variants = parse_variants(recipe, ["prune.method=l1,random", "finetune=on,off"])
    sweep = Sweep(recipe, axis, variants=variants, seeds=(0, 1, 2))
    found = points(sweep)
    assert len(found) == 1 + 9 * 4 * 3 and axis_title(sweep) == "sparsity"
    assert [v.label for v in variants] == [
        "l1 · with finetune", "l1 · without finetune", "random · with finetune", "random · without finetune"
    ]  # fmt: skip
    assert found[0].variant == -1 and not found[0].recipe.steps
    last = found[-1].recipe
    assert last.steps[1].options.sparsity == 0.9 and last.steps[1].options.method == "random"
    assert not last.steps[2].enabled and {s.seed for s in last.steps} == {2}
    assert len({repr(p.recipe) for p in found}) == len(found)


def test_an_axis_takes_others_along(recipe: Recipe) -> None:
    """Fraction bits against accuracy, with as many integer bits."""
    axis = parse_axis(recipe, "quantize.frac_width=1:3")
    along = parse_axis(recipe, "quantize.width=5:7", once=False)
    found = points(Sweep(recipe, axis, (along,)))[1:]
    weights = [p.recipe.steps[0].options.rules[0].formats["weight"] for p in found]
    assert weights == [Integer(5, 1), Integer(6, 2), Integer(7, 3)]
    with pytest.raises(OptionsError, match=r"quantize\.width has 1 values, the axis 3"):
        points(Sweep(recipe, axis, (Axis(0, "width", (5,)),)))
    with pytest.raises(OptionsError, match="has no step 9"):
        points(Sweep(recipe, axis, (Axis(8, "width", (5,)),)))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("quantize.widht=4", "quantize has no option 'widht'", "'width'"),
        ("quantize.wieght.width=4", "quantize has no option 'wieght.width'", "weight"),
        ("qantize.width=4", "no step 'qantize'", "'quantize'"),
        ("9.width=4", "no step '9'", "quantize"),
        ("prune.sparsity", "has no values", "step.option=values"),
        ("prune.sparsity=", "has no values", "step.option=values"),
        ("prune.sparsity=0.5, 1.5", r"prune\.sparsity, point 2 of 2, is 1\.5", "from 0 to 1"),
        ("prune.method=l1, l9", r"prune\.method, point 2 of 2, is 'l9'", "Did you mean 'l2'"),
        ("prune.sparsity=l1", r"prune\.sparsity, point 1 of 1, is 'l1'", "a number"),
        ("quantize.width=31:33", r"quantize, point 3 of 3: integer: width is 33", "from 1 to 32"),
        ("quantize.weight=intger", "intger", "integer"),
        ("quantize.weight.width=4.5", r"width.* is 4\.5", "whole number"),
        ("finetune=1", "finetune is '1'", "on or off"),
        ("finetune.epochs=0", r"finetune.epochs.* is 0", "0.01"),
    ],
)
def test_mistakes_name_the_option_the_range_and_the_point(recipe: Recipe, text: str, message: str, hint: str) -> None:
    with pytest.raises(EspalierError, match=message) as error:
        points(Sweep(recipe, parse_axis(recipe, text)))
    assert hint in error.value.hint


def test_steps_of_one_name_are_told_apart() -> None:
    recipe = load_recipe({"steps": [{"pass": "prune"}, {"pass": "remove_dropout"}, {"pass": "prune"}]})
    with pytest.raises(OptionsError, match="2 steps prune"):
        parse_axis(recipe, "prune.sparsity=0.5")
    assert parse_axis(recipe, "prune#2.sparsity=0.5").step == 2
    assert parse_axis(recipe, "3.sparsity=0.5").step == 2
    assert parse_axis(recipe, "prune.sparsity=0.5", first=1).step == 2  # the recipe that was given, not the project's
    with pytest.raises(OptionsError, match="no prune#3"):
        parse_axis(recipe, "prune#3.sparsity=0.5")
    with pytest.raises(OptionsError, match="no steps"):
        parse_axis(Recipe(), "prune.sparsity=0.5")


def test_offers_have_values_that_are_possible(recipe: Recipe) -> None:
    found = {o.path: o for o in offers(recipe, 0)}
    assert found["width"].label == "width (all)" and found["rules.0.formats.weight.width"].label == "weight width"
    assert "mxint" in found["rules.0.formats.weight"].values and found[""].values == "on, off"
    assert {o.path for o in offers(recipe, 1)} >= {"sparsity", "method", "scope"}
    method = next(o for o in offers(recipe, 1) if o.path == "method")
    assert method.values == "l1, random"
    for index in range(len(recipe)):
        for offer in offers(recipe, index):
            points(Sweep(recipe, Axis(index, offer.path, parse_values(offer.values))))
    assert not any(o.path in ("data", "text", "label") for o in offers(recipe, 2))


def test_what_is_usually_varied(recipe: Recipe) -> None:
    usual = usual_axis(recipe)
    assert usual and (usual.step, usual.path) == (1, "sparsity")  # not the training that comes after
    assert usual_axis(Recipe()) is None
    words = [w for w, _ in suggested_lines(recipe, Axis(1, "method", ()))]
    assert "with and without fine-tune" in words and "each method of prune" not in words
    with_rules = offer_for(recipe, 0, "rules.formats.weight.frac_width")
    assert with_rules and with_rules.path == "rules.0.formats.weight.frac_width"
    every = offer_for(recipe, 0, "formats.width")
    assert every and every.label == "width (all)" and offer_for(recipe, 0, "nothing") is None


def test_the_example_runs_on_any_model_with_layers() -> None:
    made = example(Recipe(), case("mlp").graph, EvaluateOptions())
    weights = [p.recipe.steps[0].options.rules[0].formats["weight"] for p in points(made)[1:]]
    assert weights[0] == Integer(2, 1) and weights[-1] == Integer(16, 15) and not axis_title(made).endswith(".")


def test_a_pass_that_is_not_here_is_told_before_anything_runs(recipe: Recipe) -> None:
    plugged = Step("from_a_plugin", Raw({"times": 4}))
    axis = Axis(1, "", (False, True))
    with pytest.raises(OptionsError, match="the pass from_a_plugin, which is not available"):
        points(Sweep(Recipe((plugged, *recipe.steps)), axis))
    assert len(points(Sweep(Recipe((replace(plugged, enabled=False), *recipe.steps)), axis))) == 3
