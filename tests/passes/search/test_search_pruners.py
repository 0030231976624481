"""What ends trials and searches early: pruners, bounds of the goal, the terminator; and limits that nothing holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.expand import expand
from espalier.passes.search.feasibility import check_limits, check_pruner, check_spec
from espalier.passes.search.goals import wanted
from espalier.passes.search.search import Search
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import Goal, SearchSpec, Vary, When
from espalier.passes.search.spec_file import read_search, search_to_dict
from espalier.passes.search.stop import reason
from espalier.passes.search.study import Plan, begin
from espalier.passes.search.trial import Trial

MLP = "demo:digits-mlp"
SCORE = EvaluateOptions(MLP, limit=100, batch_size=16)
BITS = Vary(values="integer(width=1|2|6|8)", per="all")
GOOD, BAD = {"all.weight": "integer(width=8)"}, {"all.weight": "integer(width=1)"}


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any(MLP, tmp_path_factory.mktemp("mlp"), origin=Origin.TYPED)


def spec(*space: Vary, **more: Any) -> SearchSpec:
    return SearchSpec(**{"study": "s", "space": space or (BITS,), "score": SCORE, "trials": 4, **more})


def searched(mlp: Opened, path: Path, wish: SearchSpec, **more: Any) -> tuple[list[Trial], str]:
    """The trials that ended, and why the search did."""
    search = Search(wish, Recipe(), mlp.project.base, mlp.project.source)
    held = Context(mlp.store, base=mlp.project.base)
    trials, found = begin(Plan(search, held, f"journal://{path}/s.journal", **more)).trials(), list[Trial]()
    while True:
        try:
            trial = next(trials)
        except StopIteration as end:
            return found, str(end.value)
        if trial.state not in ("running", "waiting"):
            found.append(trial)


@pytest.mark.parametrize("pruner", ["median", "percentile", "halving", "hyperband", "patient", "wilcoxon"])
def test_optunas_pruners_run(mlp: Opened, tmp_path: Path, pruner: Any) -> None:
    bits = Vary(values="integer(width=2|3|4|8)")
    found, _ = searched(mlp, tmp_path, spec(bits, pruner=pruner, rungs=(32, 64), trials=8, sampler="random"))
    assert sum(t.counts for t in found) == 8 and all(t.state in ("complete", "pruned") for t in found)
    assert any(t.steps for t in found)


@pytest.mark.parametrize(("bounds", "said"), [
    ({"lower": 0.7}, "accuracy is 0.1"), ({"goals": (Goal("loss"),), "upper": 1.5}, "above 1.5"),
])  # fmt: skip
def test_a_trial_beyond_its_bound_ends_at_the_first_rung(
    mlp: Opened, tmp_path: Path, bounds: dict[str, Any], said: str
) -> None:
    wish = spec(pruner="threshold", rungs=(32, 64), trials=2, **bounds)
    found, _ = searched(mlp, tmp_path, wish, by_hand=(BAD, GOOD))
    weak, good = sorted(found, key=lambda t: t.number)
    assert weak.state == "pruned" and weak.error.startswith("after 32 samples") and said in weak.error
    assert good.state == "complete" and len(good.steps) == 2


def test_a_pruner_may_wait_before_it_judges(mlp: Opened, tmp_path: Path) -> None:
    wish = spec(pruner="threshold", rungs=(32, 64), trials=1, lower=0.7, judge_from=50)
    found, _ = searched(mlp, tmp_path, wish, by_hand=(BAD,))
    assert found[0].state == "pruned" and len(found[0].steps) == 2


@pytest.mark.parametrize(("more", "said"), [
    ({}, "has no bound"), ({"lower": 0.9, "upper": 0.5}, "all of it"), ({"lower": float("nan")}, "all of it"),
    ({"lower": 0.5, "rungs": ()}, "gets no intermediate results"),
    ({"lower": 0.5, "goals": (Goal("weight_bits"),)}, "grows"),
    ({"lower": 0.5, "goals": (Goal(), Goal("loss"))}, "compares one figure"),
])  # fmt: skip
def test_what_the_pruner_cannot_be(more: dict[str, Any], said: str) -> None:
    wish = replace(spec(pruner="threshold", rungs=(32,)), **more)
    with pytest.raises(OptionsError, match=said):
        check_pruner(wish, wanted(wish))


def test_a_training_shows_figures_without_rungs() -> None:
    wish = spec(pruner="threshold", lower=0.5)
    check_pruner(wish, wanted(wish), trains=True)


def test_the_bounds_are_written_and_read(tmp_path: Path) -> None:
    wish = spec(pruner="threshold", rungs=(32,), lower=0.25, judge_from=3)
    held = search_to_dict(wish)
    assert (held["lower"], held["judge_from"]) == (0.25, 3) and "upper" not in held
    assert read_search(held, tmp_path)[1] == wish


@pytest.mark.slow
def test_the_terminator_ends_a_search_with_little_to_gain() -> None:
    """A goal that falls with its number is known after 35 trials; after 20 that differ wildly nothing is."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    wish, space = spec(trials=1000, terminator=True), Space((Choice("x", "option", low=0.0, high=1.0),))

    def judged(count: int, goal: Callable[[float], float]) -> str:
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
        for _ in range(count):
            trial = study.ask()
            study.tell(trial, goal(trial.suggest_float("x", 0.0, 0.02)))
        told = {t.number: Trial(t.number, "complete", dict(t.params), tuple(t.values)) for t in study.trials}
        return reason(wish, wanted(wish), space, study, told, 1.0)

    assert judged(35, lambda x: 0.9 - x) == "little is left to gain"
    assert judged(20, lambda x: math.sin(1e4 * x)) == ""
    assert judged(34, lambda x: 0.9 - x) == "", "it judges every fifth trial"


def test_the_terminator_judges_one_goal() -> None:
    wish = spec(terminator=True, goals=(Goal(), Goal("sparsity")))
    with pytest.raises(OptionsError, match="single objective"):
        check_spec(wish, wanted(wish), Recipe())


# -- limits that nothing holds


def least(opened: Opened, within: str, *space: Vary) -> str:
    """What is said of a limit; empty where it can be held."""
    wish = spec(*space, within=(within,))
    graph = opened.project.base
    try:
        check_limits(expand(wish, graph, Recipe()), graph, wanted(wish))
    except OptionsError as error:
        return error.message
    return ""


def test_the_least_possible_is_what_the_cheapest_trial_takes(mlp: Opened, tmp_path: Path) -> None:
    bits = Vary(values="integer(width=4|8)")
    told = least(mlp, "weight_bits<=1", bits)
    value = float(told.partition("possible is ")[2].rstrip("."))
    found, _ = searched(mlp, tmp_path, spec(Vary(values="integer(width=4)"), goals=(Goal("weight_bits"),), trials=1))
    assert found[0].figures["weight_bits"] == pytest.approx(value, rel=1e-3)
    assert not least(mlp, f"weight_bits<={found[0].figures['weight_bits']!r}", bits)
    assert least(mlp, f"weight_bits<={0.999 * found[0].figures['weight_bits']}", bits), "exact where bits are"


def test_conditions_and_prunings_count_among_the_cheapest(mlp: Opened) -> None:
    family = Vary(values="integer(width=8), mxint(width=8)", per="all", name="family")
    below = Vary(values="integer(width=3|4)", name="width", when=When("family", ("integer(width=8)",)))
    assert "possible is" in least(mlp, "weight_bits<=6", family)
    assert not least(mlp, "weight_bits<=6", family, below), "a condition may hold"
    pruned = Vary("sparsity", low=0.0, high=0.5)
    assert "the most possible is 0.5" in least(mlp, "sparsity>=0.6", pruned) and not least(mlp, "sparsity>=0.4", pruned)
    assert "possible is about" in least(mlp, "weight_bits<=2", Vary(values="mxint(width=4)"))
    assert not least(mlp, "weight_bits>=9", Vary(values="integer(width=4|8)")), "no bound of that side is sought"
