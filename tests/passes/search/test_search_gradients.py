"""Where gradients take long, a warm start begins from a part of them; the rest come between trials, and count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.recipe import Recipe
from espalier.model.errors import ProjectError
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.base import Cancelled, Context
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search import predicted_start, time_budget, warm_start
from espalier.passes.search.refine import FRONT, ROUGH_FRONT
from espalier.passes.search.search import Search
from espalier.passes.search.spec import Goal, SearchSpec, Vary
from espalier.passes.search.study import Plan, StudyRun, begin
from espalier.passes.sensitivity import collect, gradient_statistics

MLP = "demo:digits-mlp"
SPEC = SearchSpec(study="s", space=(Vary(values="integer(width=2|3|4|8)"),), score=EvaluateOptions(MLP, limit=100),
                  within=("weight_bits<=4.5",), warm=3, trials=4)  # fmt: skip
PART, ALL = [8, 16, 24, 32], list(range(8, 257, 8))  # samples seen after each pass


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any(MLP, tmp_path_factory.mktemp("mlp"), origin=Origin.TYPED)


@pytest.fixture(autouse=True)
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradients are known; there is no time for them before the first trial, and much after it."""
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(predicted_start, "SECONDS", 1e-6)
    monkeypatch.setattr(warm_start, "MIN_GATHERING", 600.0)


class Heard:
    """What progress tells."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.gradients: list[int] = []

    def __call__(self, done: int, total: int, text: str) -> None:
        self.texts.append(text)
        if text == "gradients of the outputs":
            self.gradients.append(done)


def never() -> bool:
    return False


def worker(
    mlp: Opened, path: Path, wish: SearchSpec, heard: Heard, seed: int = 0, enough: Callable[[], bool] = never,
    **more: Any,
) -> StudyRun:  # fmt: skip
    search = Search(wish, Recipe(), mlp.project.base, mlp.project.source)
    context = Context(mlp.store, seed, heard, base=mlp.project.base, enough=enough)
    return begin(Plan(search, context, f"journal://{path}/s.journal", **more))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3])
def test_trials_begin_before_all_gradients_are_there(mlp: Opened, tmp_path: Path, seed: int) -> None:
    """Whatever the seed of the search: the pass goes on with the gradients that the start left."""
    running = worker(mlp, tmp_path, replace(SPEC, seed=seed), heard := Heard(), seed)
    fronts: list[tuple[bool, Any]] = []
    for trial in running.trials():
        if trial.state == "running":
            held = running.study.user_attrs
            fronts.append((held[ROUGH_FRONT], held[FRONT]))
    assert [rough for rough, _ in fronts] == [True, *[False] * (len(fronts) - 1)]
    assert fronts[0][1] != fronts[1][1] == fronts[2][1]
    assert heard.gradients == ALL, "a pass was run twice, or not at all"
    assert heard.texts.count("predicting where to begin") == 2
    origins = [t.origin for t in running.records.values()]
    assert (
        origins == ["front"] * 3 + ["tpe"] * (len(origins) - 3) and sum(t.counts for t in running.records.values()) == 4
    )


def test_after_the_last_trial_no_gradients_are_found(mlp: Opened, tmp_path: Path) -> None:
    ended = list(worker(mlp, tmp_path, replace(SPEC, trials=1), heard := Heard()).trials())
    assert ended[-1].state == "complete" and heard.gradients == PART


@pytest.mark.parametrize("within", [False, True])
def test_enough_ends_the_gradients_too(mlp: Opened, tmp_path: Path, within: bool) -> None:
    """Said while the trial runs, or while they are found."""
    heard, last = Heard(), 5 * 8 if within else PART[-1]

    def enough() -> bool:
        return any("trial 0: " in t for t in heard.texts) and heard.gradients[-1] >= last

    running = worker(mlp, tmp_path, SPEC, heard, enough=enough)
    assert [t.state for t in running.trials() if t.state != "waiting"] == ["running", "complete"]
    assert heard.gradients[-1] == last


@pytest.mark.slow
def test_gradients_that_cannot_be_kept_end_no_search(
    mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, save, saved = worker(mlp, tmp_path, SPEC, heard := Heard()), gradient_statistics.save, list[Path]()

    def full(found: Any, path: Path) -> None:
        saved.append(path)
        if len(saved) > 1:
            raise ProjectError("The evidence could not be kept.", "Free some space there.")
        save(found, path)

    monkeypatch.setattr(gradient_statistics, "save", full)
    ended = [t for t in running.trials() if t.state in ("complete", "pruned")]
    assert [t.number for t in ended] == list(range(len(ended))) and sum(t.counts for t in ended) == 4
    assert ended[2].origin == "front"
    assert heard.texts.count("no more gradients: The evidence could not be kept.") == 1 and len(saved) == 2


@pytest.mark.slow
def test_other_workers_go_by_the_better_front(mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that has proposed by the rough front before."""
    wish = replace(SPEC, warm=8, trials=10)
    finder = worker(mlp, tmp_path, wish, Heard())
    trials = finder.trials()
    next(trials)
    other = worker(mlp, tmp_path, wish, Heard(), resume=True, salt=1)
    assert other.warm_start.proposer.next([], None) is not None
    rough = other.warm_start.proposer._refined  # pyright: ignore[reportPrivateUsage]
    while finder.study.user_attrs[ROUGH_FRONT]:
        next(trials)
    assert other.warm_start.proposer.next([], None) is not None
    better = other.warm_start.proposer._refined  # pyright: ignore[reportPrivateUsage]
    assert rough is not None and better is not None
    assert rough.field.to_json() != better.field.to_json() == finder.study.user_attrs[FRONT]
    assert other.warm_start.proposer.next([], None) is not None
    assert other.warm_start.proposer._refined is better  # pyright: ignore[reportPrivateUsage]
    trials.close()


@pytest.mark.slow
def test_along_a_cost_trials_begin_from_all_gradients(mlp: Opened, tmp_path: Path) -> None:
    """All its starts are made at once: none could be from those that are found later."""
    goals = (Goal("accuracy"), Goal("weight_bits"))
    running = worker(mlp, tmp_path, replace(SPEC, goals=goals), heard := Heard())
    trials = running.trials()
    assert next(trials).origin == "front" and heard.gradients == ALL
    trials.close()


def test_a_cancel_while_it_is_predicted_ends_the_search(mlp: Opened, tmp_path: Path) -> None:
    """It is no failed prediction: no trial begins after it."""

    def progress(done: int, total: int, text: str) -> None:
        if text == "gradients of the outputs":
            raise Cancelled("The job was cancelled.")

    search = Search(SPEC, Recipe(), mlp.project.base, mlp.project.source)
    running = begin(Plan(search, Context(mlp.store, 0, progress, base=mlp.project.base), f"journal://{tmp_path}/c"))
    with pytest.raises(Cancelled):
        list(running.trials())
    assert running.study.trials == []


class Time:
    """What the clock is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Time:
    """A minute of work for each pass with gradients."""
    held, batches = Time(), collect.batches

    def late(*given: Any) -> Any:
        for batch in batches(*given):
            yield batch
            held.now += 60.0

    for module in (time_budget, collect):
        monkeypatch.setattr(module, "time", held)
    monkeypatch.setattr(collect, "batches", late)
    return held


def test_gradients_leave_time_for_trials(mlp: Opened, tmp_path: Path, told: Time) -> None:
    """Also where all of them would be waited for: a quarter of the time, and trials begin from that part."""
    wish = replace(SPEC, goals=(Goal("accuracy"), Goal("weight_bits")), timeout=1500.0)
    trials = worker(mlp, tmp_path, wish, heard := Heard()).trials()
    assert next(trials).origin == "front" and len(heard.gradients) == 7 and told.now < 1500
    trials.close()


def test_a_search_whose_time_is_up_ends_in_the_midst_of_gradients(mlp: Opened, tmp_path: Path, told: Time) -> None:
    running = worker(mlp, tmp_path, replace(SPEC, timeout=100.0), heard := Heard())
    assert list(running.trials()) == [] and heard.gradients == PART[:3]
    assert running.ended() == "100 s are over"


def test_a_pause_while_gradients_are_found_is_no_work(
    mlp: Opened, tmp_path: Path, told: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the search's time nor of that for gradients."""
    heard = Heard()

    def paused(done: int, total: int, text: str) -> None:
        heard(done, total, text)
        told.now += 1e5

    monkeypatch.setattr(predicted_start, "SECONDS", 500.0)
    search = Search(replace(SPEC, timeout=4000.0), Recipe(), mlp.project.base, mlp.project.source)
    running = begin(Plan(search, Context(mlp.store, 0, paused, base=mlp.project.base), f"journal://{tmp_path}/p"))
    trials = running.trials()
    assert next(trials).origin == "front" and len(heard.gradients) == 9
    trials.close()
