"""Searches: spaces as written, as expanded, as recipes; and studies that lose nothing, on a model made in seconds."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.model.document.graph_json import fingerprint
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, OptionsError, StorageError
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.base import Cancelled, Context, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.recipes.replay import Memo, recipe_key, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.search.expand import expand
from espalier.passes.search.fit import fit
from espalier.passes.search.format_lists import formats_of, is_unfitted
from espalier.passes.search.goals import best, front, wanted
from espalier.passes.search.prepare import prepared
from espalier.passes.search.records import search_of, trials_of
from espalier.passes.search.search import Search
from espalier.passes.search.space import Choice, Space, fit_key, uniform
from espalier.passes.search.spec import Goal, SearchSpec, Vary, When
from espalier.passes.search.storage import load_study, open_storage
from espalier.passes.search.study import Plan, begin, run
from espalier.passes.search.trial import Trial
from espalier.passes.search.trial_run import Order
from espalier.passes.select import Select

MLP = "demo:digits-mlp"
SCORE = EvaluateOptions(MLP, limit=100)
BITS = Vary(values="integer(width=2|3|4|8)")


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any(MLP, tmp_path_factory.mktemp("mlp"), origin=Origin.TYPED)


def context(mlp: Opened, **extra: Any) -> Context:
    return Context(mlp.store, base=mlp.project.base, **extra)


def spec(*space: Vary, **more: Any) -> SearchSpec:
    return SearchSpec(**{"study": "s", "space": space or (BITS,), "score": SCORE, "trials": 6, **more})


def searched(mlp: Opened, path: Path, wish: SearchSpec, recipe: Recipe | None = None, **more: Any) -> list[Trial]:
    search = Search(wish, recipe or Recipe(), mlp.project.base, mlp.project.source)
    held = more.pop("context", None) or context(mlp)
    found = run(Plan(search, held, f"journal://{path}/s.journal", **more))
    return [t for t in found if t.state not in ("running", "waiting")]


# -- spaces


def test_families_are_products_and_leave_out_what_cannot_be() -> None:
    assert formats_of("integer(width=4|8, frac_width=2|3), float") == (
        "integer(width=4, frac_width=2)", "integer(width=4, frac_width=3)",
        "integer(width=8, frac_width=2)", "integer(width=8, frac_width=3)", "float")  # fmt: skip
    found = formats_of("minifloat_ieee(width=3|8, exponent_width=2|4)")
    assert "minifloat_ieee(width=3, exponent_width=2)" in found and len(found) == 3
    assert (
        is_unfitted("integer(width=4)")
        and not is_unfitted("integer(width=4, frac_width=2)")
        and not is_unfitted("mxint(width=4)")
    )
    assert len(formats_of("all")) > 10


@pytest.mark.parametrize(("entry", "said", "hint"), [
    (Vary(values="intger(width=4)"), "space[0].values: There is no format 'intger'", "integer"),
    (Vary(values=""), "space[0].values: no format", "Write"),
    (Vary(values="mxint", ports=("wieght",)), "space[0].ports: wieght", "weight"),
    (Vary(values="mxint", select=Select("type", ("conv2d",))), "space[0].select: The selection", "linear"),
    (Vary("sparsity", values="0.5, 1.5"), "1.5 is no sparsity", "0 to 1"),
    (Vary("sparsity", values="0.5", method="l7"), "space[0].method is 'l7'", "l2"),
    (Vary("option", key="prune.sparsty", values="0.1"), "space[0].key prune.sparsty", "sparsity"),
    (Vary("option", key="prune.method", values="l9"), "is 'l9'", "l2"),
    (Vary("identity", select=Select("type", ("relu",))), "selected nodes can be an identity", "linear"),
    (Vary("option", key="prune.sparsity"), "no values", "List"),
    (Vary("option", key="prune.sparsity", low=0.5, high=0.1), "no values", "List"),
    (replace(BITS, when=When("later", (1,))), "no choice 'later' before it", "earlier"),
])  # fmt: skip
def test_what_cannot_vary_is_told(mlp: Opened, entry: Vary, said: str, hint: str) -> None:
    recipe = Recipe((Step("prune", PruneOptions()),))
    with pytest.raises(OptionsError) as caught:
        expand(spec(entry), mlp.project.base, recipe)
    assert said in caught.value.message and hint in caught.value.hint


def test_ties_ports_and_types(mlp: Opened) -> None:
    base = mlp.project.base
    each = expand(spec(replace(BITS, ports=("weight", "data_in"))), base, Recipe()).choices
    assert [c.ports for c in each] == [("weight", "data_in")] * 3 and all(len(c.nodes) == 1 for c in each)
    (tied,) = expand(spec(replace(BITS, per="type")), base, Recipe()).choices
    assert tied.name == "linear.weight" and len(tied.nodes) == 3
    assert tied.values == tuple(f"integer(width={w})" for w in (2, 3, 4, 8)) and tied.ordered


def test_a_condition_reaches_the_choice_of_the_same_layer(mlp: Opened) -> None:
    family = Vary(values="integer(width=4), mxint", name="family")
    deeper = Vary("sparsity", values="0, 0.5", when=When("family", ("mxint",)))
    space = expand(spec(family, deeper), mlp.project.base, Recipe())
    shares = [c for c in space.choices if c.kind == "sparsity"]
    assert [c.when.name for c in shares if c.when] == [f"family {c.nodes[0]}" for c in shares]
    assert space.configurations() == (1 + 2) ** 3
    cheap = {c.name: c.values[0] for c in space.choices if c.kind == "format"}
    assert space.checked(cheap) == cheap
    with pytest.raises(OptionsError, match="never 'log'"):
        expand(spec(family, replace(deeper, when=When("family", ("log",)))), mlp.project.base, Recipe())


def test_a_trial_is_a_recipe_with_fitted_formats(mlp: Opened) -> None:
    base, wish = mlp.project.base, spec(BITS, Vary("sparsity", values="0, 0.5"),
                                         Vary("option", key="prune.sparsity", values="0.1, 0.2"))  # fmt: skip
    own = Recipe((Step("prune", PruneOptions(0.3)),))
    space = fit(expand(wish, base, own), base, mlp.store)
    params = {c.name: c.values[-1] for c in space.choices}
    params[space.choices[0].name] = "integer(width=4)"
    made = space.apply(own, params)
    assert [s.pass_name for s in made.steps] == ["prune", "quantize", "prune"]
    assert made.steps[0].options.sparsity == 0.2
    graph = replay(base, made, context(mlp)).graph
    chosen = {c.nodes[0]: str(params[c.name]) for c in space.choices if c.kind == "format"}
    held = {n: str(graph[n].precision["weight"].format) for n in chosen}
    assert held == {n: space.fitted[fit_key(n, "weight", v)] for n, v in chosen.items()}
    assert any("frac_width=4," not in v for v in held.values())
    with pytest.raises(OptionsError, match="no choice 'x'"):
        space.apply(own, {**params, "x": 1})
    with pytest.raises(OptionsError, match="not one of its values"):
        space.apply(own, {**params, space.choices[0].name: "integer(width=5)"})


def test_counts_of_configurations() -> None:
    a = Choice("a", "option", (1, 2))
    b = Choice("b", "option", (1, 2, 3), when=When("a", (2,)))
    assert Space((a, b)).configurations() == 1 + 3
    assert Space((a, Choice("c", "option", low=0.0, high=1.0))).configurations() == math.inf
    assert Space((Choice("d", "option", low=1.0, high=4.0, whole=True),)).configurations() == 4


# -- measuring


@pytest.mark.parametrize("ports", [("weight",), ("weight", "data_in")])
def test_figures_are_those_of_evaluate(mlp: Opened, ports: tuple[str, ...]) -> None:
    """Bit for bit, whatever is kept between trials, and in whatever order rungs take the batches."""
    base, score = mlp.project.base, replace(SCORE, batch_size=16)
    last = Select("name", (list(expand(spec(), base, Recipe()).choices)[-1].nodes[0],))
    for select in (Select("all"), last):
        wish = spec(Vary(select=select, ports=ports, values="integer(width=2|4|8), mxint, float"))
        space = fit(expand(wish, base, Recipe()), base, mlp.store)
        warm = Evaluator(base, score, context(mlp), (16, 48))
        for params in uniform(space, 4):
            graph = replay(base, space.apply(Recipe(), params), context(mlp)).graph
            found = warm.measure(graph, kl=True)
            told = run_step(graph, Step("evaluate", score), context(mlp)).report.summary
            assert (found["accuracy"], found["loss"]) == (told["accuracy"], told["loss"])
    assert found["kl"] == 0.0  # the dearest is float


# -- studies


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid", "nsga2", "nsga3", "gp", "cmaes", "qmc"])
def test_every_sampler_runs(mlp: Opened, tmp_path: Path, sampler: Any) -> None:
    found = searched(mlp, tmp_path, spec(sampler=sampler, trials=5))
    assert [t.number for t in found] == list(range(len(found))) and all(t.state == "complete" for t in found)
    assert sum(t.counts for t in found) == 5
    assert {v for t in found for v in t.params.values()} <= set(formats_of(BITS.values))


def test_equal_seeds_give_equal_searches(mlp: Opened, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    one, two = (searched(mlp, tmp_path / n, spec(trials=4, seed=3)) for n in "ab")
    assert [(t.params, t.values) for t in one] == [(t.params, t.values) for t in two]


def test_a_grid_takes_everything_once_and_ends(mlp: Opened, tmp_path: Path) -> None:
    found = searched(mlp, tmp_path, spec(replace(BITS, per="all"), sampler="grid", trials=50))
    assert sorted(t.params["all.weight"] for t in found) == sorted(formats_of(BITS.values))
    with pytest.raises(OptionsError, match="A grid needs"):
        searched(mlp, tmp_path, spec(Vary("sparsity", low=0.0, high=0.5), sampler="grid", study="t"))


def test_going_on_keeps_what_there_is(mlp: Opened, tmp_path: Path) -> None:
    wish = spec(replace(BITS, per="all"), sampler="grid", trials=2)
    first = searched(mlp, tmp_path, wish)
    with pytest.raises(StorageError, match="already"):
        searched(mlp, tmp_path, wish)
    more = searched(mlp, tmp_path, replace(wish, trials=4), resume=True)
    assert len(more) == 2 and not {str(t.params) for t in first} & {str(t.params) for t in more}
    other = replace(wish, space=(Vary(values="mxint(width=4|8)"),))
    with pytest.raises(StorageError, match="something else"):
        searched(mlp, tmp_path, other, resume=True)
    study = load_study(open_storage(f"journal://{tmp_path}/s.journal"), "s")
    held = trials_of(study)
    assert [t.number for t in held] == [0, 1, 2, 3] and held[0] == first[0]
    kept, recipe, space = search_of(study)
    assert kept.space == wish.space and recipe == Recipe() and space.choices[0].values == formats_of(BITS.values)


def test_a_stop_gives_the_running_trial_back(mlp: Opened, tmp_path: Path) -> None:
    """What ran is not lost and not run twice: the trial waits, and is the first to go on with."""
    seen = {"evaluating": 0}

    def progress(done: int, total: int, text: str) -> None:
        seen["evaluating"] += "evaluating" in text
        if seen["evaluating"] == 5:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        searched(mlp, tmp_path, spec(seed=1), context=context(mlp, progress=progress))
    study = load_study(open_storage(f"journal://{tmp_path}/s.journal"), "s")
    states = [t.state for t in trials_of(study)]
    assert states[-1] == "waiting" and "running" not in states
    found = searched(mlp, tmp_path, spec(seed=1), resume=True)
    assert found[0].number == len(states) - 1 and found[0].state == "complete"
    assert sum(t.ended for t in trials_of(load_study(open_storage(f"journal://{tmp_path}/s.journal"), "s"))) == 6


def test_enough_ends_after_the_trial(mlp: Opened, tmp_path: Path) -> None:
    done: list[int] = []
    found = searched(mlp, tmp_path, spec(), context=context(mlp, enough=lambda: done.append(1) or len(done) > 2))
    assert len(found) == 2


class Made:
    """Trials whose figures a test decides."""

    def __init__(self, figure: Any) -> None:
        self.figure, self.ran = figure, 0

    def key(self, order: Order) -> str:
        return recipe_key(order.recipe)

    def costs(self, order: Order) -> dict[str, float]:
        return {}

    def figures(self, order: Order) -> dict[str, float]:
        self.ran += 1
        return {"accuracy": self.figure(self.ran, order.params)}


def made(mlp: Opened, path: Path, figure: Any, wish: SearchSpec) -> tuple[list[Trial], Made]:
    runner = Made(figure)
    return searched(mlp, path, wish, runner=lambda *_: runner), runner


def failing(every: int, how: Any) -> Any:
    def figure(count: int, params: Any) -> float:
        if count % every == 0:
            if isinstance(how, Exception):
                raise how
            return float(how)
        return 0.5

    return figure


def test_a_cost_that_is_not_known_of_a_configuration_says_what_it_needs(mlp: Opened, tmp_path: Path) -> None:
    """Costs of hardware are those of integers: where inputs have no format there is none."""
    (trial,) = searched(mlp, tmp_path, spec(goals=(Goal("lut"),), trials=1))
    assert trial.state == "failed" and "lut is not known" in trial.error and "inputs of all layers" in trial.error


@pytest.mark.parametrize(("how", "said"), [(math.nan, "accuracy is nan"), (math.inf, "accuracy is inf"),
                                           (RuntimeError("torch says no"), "RuntimeError: torch says no"),
                                           (OptionsError("Cannot.", "Do."), "Cannot. Do.")])  # fmt: skip
def test_a_failing_trial_is_told_and_the_search_goes_on(mlp: Opened, tmp_path: Path, how: Any, said: str) -> None:
    found, _ = made(mlp, tmp_path, failing(3, how), spec(sampler="grid"))
    assert [t.state for t in found] == ["complete", "complete", "failed"] * 2
    assert said in found[2].error and not found[2].values
    want = wanted(spec())
    lead = best(found, want)
    assert lead is not None and lead.number == 0


def test_a_search_that_only_fails_ends(mlp: Opened, tmp_path: Path) -> None:
    with pytest.raises(EspalierError, match="All 10 trials failed; the last: RuntimeError: no"):
        made(mlp, tmp_path, failing(1, RuntimeError("no")), spec(sampler="grid", trials=50))


def test_equal_recipes_run_once(mlp: Opened, tmp_path: Path) -> None:
    narrow = replace(BITS, per="all", values="integer(width=2|3|4)")
    wish = spec(narrow, replace(narrow, name="again"), sampler="grid", trials=9)  # the second overrules the first
    found, runner = made(mlp, tmp_path, lambda count, params: 0.5, wish)
    assert len(found) == 9 and runner.ran == 3 and sum(t.reused for t in found) == 6
    assert all(t.state == "complete" and t.values == (0.5,) for t in found)


def test_patience_and_timeout(mlp: Opened, tmp_path: Path) -> None:
    found, _ = made(mlp, tmp_path, lambda count, params: 1 / count, spec(patience=2, sampler="random"))
    assert sum(t.counts for t in found) == 3
    none, _ = made(mlp, tmp_path, lambda count, params: 0.5, spec(timeout=1e-9, study="t"))
    assert none == []


def test_a_missed_budget_costs_nothing(mlp: Opened, tmp_path: Path) -> None:
    found = searched(mlp, tmp_path, spec(within=("weight_bits<=4",), sampler="grid", trials=20))
    missed = [t for t in found if t.state == "pruned"]
    assert missed and all("weight_bits<=4" in t.error and "accuracy" not in t.figures for t in missed)
    assert all(t.figures["weight_bits"] <= 4 for t in found if t.feasible)
    assert all(t.violation["weight_bits<=4"] > 0 for t in missed)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_trials_are_those_that_are_measured(mlp: Opened, tmp_path: Path, sampler: Any) -> None:
    """Those over a limit, and duplicates, come on top; where most are, the search ends nevertheless."""
    wish = spec(within=("weight_bits<=4",), sampler=sampler, trials=8)
    found = searched(mlp, tmp_path, wish)
    assert sum(t.unmeasured for t in found) and sum("accuracy" in t.figures and not t.reused for t in found) == 8
    tight = spec(Vary(values="integer(width=8|9|10|11|12|13|14|15|16|4)"), within=("weight_bits<=5",), study="t",
                 sampler=sampler, trials=3)  # fmt: skip
    few = searched(mlp, tmp_path, tight)
    assert len(few) == 30 and sum(t.counts for t in few) < 3


def test_other_programs_know_what_holds_the_limits(mlp: Opened, tmp_path: Path) -> None:
    """Optuna by `best_trials`, its dashboard by a list in the trial's own attributes."""
    wish = spec(within=("weight_bits<=4", "accuracy>=0.2"), sampler="gp", trials=5)
    found = searched(mlp, tmp_path, wish)
    study = load_study(open_storage(f"{tmp_path}/s.journal"), "s")
    for trial, held in zip(found, study.trials, strict=True):
        assert held.system_attrs["constraints"] == list(trial.violation.values()) and len(trial.violation) == 2
        assert all(v <= 0 for v in held.constraints.values()) is trial.feasible
    feasible = {t.number for t in found if t.feasible}
    assert {t.number for t in study.best_trials} <= feasible and (feasible or not study.best_trials)


@pytest.mark.slow
def test_the_terminator_ends_a_search_that_has_found_its_best(mlp: Opened, tmp_path: Path) -> None:
    wish = spec(replace(BITS, ports=("weight", "data_in")), goals=(Goal("kl"),), trials=60, terminator=True)
    running = begin(Plan(Search(wish, Recipe(), mlp.project.base), context(mlp), f"journal://{tmp_path}/s.journal"))
    why, trials = "", running.trials()
    while not why:
        try:
            next(trials)
        except StopIteration as end:
            why = end.value
    assert why == "little is left to gain" and len(running.records) >= 30 and running.done < 60
    (tmp_path / "all").mkdir()
    every = searched(mlp, tmp_path / "all", replace(wish, sampler="grid", trials=64, terminator=False))
    least, found = (min(t.values[0] for t in held) for held in (every, running.records.values()))
    assert found - least <= 0.01 * (max(t.values[0] for t in every) - least)


def test_a_budget_below_the_cheapest_says_the_least(mlp: Opened, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"weight_bits<=1 cannot be held: the least possible is 2\."):
        searched(mlp, tmp_path, spec(within=("weight_bits<=1",)))


@pytest.mark.parametrize(("more", "said"), [
    ({"goals": (Goal("acuracy"),)}, "no figure 'acuracy'"), ({"goals": ()}, "no goal"),
    ({"goals": (Goal(), Goal("loss")), "pruner": "median"}, "compares one figure"),
    ({"pruner": "rungs"}, "no rungs"), ({"rungs": (64, 32)}, "rungs are"), ({"study": ""}, "no name"),
    ({"within": ("weight_bits=4",)}, "not a constraint"), ({"score": EvaluateOptions()}, "no data are named"),
    ({"goals": (Goal(), Goal("loss")), "sampler": "cmaes"}, "takes one goal"), ({"space": ()}, "space is empty"),
])  # fmt: skip
def test_what_a_search_cannot_be(mlp: Opened, more: dict[str, Any], said: str) -> None:
    wish = replace(spec(), **more)
    with pytest.raises(OptionsError, match=said):
        prepared(Search(wish, Recipe(), mlp.project.base), context(mlp), Memo())


def test_several_goals_give_a_front_and_a_sum_one_best(mlp: Opened, tmp_path: Path) -> None:
    goals = (Goal("accuracy"), Goal("weight_bits"))
    found = searched(mlp, tmp_path, spec(replace(BITS, per="all"), goals=goals, sampler="grid", trials=9))
    ends = front(found, wanted(spec(goals=goals)))
    assert [t.values for t in ends] == sorted((t.values for t in ends), reverse=True)
    assert {t.params["all.weight"] for t in ends} >= {"integer(width=2)"}
    summed = spec(goals=(Goal("accuracy"), Goal("weight_bits", weight=0.1)), summed=True, study="t", sampler="grid")
    sums = searched(mlp, tmp_path, summed)
    assert all(t.values == (t.figures["accuracy"] - 0.1 * t.figures["weight_bits"],) for t in sums)


def test_of_equal_trials_the_smallest_is_best() -> None:
    want = wanted(SearchSpec(goals=(Goal("accuracy"),)))
    sizes = ({"weight_bits": 6.0}, {"weight_bits": 4.0, "size_bytes": 9.0}, {"weight_bits": 4.0, "size_bytes": 8.0}, {})
    trials = [Trial(i, "complete", values=(0.9,), figures=f) for i, f in enumerate(sizes)]
    found = best(trials, want)
    assert found and found.number == 2 and front(trials, want) == (trials[2],)
    assert front((trials[2], trials[0]), want) == (trials[2],)  # trial by trial, as the window judges
    better = Trial(9, "complete", values=(0.91,), figures={"weight_bits": 8.0})
    assert best([*trials, better], want) is better


def test_the_best_of_several_goals_is_one_of_the_front() -> None:
    """Of trials that are equal at the first goal, the smaller one may be worse at the second."""
    want = wanted(SearchSpec(goals=(Goal("accuracy"), Goal("latency"))))
    slow = Trial(0, "complete", values=(0.9, 1.0), figures={"weight_bits": 4.0})
    quick = Trial(1, "complete", values=(0.9, 0.6), figures={"weight_bits": 8.0})
    assert best([slow, quick], want) is quick and front([slow, quick], want) == (quick,)


def test_a_pause_is_no_time_of_its_trial(mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = [0.0]

    def progress(done: int, total: int, text: str) -> None:
        paused[0] += 1000.0

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + paused[0])
    monkeypatch.setattr("espalier.passes.search.time_budget.time", clock)
    wish = spec(trials=2, timeout=900.0)
    found = searched(mlp, tmp_path, wish, context=context(mlp, progress=progress))
    assert paused[0] and sum(t.counts for t in found) == 2
    assert all(t.seconds is not None and t.seconds < 900 for t in found)


def test_rungs_end_what_is_surely_worse(mlp: Opened, tmp_path: Path) -> None:
    """Never what is as good: a complete trial has the figures that it has without rungs."""
    score = replace(SCORE, limit=0, batch_size=16)
    wish = spec(replace(BITS, per="all", values="integer(width=1|2|6|8)"), score=score, pruner="rungs", rungs=(64,),
                sampler="grid", trials=4)  # fmt: skip
    hand = ({"all.weight": "integer(width=8)"}, {"all.weight": "integer(width=1)"})
    found = {t.params["all.weight"]: t for t in searched(mlp, tmp_path, wish, by_hand=hand)}
    weak, strong = found["integer(width=1)"], found["integer(width=8)"]
    assert weak.state == "pruned" and "worse than the best" in weak.error and weak.steps[0][0] == 64
    assert strong.state == "complete"
    plain = searched(mlp, tmp_path, replace(wish, pruner="none", study="t"), by_hand=hand[:1])
    assert plain[0].values == strong.values


@pytest.mark.slow
def test_a_warm_start_begins_below_the_budget(mlp: Opened, tmp_path: Path) -> None:
    found = searched(mlp, tmp_path, spec(within=("weight_bits<=4.5",), warm=3, trials=3))
    assert all(t.origin == "front" and t.feasible for t in found)
    assert found[0].figures["weight_bits"] > 3.5


@pytest.mark.slow
def test_a_long_warm_start_learns_from_its_trials(mlp: Opened, tmp_path: Path) -> None:
    """After the predicted front each is drawn by the seed from what trials leave open, all of it affordable."""
    wish = spec(Vary(select=Select("all"), values="integer(width=2|3|4|5|6|8)"), within=("weight_bits<=4.5",), warm=9)
    starts: list[list[Any]] = []
    for seed in (0, 0, 1):
        (tmp_path / str(len(starts))).mkdir()
        found = searched(mlp, tmp_path / str(len(starts)), replace(wish, trials=9, seed=seed))
        assert all(t.feasible for t in found if t.origin == "front")
        starts.append([t.params for t in found if t.origin == "front"])
    assert starts[0] == starts[1] != starts[2]
    assert len({str(p) for p in starts[0]}) == len(starts[0]) > 3


def test_a_warm_start_goes_on_after_a_pause(mlp: Opened, tmp_path: Path) -> None:
    """The prediction is in the study: nothing is measured again, and what is left of the start still comes from it."""
    wish = spec(Vary(select=Select("all"), values="integer(width=2|3|4|5|6|8)"), within=("weight_bits<=4.5",), warm=6)
    first = searched(mlp, tmp_path, replace(wish, trials=3))
    told = searched(mlp, tmp_path, replace(wish, trials=6), resume=True)
    assert len(first) == 3 and [t.origin for t in first + told][-3:] == ["front"] * 3
    assert all(t.feasible for t in told)


def test_the_recipe_of_a_trial_gives_its_figures(mlp: Opened, tmp_path: Path) -> None:
    """What is applied is what was measured."""
    wish = spec(BITS, Vary("sparsity", values="0, 0.5"), sampler="random", trials=3)
    search = Search(wish, Recipe(), mlp.project.base)
    running = begin(Plan(search, context(mlp), f"journal://{tmp_path}/s.journal"))
    trials = [t for t in running.trials() if t.state == "complete"]
    for trial in trials:
        recipe = search.recipe_of(running.space, trial.params)
        graph = replay(mlp.project.base, recipe, context(mlp)).graph
        told = run_step(graph, Step("evaluate", SCORE), context(mlp)).report.summary
        assert {k: told[k] for k in ("accuracy", "loss", "size_bytes", "weight_bits", "sparsity")} == {
            k: trial.figures[k] for k in ("accuracy", "loss", "size_bytes", "weight_bits", "sparsity")}  # fmt: skip
    assert len({fingerprint(mlp.project.base), *(str(t.params) for t in trials)}) == 4


def test_a_warm_start_under_a_cost_of_hardware(mlp: Opened, tmp_path: Path) -> None:
    """The source has no formats, so what it takes as hardware is not known; that of its configurations is."""
    space = tuple(Vary(values="integer(width=4|8)", ports=(p,), per="all") for p in ("weight", "data_in"))
    found = searched(mlp, tmp_path, spec(*space, within=("lut<=100000",), warm=2, trials=2))
    assert [(t.state, t.origin) for t in found] == [("complete", "front")] * 2
    assert all(t.feasible and t.figures["lut"] > 0 for t in found)


def test_a_warm_start_without_what_its_cost_needs(mlp: Opened, tmp_path: Path) -> None:
    """No configuration has formats of inputs: nothing can be predicted, and trials begin from cheap to dear."""
    found = searched(mlp, tmp_path, spec(goals=(Goal("accuracy"), Goal("lut")), warm=2, trials=2))
    assert len(found) == 2 and all("lut" not in t.figures and t.state == "failed" for t in found)
