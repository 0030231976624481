"""Edits by hand join into readable steps and mean the same as they do one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, NoOptions
from espalier.passes.choices.edits import with_format, with_sparsity
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.replay import replay
from espalier.passes.select import Select
from tests.model.zoo import case

A, B, C = Integer(8, 4), Integer(6, 3), Integer(4, 2)


def rules(recipe: Recipe) -> list[tuple[tuple[str, ...], dict[str, Format | None]]]:
    (step,) = recipe.steps
    return [(r.select.values, r.formats) for r in step.options.rules]


def edited(*edits: tuple[tuple[str, ...], str, Format | None], start: Recipe | None = None) -> Recipe:
    recipe = start or Recipe()
    for ids, port, fmt in edits:
        recipe = with_format(recipe, ids, port, fmt)
    return recipe


def result(recipe: Recipe) -> Graph:
    held = case("mlp")
    return replay(held.graph, recipe, Context(held.store)).graph


# -- formats


def test_the_first_edit_makes_a_step() -> None:
    recipe = edited((("first",), "weight", A))
    assert recipe == Recipe((Step("quantize", QuantizeOptions((Rule(Select("name", ("first",)), {"weight": A}),))),))


def test_edits_in_a_row_join_one_step() -> None:
    recipe = edited((("first",), "weight", A), (("first",), "bias", B), (("second",), "weight", C))
    assert rules(recipe) == [(("first",), {"weight": A, "bias": B}), (("second",), {"weight": C})]


def test_the_same_port_again_replaces() -> None:
    recipe = edited((("first",), "weight", A), (("first",), "weight", B))
    assert rules(recipe) == [(("first",), {"weight": B})]
    assert rules(edited((("first",), "weight", None), start=recipe)) == [(("first",), {"weight": None})]


def test_what_a_later_edit_overrides_goes() -> None:
    recipe = edited((("first",), "weight", A), (("second",), "weight", B), (("second",), "bias", B),
                    (("first", "second"), "weight", C))  # fmt: skip
    assert rules(recipe) == [(("second",), {"bias": B}), (("first", "second"), {"weight": C})]


def test_order_is_kept_where_selections_overlap() -> None:
    recipe = edited((("first",), "weight", A), (("first", "second"), "weight", B), (("first",), "weight", C))
    graph = result(recipe)
    assert graph["first"].precision["weight"].format == C and graph["second"].precision["weight"].format == B


@pytest.mark.parametrize(
    "between",
    [Step("remove_dropout", NoOptions()), Step("prune", PruneOptions(0.5)),
     Step("quantize", QuantizeOptions((Rule(Select("type", ("linear",)), {"bias": A}),))),
     Step("quantize", QuantizeOptions())],
)  # fmt: skip
def test_other_steps_are_never_joined(between: Step) -> None:
    recipe = edited((("first",), "weight", A)).append(between)
    after = edited((("first",), "weight", B), start=recipe)
    assert after.steps[:2] == recipe.steps and len(after) == 3


def test_a_disabled_step_is_never_joined() -> None:
    recipe = edited((("first",), "weight", A)).enable(0, False)
    assert edited((("first",), "weight", B), start=recipe).steps[0] == recipe.steps[0]


def test_the_recipe_before_stays_as_it_was() -> None:
    recipe = edited((("first",), "weight", A))
    edited((("first",), "bias", B), start=recipe)
    assert rules(recipe) == [(("first",), {"weight": A})]


edits = st.lists(
    st.tuples(
        st.sampled_from([("first",), ("second",), ("first", "second"), ("second", "first")]),
        st.sampled_from(["weight", "bias", "data_in", "data_out"]),
        st.sampled_from([A, B, C, None]),
    ),
    max_size=8,
)


@given(edits)
@settings(derandomize=True, max_examples=60)
def test_joined_steps_mean_what_single_ones_do(made: list[tuple[tuple[str, ...], str, Format | None]]) -> None:
    single = Recipe(
        tuple(Step("quantize", QuantizeOptions((Rule(Select("name", ids), {port: fmt}),))) for ids, port, fmt in made)
    )
    joined = edited(*made)
    assert len(joined) <= 1 and result(joined) == result(single)


# -- sparsity


def test_pruning_by_hand_replaces_itself() -> None:
    recipe = with_sparsity(Recipe(), ("first",), 0.5, "l1", "local")
    assert recipe == Recipe((Step("prune", PruneOptions(0.5, "l1", "local", Select("name", ("first",)))),))
    seeded = recipe.set(0, replace(recipe.steps[0], seed=4))
    again = with_sparsity(seeded, ("first",), 0.25, "random", "global")
    assert again == Recipe((Step("prune", PruneOptions(0.25, "random", "global", Select("name", ("first",))), 4),))
    assert len(with_sparsity(again, ("second",), 0.5, "l1", "local")) == 2
    assert len(with_sparsity(again.enable(0, False), ("first",), 0.5, "l1", "local")) == 2
    assert len(with_sparsity(with_format(again, ("first",), "weight", A), ("first",), 0.5, "l1", "local")) == 3


@pytest.mark.parametrize("ratio, method, scope", [(1.5, "l1", "local"), (0.5, "l3", "local"), (0.5, "l1", "here")])
def test_impossible_prunings_are_refused(ratio: float, method: str, scope: str) -> None:
    with pytest.raises(OptionsError):
        with_sparsity(Recipe(), ("first",), ratio, method, scope)
