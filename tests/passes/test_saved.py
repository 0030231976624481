"""Recipes that name saved selections: members are written when the step comes, and never change by themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from espalier.model.document.codec import decode, encode
from espalier.model.document.project import step_from_json, step_to_json
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import EspalierError, OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.passes.base import Context
from espalier.passes.choices.edits import with_format, with_sparsity
from espalier.passes.choices.prune import Budget, PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.recipes.replay import Memo, prefix_keys, replay
from espalier.passes.saved import gone, outdated, recipe_with_members, saved_in, with_members
from espalier.passes.search.spec import SearchSpec, Vary
from espalier.passes.select import Select, chosen, matches
from tests.model.zoo import case

QUERIES = ("bert_encoder_layer_0_attention_self_query", "bert_encoder_layer_1_attention_self_query")
SAVED = {"queries": QUERIES, "heads": ("classifier",), "empty": ()}
INT8 = Integer(8, 4)


def named(*names: str, nodes: tuple[str, ...] | None = None) -> Select:
    return Select("saved", names, nodes)


def quantised(select: Select) -> Recipe:
    return Recipe((Step("quantize", QuantizeOptions((Rule(select, {"weight": INT8}),))),))


def with_weights(recipe: Recipe) -> set[str]:
    graph = replay(case("bert").graph, recipe, Context(case("bert").store)).graph
    return {n.id for n in graph if "weight" in n.precision}


def test_a_recipe_in_toml_names_a_selection() -> None:
    """The form that people write: the name alone; the members come from the project."""
    table: dict[str, Any] = {
        "quantize": {"rules": [{"select": {"by": "saved", "values": ["queries"]}, "formats": {"weight": "int8"}}]}
    }
    recipe = recipe_with_members(load_recipe(table), SAVED)
    assert with_weights(recipe) == set(QUERIES)
    assert load_recipe(recipe_to_dict(recipe)) == recipe, "what is exported has the members"
    assert step_from_json(step_to_json(recipe.steps[0])) == recipe.steps[0]
    assert "nodes" not in encode(named("queries")), "nothing is written for a name alone"


def test_several_names_are_one_selection() -> None:
    recipe = recipe_with_members(quantised(named("queries", "heads", "queries")), SAVED)
    assert with_weights(recipe) == {*QUERIES, "classifier"}


def test_a_changed_selection_changes_no_step_and_the_memo_follows_the_members() -> None:
    before = recipe_with_members(quantised(named("queries")), SAVED)
    other = {"queries": QUERIES[:1]}
    assert recipe_with_members(before, other) is before
    assert outdated(before.steps[0].options, other) == ("queries",) and not outdated(before.steps[0].options, SAVED)
    assert not outdated(before.steps[0].options, {}), "a removed selection is none that changed"
    renewed = with_members(before.steps[0].options, other, renew=True)
    after = Recipe((replace(before.steps[0], options=renewed),))
    assert with_weights(after) == {QUERIES[0]}
    assert prefix_keys(after.active) != prefix_keys(before.active)
    memo = Memo()
    for recipe, count in ((before, 2), (after, 1), (before, 2)):
        graph = replay(case("bert").graph, recipe, Context(case("bert").store), memo).graph
        assert sum("weight" in n.precision for n in graph) == count


def test_a_project_that_lacks_the_name_says_so() -> None:
    with pytest.raises(OptionsError, match=r"Step 1 \(quantize\): There is no saved selection 'querys'") as caught:
        recipe_with_members(quantised(named("querys")), SAVED)
    assert "queries" in caught.value.hint
    with pytest.raises(OptionsError, match="no saved selection 'empty'"):
        recipe_with_members(quantised(named("empty")), SAVED)
    with pytest.raises(OptionsError) as caught:
        recipe_with_members(quantised(named("queries")), {})
    assert "It has none" in caught.value.hint
    whole = recipe_with_members(quantised(named("queries")), SAVED)
    assert recipe_with_members(whole, {}) is whole, "a recipe that lists the members needs no selection"
    off = Recipe(tuple(replace(s, enabled=False) for s in quantised(named("nowhere")).steps))
    assert recipe_with_members(off, SAVED) == off, "a disabled step is kept as it is"


def test_without_members_nothing_is_selected_silently() -> None:
    graph = case("bert").graph
    lenient = recipe_with_members(quantised(named("nowhere")), SAVED, strict=False)
    with pytest.raises(PassError, match='no saved selection "nowhere"'):
        replay(graph, lenient, Context(case("bert").store))
    for use in (lambda: matches(graph[QUERIES[0]], named("a")), lambda: chosen(graph, named("a"), bool, "used")):
        with pytest.raises(PassError, match="no saved selection"):
            use()


def test_nodes_that_are_gone_are_told() -> None:
    graph = case("bert").graph
    some = quantised(named("queries", nodes=(*QUERIES, "old", "older")))
    done = replay(graph, some, Context(case("bert").store)).results[0]
    assert done is not None
    text = '2 of the 4 nodes of saved selection "queries" are not in the model here.'
    assert done.report.summary["warning"] == text == gone(some.steps[0].options, graph)
    with pytest.raises(PassError, match=r'saved selection "queries".* matches no node') as caught:
        replay(graph, quantised(named("queries", nodes=("old",))), Context(case("bert").store))
    assert "None of its 1 nodes is in the model" in caught.value.hint
    assert not gone(quantised(named("queries", nodes=QUERIES)).steps[0].options, graph)


def test_members_are_filled_wherever_a_selection_stands() -> None:
    prune = PruneOptions(0.5, select=named("queries"), budgets=(Budget(named("heads"), 0.1),))
    filled = with_members(prune, SAVED)
    assert (filled.select.nodes, filled.budgets[0].select.nodes) == (QUERIES, ("classifier",))
    raw = Raw({"deep": [{"select": {"by": "saved", "values": ["heads"]}}], "other": 1})
    assert with_members(raw, SAVED).data["deep"][0]["select"]["nodes"] == ["classifier"]
    assert [s.values for s in saved_in(raw)] == [("heads",)]
    spec = with_members(SearchSpec(space=(Vary(select=named("queries")),)), SAVED)
    assert spec.space[0].select.nodes == QUERIES
    plain = PruneOptions(0.5, select=Select("type", ("linear",)))
    assert with_members(plain, SAVED) is plain and list(saved_in(plain)) == []


@pytest.mark.parametrize(
    "table",
    [
        *({"by": "saved", "values": ["heads"], "nodes": n} for n in (5, True, "ab", {"a": 1}, [1], [["a"]], [None])),
        *(
            {"by": "saved", "values": v}
            for v in (None, 5, "heads", {"heads": 1}, [1], ["heads", None], [{}], [["heads"]])
        ),
        *({"by": by, "values": ["heads"]} for by in (None, 5, ["saved"], {"saved": 1}, {"by": "saved"})),
        {"by": "saved"},
    ],
    ids=str,
)
def test_a_table_of_a_stranger_that_only_resembles_a_selection_is_left_alone(table: dict[str, Any]) -> None:
    """The pass is unknown, so that nothing has checked its options: the project opens, and can be edited."""
    recipe = Recipe((step_from_json({"pass": "no_such_pass", "options": {"deep": [table], "select": table}}),))
    options = recipe.steps[0].options
    assert isinstance(options, Raw) and list(saved_in(options)) == []
    assert outdated(options, SAVED) == () and gone(options, case("bert").graph) == ""
    for strict in (False, True):
        assert recipe_with_members(recipe, SAVED, strict=strict) is recipe
    assert with_members(options, SAVED, renew=True) is options


def test_a_selection_in_a_table_that_only_resembles_one_is_found() -> None:
    inner = {"by": "saved", "values": ["heads"], "nodes": None}
    raw = Raw({"by": "saved", "values": [inner], "nodes": 5})
    assert [s.values for s in saved_in(raw)] == [("heads",)]
    assert with_members(raw, SAVED).data["values"][0]["nodes"] == ["classifier"]


def test_members_belong_to_saved_selections_alone() -> None:
    with pytest.raises(OptionsError, match="nodes belongs to a saved selection"):
        decode(Select, {"by": "type", "values": ["linear"], "nodes": ["x"]})
    with pytest.raises(EspalierError, match="nodes"):
        decode(Select, {"by": "saved", "values": ["a"], "nodes": "x"})


def test_a_huge_selection_is_used_in_time() -> None:
    nodes = (*(f"node_{i}" for i in range(200_000)), *QUERIES)
    recipe = recipe_with_members(quantised(named("many")), {"many": nodes})
    assert with_weights(recipe) == set(QUERIES)


def test_edits_by_hand_join_in_one_step() -> None:
    select = named("queries", nodes=QUERIES)
    recipe = with_format(Recipe(), select, "weight", INT8)
    recipe = with_format(recipe, select, "data_in", INT8)
    recipe = with_format(recipe, select, "weight", Integer(4, 2))
    assert [s.options for s in recipe.steps] == [
        QuantizeOptions((Rule(select, {"weight": Integer(4, 2), "data_in": INT8}),))
    ]
    recipe = with_format(recipe, (QUERIES[0],), "weight", INT8)
    assert [r.select for r in recipe.steps[0].options.rules] == [select, Select("name", (QUERIES[0],))]
    pruned = with_sparsity(with_sparsity(Recipe(), select, 0.5, "l1", "local"), select, 0.6, "l1", "local")
    assert len(pruned) == 1 and pruned.steps[0].options.select == select
