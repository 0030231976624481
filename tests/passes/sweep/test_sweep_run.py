"""Sweeps as they run: what is shared runs once, what is known never again, and a failed point stops nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.passes.base import Cancelled, Context, PassSpec, Report, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.figure import hits_of, wilson
from espalier.passes.recipes.replay import Memo, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep import journal
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import Outcome, curves, mean_of, mean_rows, point_text, rows
from espalier.passes.sweep.run import estimate, run
from espalier.passes.sweep.sweep import Axis, Setting, Sweep, Variant, points
from tests.model.zoo import case
from tests.registered import lend_pass


@dataclass(frozen=True, slots=True)
class Marks:
    """Options of the pass that only counts."""

    level: float = 0.0
    kind: str = "a"


class Counting:
    """A transform that notes its runs and marks a node; level 13 fails."""

    def __init__(self, name: str, lasting: bool = False) -> None:
        self.name, self.runs = name, []  # type: ignore[var-annotated]
        self.spec = PassSpec(name, "transform", Marks, self, name, "", False, lasting)

    def __call__(self, graph: Graph, options: Marks, context: Context) -> tuple[Graph, Report]:
        self.runs.append((options.level, options.kind, context.seed))
        context.progress(1, 2, "counting")
        if options.level == 13:
            raise PassError("Thirteen.", "Take another.")
        if options.level == 14:
            raise RuntimeError("torch says no")
        node = graph["first"]
        text = f"{node.source} {self.name}{options.level}{options.kind}{context.seed}"
        return graph.replace(replace(node, source=text)), Report(self.name)


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return _registered("early", monkeypatch)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return _registered("late", monkeypatch, lasting=True)


def _registered(name: str, monkeypatch: pytest.MonkeyPatch, lasting: bool = False) -> Counting:
    made = Counting(name, lasting)
    lend_pass(monkeypatch, made.spec)
    return made


def context(**extra: Any) -> Context:
    return Context(case("mlp").store, **extra)


def base() -> Graph:
    return case("mlp").graph


def sweep(levels: tuple[float, ...] = (1.0, 2.0, 3.0), seeds: tuple[int, ...] = (0,), **extra: Any) -> Sweep:
    """early.level against the score, with and without `late`."""
    recipe = Recipe((Step("early", Marks()), Step("late", Marks())))
    both = tuple(Variant(str(on), (Setting(1, "", on),)) for on in (True, False))
    return Sweep(recipe, Axis(0, "level", levels), variants=both, seeds=seeds, **extra)


def test_steps_that_points_share_run_once(early: Counting, late: Counting) -> None:
    done = list(run(sweep(), base(), context()))
    assert len(done) == 7 and not any(o.error for o in done)
    assert [r[0] for r in early.runs] == [1.0, 2.0, 3.0] and len(late.runs) == 3
    assert done[0].variant == -1 and [o.place for o in done[1:3]] == [(0, 0, 0), (1, 0, 0)]
    assert done[1].seconds.keys() == {"early", "late"} and not done[2].seconds
    assert all(o.score["size_bytes"] > 0 and o.score["accuracy"] is None for o in done)


def test_seeds_are_added_to_those_of_the_steps(early: Counting, late: Counting) -> None:
    wish = sweep((1.0,), (0, 1, 2))
    done = list(run(replace(wish, recipe=wish.recipe.set(0, Step("early", Marks(), 5))), base(), context()))
    assert [r[2] for r in early.runs] == [5, 6, 7] and [r[2] for r in late.runs] == [0, 1, 2]
    assert len(done) == 1 + 2 * 3 and {o.seed for o in done} == {0, 1, 2}


def test_what_is_known_does_not_run_again(early: Counting, late: Counting) -> None:
    first = list(run(sweep((1.0, 2.0)), base(), context()))
    early.runs.clear()
    again = list(run(sweep((1.0, 2.0, 3.0)), base(), context(), known=first))
    assert [r[0] for r in early.runs] == [3.0] and len(again) == 7
    assert [o.reused for o in again] == [True] * 5 + [False] * 2
    assert [o.score for o in again[:5]] == [o.score for o in first]
    other = base().replace(replace(base()["first"], source="other"))
    list(run(sweep((1.0,)), other, context(), known=first))
    assert [r[0] for r in early.runs] == [3.0, 1.0]  # of another model nothing is known


def test_a_failed_point_stops_nothing(early: Counting, late: Counting) -> None:
    done = list(run(sweep((1.0, 13.0, 14.0, 3.0)), base(), context()))
    errors = {o.x: (o.error, o.hint) for o in done if o.error}
    assert errors[1] == ("Step 1 (early): Thirteen.", "Take another.")
    assert errors[2][0] == "RuntimeError: torch says no"
    assert [o.x for o in done if not o.error] == [0, 0, 0, 3, 3]
    again = list(run(sweep((1.0, 13.0)), base(), context(), known=done))
    assert [o.reused for o in again] == [True, True, True, False, False]  # what failed is tried again


def test_a_cancelled_sweep_keeps_its_points_and_goes_on(early: Counting, late: Counting) -> None:
    kept: list[Outcome] = []

    def progress(done: int, total: int, text: str) -> None:
        if len(kept) == 3 and "counting" in text:
            raise Cancelled("The job was cancelled.")

    with pytest.raises(Cancelled):
        for outcome in run(sweep(), base(), context(progress=progress)):
            kept.append(outcome)
    assert len(kept) == 3
    early.runs.clear()
    assert len(list(run(sweep(), base(), context(), known=kept))) == 7
    assert [r[0] for r in early.runs] == [2.0, 3.0]


def test_enough_ends_after_the_point_but_never_within_one(
    early: Counting, late: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Outcome] = []
    seen: list[bool] = []
    plain = early.spec.run
    early.spec = replace(early.spec, run=lambda g, o, c: (seen.append(c.enough()), plain(g, o, c))[1])
    lend_pass(monkeypatch, early.spec)
    found.extend(run(sweep(), base(), context(enough=lambda: len(seen) >= 1)))
    assert len(found) == 2 and seen == [False]


def test_progress_tells_points_and_what_they_do(early: Counting, late: Counting) -> None:
    told: list[tuple[int, int, str]] = []
    list(run(sweep((1.0,)), base(), context(progress=lambda *a: told.append(a))))
    assert (1, 3, "level 1 · True: counting") in told and told[-1][:2] == (3, 3)


def test_equal_graphs_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(graph: Graph, step: Step, context: Context) -> Any:
        calls.append(step.pass_name)
        return run_step(graph, step, context)

    opened = open_source("demo:digits-mlp", tmp_path)
    monkeypatch.setattr("espalier.passes.sweep.run.run_step", counted)
    recipe = Recipe((Step("prune", PruneOptions()),))
    wish = Sweep(
        recipe, Axis(0, "sparsity", (0.0, 0.5)), seeds=(0, 1, 2), score=EvaluateOptions("demo:digits", limit=64)
    )
    done = list(run(wish, opened.project.base, Context(opened.store)))
    assert len(done) == 7 and len(calls) == 2  # l1 knows no chance, and 0 % is the baseline
    assert done[1].score == done[0].score and done[0].score["interval"][0] < done[0].score["accuracy"]
    assert 0 <= done[2].score["accuracy"] <= 1
    assert done[0].score["n"] == 64


def test_the_baseline_is_the_state_where_the_sweep_begins(early: Counting, late: Counting) -> None:
    """Of a project whose recipe is one training, points are not compared with the weights before it."""
    wish = sweep((1.0, 2.0))
    started = replace(wish, baseline=wish.recipe)
    assert points(started)[0].recipe == wish.recipe and points(wish)[0].recipe == Recipe()
    assert (started.baseline_name, wish.baseline_name) == ("project at start", "opened")
    assert rows(started, [outcome(-1, 0, 0, 0.8)])[0]["variant"] == "baseline (project at start)"
    assert journal.load(journal.dump(Journal(started)).decode()).sweep == started


def test_points_say_where_training_did_not_help() -> None:
    done = [outcome(-1, 0, 0, 0.8), *(replace(outcome(0, 0, 0, 0.8), score={"accuracy": 0.8, "kept_step": k})
                                      for k in (0, 6))]  # fmt: skip
    assert [r["kept_step"] for r in rows(sweep((1.0,)), done)] == [None, 0, 6]
    assert "kept_step" not in rows(sweep((1.0,)), done[:1])[0]


def test_points_say_what_is_noise() -> None:
    """Two of 270 more than the baseline are noise; a third fewer are not."""
    samples = {-1: [True] * 264 + [False] * 6, 0: [True] * 266 + [False] * 4, 1: [True] * 180 + [False] * 90}
    done = [replace(outcome(v, 0, 0, None), score={"accuracy": sum(hits) / 270, "n": 270, "hits": hits_of(hits),
                                                   "guessing": 0.1}) for v, hits in samples.items()]  # fmt: skip
    base, near, far = rows(sweep((1.0,)), done)
    assert base["change"] is None and base["n"] == 270 and base["interval"] == wilson(264 / 270, 270)
    assert near["within_noise"] and near["change"] == pytest.approx(2 / 270) and not far["within_noise"]


# -- means, tables, estimates


def outcome(variant: int, x: int, seed: int, accuracy: float | None, error: str = "") -> Outcome:
    score = {} if accuracy is None else {"accuracy": accuracy, "size_bytes": 10}
    return Outcome(f"{variant}{x}{seed}", variant, x, seed, score, error)


def test_means_and_spreads() -> None:
    found = mean_of([1.0, 2.0, 4.0])
    assert found and math.isclose(found.mean, 7 / 3) and math.isclose(found.std, math.sqrt(7 / 3))
    assert (found.low, found.high, found.count) == (1.0, 4.0, 3)
    single = mean_of([2.0])
    assert single and single.std == 0 and mean_of([]) is None
    wish = sweep((1.0, 2.0), (0, 1))
    done = [outcome(-1, 0, 0, 0.9), outcome(0, 0, 0, 0.5), outcome(0, 0, 1, 0.7), outcome(0, 1, 0, None, "no"),
            outcome(1, 1, 1, 0.4)]  # fmt: skip
    lines = curves(wish, done, "accuracy")
    assert [[x for x, _ in line] for line in lines] == [[0], [1]] and math.isclose(lines[0][0][1].mean, 0.6)
    table = rows(wish, done)
    assert [r["variant"] for r in table] == ["baseline (opened)", "True", "True", "True", "False"]
    assert table[0]["early.level"] is None and table[3]["error"] == "no" and table[3]["accuracy"] is None
    means = mean_rows(wish, done)
    assert means[0]["early.level"] == 1.0 and means[0]["seeds"] == 2 and math.isclose(means[0]["accuracy_min"], 0.5)
    assert [m["variant"] for m in means] == ["True", "False"]


def test_points_in_words() -> None:
    wish = sweep((1.0, 2.0), (0, 1))
    assert point_text(wish, outcome(0, 1, 1, None)) == "level 2 · True · seed 1"
    assert point_text(Sweep(Recipe()), outcome(0, 0, 3, None)) == "seed 3"
    assert point_text(wish, outcome(-1, 0, 0, None)) == "baseline (opened)"


def test_the_estimate_counts_shared_steps_once(early: Counting, late: Counting) -> None:
    wish = replace(sweep((1.0, 2.0), (0, 1)), score=EvaluateOptions("demo:digits"))
    found = estimate(wish, {"early": 1.0, "late": 10.0})
    assert found.points == 9 and found.runs == {"early": 4, "late": 4, "evaluate": 9}
    assert found.seconds == 44.0 and found.untimed == ("evaluate",)
    rest = estimate(wish, {"early": 1.0}, [outcome(0, 0, 0, 0.5), outcome(1, 0, 0, 0.5)])
    assert rest.points == 7 and rest.runs["early"] == 3


# -- on disk


def test_a_journal_reads_back_and_forgives_a_cut_line(early: Counting, late: Counting, tmp_path: Path) -> None:
    wish = replace(sweep((1.0, 13.0), (0, 1)), score=EvaluateOptions("", limit=3), title="Levels")
    done = tuple(run(wish, base(), context()))
    text = journal.dump(Journal(wish, done)).decode()
    assert journal.load(text) == Journal(wish, done)
    cut = tmp_path / "cut.jsonl"
    cut.write_text(text[: len(text) - 20])
    found = journal.read(cut)
    assert found and found.sweep == wish and found.outcomes == done[:-1]
    assert journal.read(tmp_path / "none") is None
    extras = {"sweeps/001.jsonl": text.encode(), "sweeps/002.jsonl": b"\xff", "sweeps/003.jsonl": b"{}", "other": b"x"}
    assert list(journal.journals(extras)) == ["sweeps/001.jsonl"] and journal.member(extras) == "sweeps/004.jsonl"
    newer = json.loads(text.split("\n")[0])
    newer["sweep"]["version"] = 2
    cut.write_text(json.dumps(newer))
    assert journal.read(cut) is None


def test_worker_remembers_what_a_sweep_made(early: Counting, late: Counting) -> None:
    """To use a point's recipe runs nothing: sweep and replay share what they remember."""
    memo = Memo()
    wish = sweep()
    list(run(wish, base(), context(), memo))
    count = len(late.runs)
    replay(base(), points(wish)[-2].recipe, context(), memo)
    assert len(late.runs) == count


def test_what_is_known_is_told_after_enough_too(early: Counting, late: Counting) -> None:
    first = list(run(sweep(), base(), context()))
    kept = [o for o in first if o.x != 1]
    early.runs.clear()
    again = list(run(sweep(), base(), context(enough=lambda: True), known=kept))
    assert [o.place for o in again] == [o.place for o in kept] and not early.runs


@pytest.mark.slow
def test_points_of_data_that_changed_run_again(tmp_path: Path) -> None:
    opened, data = open_source("demo:reviews", tmp_path / "work"), tmp_path / "reviews.csv"
    rows_of = [("wonderful and lovely", 1), ("dreadful and boring", 0)]
    data.write_text("text,label\n" + "".join(f"{t},{k}\n" for t, k in rows_of * 4))
    sweep = Sweep(Recipe((Step("prune", PruneOptions(sparsity=0.1)),)), score=EvaluateOptions(str(data)))
    context = Context(opened.store, base=opened.project.base, reading=opened.project.source.reading)
    first = list(run(sweep, opened.project.base, context))
    again = list(run(sweep, opened.project.base, context, known=first))
    assert all(o.reused for o in again)
    data.write_text("text,label\n" + "".join(f"{t},{1 - k}\n" for t, k in rows_of * 4))
    other = list(run(sweep, opened.project.base, context, known=first))
    assert not any(o.reused for o in other)
    assert [o.score["accuracy"] for o in other] == [1 - o.score["accuracy"] for o in first]
