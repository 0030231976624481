"""Recipes run step by step from the first that is not remembered; each step is checked, and named when it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Ref
from espalier.passes.analysis.hardware import HardwareOptions
from espalier.passes.analysis.profile import ProfileOptions
from espalier.passes.base import Cancelled, Context, NoOptions, PassSpec, Report, is_instant, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.replay import Memo, instant, prefix_keys, recipe_key, replay
from espalier.passes.select import Select
from tests.model.zoo import case
from tests.registered import lend_pass


@dataclass(frozen=True, slots=True)
class Named:
    """Options of the pass that only counts."""

    node: str = "first"
    note: str = ""


class Counting:
    """A transform that notes each run and marks a node; "fail" in the note makes it fail."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, int]] = []

    def __call__(self, graph: Graph, options: Named, context: Context) -> tuple[Graph, Report]:
        self.runs.append((options.note, context.seed))
        if "fail" in options.note:
            raise PassError("It failed.", "Do not.", options.node)
        node = graph[options.node]
        return graph.replace(replace(node, source=f"{node.source} {options.note}")), Report("counting")


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    spec = PassSpec("counting", "transform", Named, made, "Counting", "", False)
    lend_pass(monkeypatch, spec)
    return made


def context() -> Context:
    return Context(case("mlp").store)


def steps(*notes: str) -> Recipe:
    return Recipe(tuple(Step("counting", Named(note=n)) for n in notes))


def base() -> Graph:
    return case("mlp").graph


# -- what runs


def test_steps_run_in_order_on_each_others_result(counting: Counting) -> None:
    done = replay(base(), steps("a", "b", "c"), context())
    assert [n for n, _ in counting.runs] == ["a", "b", "c"]
    assert done.graph["first"].source.endswith(" a b c")
    assert [r.graph["first"].source.rpartition(" ")[2] for r in done.results] == ["a", "b", "c"]
    assert done.results[-1].graph is done.graph and all(r.seconds >= 0 for r in done.results)
    assert [r.report.pass_name for r in done.results if r] == ["counting"] * 3


def test_an_empty_recipe_is_the_base() -> None:
    done = replay(base(), Recipe(), context())
    assert done.graph is base() and done.results == ()


def test_disabled_steps_do_not_run(counting: Counting) -> None:
    done = replay(base(), steps("a", "b", "c").enable(1, False), context())
    assert [n for n, _ in counting.runs] == ["a", "c"] and len(done.results) == 2


def test_each_step_has_its_seed(counting: Counting) -> None:
    recipe = Recipe((Step("counting", Named(note="a"), 5), Step("counting", Named(note="b"), 6)))
    replay(base(), recipe, context())
    assert counting.runs == [("a", 5), ("b", 6)]


# -- what is remembered


def test_a_change_of_step_k_runs_from_k_on(counting: Counting) -> None:
    memo = Memo()
    recipe = steps("a", "b", "c")
    replay(base(), recipe, context(), memo)
    counting.runs.clear()
    assert replay(base(), recipe, context(), memo).graph["first"].source.endswith(" a b c")
    assert counting.runs == []
    replay(base(), recipe.set(1, Step("counting", Named(note="x"))), context(), memo)
    assert [n for n, _ in counting.runs] == ["x", "c"]


def test_undo_runs_nothing(counting: Counting) -> None:
    memo = Memo()
    recipe = steps("a", "b")
    replay(base(), recipe, context(), memo)
    replay(base(), recipe.append(Step("counting", Named(note="c"))), context(), memo)
    counting.runs.clear()
    for again in (recipe, steps("a"), recipe.enable(1, False), steps("a", "b", "c")):
        replay(base(), again, context(), memo)
    assert counting.runs == []


def test_a_step_is_told_by_all_that_makes_it(counting: Counting) -> None:
    """Another seed, other options or other steps before it: another result."""
    memo = Memo()
    a, b = steps("a", "b").steps
    for recipe in ([a, b], [b], [b, a], [replace(a, seed=1)], [replace(a, options=Named("second", "a"))]):
        replay(base(), Recipe(tuple(recipe)), context(), memo)
    assert len(counting.runs) == 2 + 1 + 1 + 1 + 1
    keys = prefix_keys((a, b, a))
    assert len(set(keys)) == 3 and prefix_keys((a, b)) == keys[:2]
    assert prefix_keys((replace(a), replace(b))) == keys[:2] != prefix_keys((a, replace(b, seed=1)))
    off = replace(b, enabled=False)
    assert recipe_key(Recipe((a, off))) == recipe_key(Recipe((a,))) == keys[0] != recipe_key(Recipe())


def test_without_a_memo_everything_runs(counting: Counting) -> None:
    for _ in range(2):
        replay(base(), steps("a"), context())
    assert len(counting.runs) == 2


def test_the_memo_forgets_the_oldest(counting: Counting) -> None:
    memo = Memo(limit=3)
    done = replay(base(), steps(*"abcde"), context(), memo)
    assert len(done.results) == 5 and len(memo.graphs) == 3
    counting.runs.clear()
    done = replay(base(), steps(*"abcde"), context(), memo)
    assert not counting.runs, "the end is remembered, so what led to it need not run"
    assert [r is None for r in done.results] == [True, True, False, False, False]


def test_progress_counts_what_runs(counting: Counting) -> None:
    memo, told = Memo(), []
    replay(base(), steps("a"), context(), memo)
    listening = Context(case("mlp").store, progress=lambda *p: told.append(p))
    replay(base(), steps("a", "b", "c"), listening, memo)
    assert told == [(1, 3, "counting"), (2, 3, "counting")]


# -- what fails


def test_a_failing_step_is_named_and_what_ran_is_kept(counting: Counting) -> None:
    memo = Memo()
    with pytest.raises(PassError, match=r"Step 2 \(counting\): It failed\.") as caught:
        replay(base(), steps("a", "fail", "c"), context(), memo)
    assert (caught.value.hint, caught.value.node) == ("Do not.", "first")
    counting.runs.clear()
    replay(base(), steps("a", "b"), context(), memo)
    assert [n for n, _ in counting.runs] == ["b"]


def test_a_disabled_step_counts_in_the_number_that_is_told(counting: Counting) -> None:
    """People count the steps that they see."""
    with pytest.raises(PassError, match=r"Step 3 \(counting\)"):
        replay(base(), steps("a", "b", "fail").enable(0, False), context())


def test_cancelling_stops_between_steps(counting: Counting) -> None:
    def stop(done: int, total: int, text: str) -> None:
        if done == 1:
            raise Cancelled("stop")

    memo = Memo()
    with pytest.raises(Cancelled):
        replay(base(), steps("a", "b"), Context(case("mlp").store, progress=stop), memo)
    assert [n for n, _ in counting.runs] == ["a"] and len(memo.graphs) == 1


def test_passes_that_are_not_here_name_the_nearest() -> None:
    with pytest.raises(PassError, match=r"Step 1 \(prunes\): The pass prunes is not available") as caught:
        replay(base(), Recipe((Step("prunes", Raw({})),)), context())
    assert "prune" in caught.value.hint


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(PassError, match="options of another pass"):
        run_step(base(), Step("prune", NoOptions()), context())


def test_options_as_json_are_typed_where_the_pass_is() -> None:
    done = run_step(base(), Step("prune", Raw({"sparsity": 0.5})), context())
    assert done.graph == run_step(base(), Step("prune", PruneOptions(0.5)), context()).graph
    with pytest.raises(OptionsError, match="sparsty is not an option"):
        run_step(base(), Step("prune", Raw({"sparsty": 0.5})), context())


def test_what_led_to_a_remembered_graph_need_not_be_here(counting: Counting) -> None:
    memo, saved = Memo(), replay(base(), steps("a"), context()).graph
    counting.runs.clear()
    foreign = Recipe((Step("of_a_plugin", Raw({"x": 1})),))
    memo.remember(foreign.active, saved)
    recipe = foreign.append(*steps("b").steps)
    done = replay(base(), recipe, context(), memo)
    assert [n for n, _ in counting.runs] == ["b"] and done.graph["first"].source.endswith(" a b")
    assert not instant(foreign.append(Step("prune", PruneOptions())), memo)
    with pytest.raises(PassError, match="Step 2"):
        replay(base(), recipe.move(0, 1), context(), memo)


def made(monkeypatch: pytest.MonkeyPatch, kind: Any, change: Any) -> Step:
    spec = PassSpec("odd", kind, NoOptions, lambda g, o, c: (change(g), Report("odd")), "Odd", "", True)
    lend_pass(monkeypatch, spec)
    return Step("odd", NoOptions())


def test_an_analysis_that_changes_the_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    step = made(monkeypatch, "analysis", lambda g: replace(g))
    with pytest.raises(PassError, match="odd changed the graph"):
        run_step(base(), step, context())


def test_a_transform_that_leaves_an_illegal_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    step = made(monkeypatch, "transform", lambda g: g.replace(replace(g["act"], args=(Ref("nowhere"),))))
    with pytest.raises(PassError, match="odd returned an invalid graph: act takes the output of nowhere") as caught:
        run_step(base(), step, context())
    assert caught.value.node == "act"


# -- what needs no worker


def test_instant_recipes() -> None:
    quantise = Step("quantize", QuantizeOptions((Rule(Select(), {"weight": Integer(8, 4)}),)))
    prune = Step("prune", PruneOptions(0.5))
    memo = Memo()
    assert is_instant(quantise) and not is_instant(prune) and not is_instant(Step("elsewhere", Raw({})))
    assert instant(Recipe((quantise,)), memo) and instant(Recipe(), memo)
    assert not instant(Recipe((quantise, prune)), memo)
    assert instant(Recipe((quantise, prune)).enable(1, False), memo)
    replay(base(), Recipe((quantise, prune)), context(), memo)
    assert instant(Recipe((quantise, prune)), memo) and instant(Recipe((quantise, prune, quantise)), memo)
    assert not instant(Recipe((prune, quantise)), memo)


@pytest.mark.parametrize("step", [Step("hardware", HardwareOptions(folder="/nowhere/made")),
                                  Step("profile", ProfileOptions(trace="/nowhere/made.json"))])  # fmt: skip
def test_a_recipe_writes_no_file(step: Step) -> None:
    held = case("mlp")
    with pytest.raises(OptionsError, match="cannot write files"):
        replay(held.graph, Recipe((step,)), Context(held.store))
