"""A training in a recipe: run once, kept in projects, stopped in a worker."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.app.jobs.runner import JobRunner
from espalier.model.document.project import keys_of, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Report
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, Metric, OpenJob, ReplayJob
from espalier.passes.recipes.config import decode_options
from espalier.passes.recipes.replay import Memo, milestones, prefix_keys, replay
from espalier.passes.transform.finetune import FinetuneOptions
from tests.passes.training.digits import SHORT, context, opened, pruned, values
from tests.patience import PATIENCE
from tests.registered import lend_pass


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per training that was run."""
    runs: list[int] = []
    spec = PASSES.get("finetune")

    def counted(graph: Graph, options: FinetuneOptions, held: Context) -> tuple[Graph, Report]:
        runs.append(1)
        return spec.run(graph, options, held)

    lend_pass(monkeypatch, replace(spec, run=counted))
    return runs


def recipe(*more: Step) -> Recipe:
    prune = Step("prune", decode_options("prune", {"sparsity": 0.3}))
    return Recipe((prune, Step("finetune", decode_options("finetune", SHORT)), *more))


@pytest.mark.slow
def test_edits_after_a_training_do_not_train_again(trainings: list[int], base: Graph) -> None:
    memo = Memo(limit=4)
    for ratio in (0.4, 0.5, 0.6, 0.7, 0.8, 0.5):
        replay(base, recipe(pruned(ratio)), context(), memo)
    replay(base, recipe(), context(), memo)
    assert len(trainings) == 1 and len(memo.graphs) == 4


@pytest.mark.slow
def test_a_saved_project_holds_what_was_trained(trainings: list[int], base: Graph, tmp_path: Path) -> None:
    whole = recipe(pruned(0.5))
    done = replay(base, whole, context())
    kept = milestones(whole, done.results)
    assert set(kept) == {2}
    project = replace(opened().project, recipe=whole, graph=done.graph, milestones=kept)
    save_project(project, opened().store, tmp_path / "p.espalier")
    store = WeightStore(tmp_path)
    back = load_project(tmp_path / "p.espalier", store)
    assert back.milestones == kept and back.graph == done.graph
    memo = Memo()
    for count, graph in back.milestones.items():
        memo.remember(back.recipe.active[:count], graph)
    other = replay(back.base, recipe(pruned(0.7)), Context(store), memo)
    assert len(trainings) == 1 and prefix_keys(whole.active)[1] in memo.graphs
    assert values(other.graph, store).keys() == values(done.graph).keys()
    assert all(torch.equal(v, values(done.graph)[n]) for n, v in values(other.graph, store).items())


@pytest.mark.slow
def test_the_last_step_needs_no_milestone(trainings: list[int], base: Graph) -> None:
    done = replay(base, recipe(), context())
    assert milestones(recipe(), done.results) == {}


@pytest.mark.slow
def test_in_the_worker_figures_arrive_and_stop_and_keep_works(tmp_path: Path) -> None:
    """A real process: open, train without end, ask it to finish at the third figure; a project holds the result."""
    heard: list[JobEvent] = []
    told = threading.Event()
    runner = JobRunner(lambda e: (heard.append(e), told.set()))

    def end(job: Any, keep_at: int = 0) -> Any:
        info = runner.submit("job", job)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            told.wait(0.1)
            told.clear()
            own = [e.event for e in list(heard) if e.job.id == info.id]
            if keep_at and sum(isinstance(e, Metric) for e in own) >= keep_at:
                runner.stop_and_keep(info.id)
            if own and isinstance(own[-1], TERMINAL):
                assert isinstance(own[-1], Done), own[-1]
                return own[-1].result, info
        raise AssertionError("the job did not end")

    try:
        found, _ = end(OpenJob("demo:digits-mlp", tmp_path / "work"))
        step = Step("finetune", decode_options("finetune", SHORT | {"max_steps": 100_000, "keep": "last"}))
        job = ReplayJob(found.project.base, Recipe((step,)), found.locations, tmp_path / "work", found.project.source)
        done, info = end(job, keep_at=3)
    finally:
        runner.close()
    summary = done.results[-1].report.summary
    assert summary["ended"] == "stopped by hand" and 0 < summary["steps"] < 100_000
    assert done.graph != found.project.base and keys_of(done.graph) <= done.locations.keys()
    assert [s for s, _ in info.metrics["training loss"]] == list(range(1, summary["steps"] + 1))
    assert info.metrics["validation accuracy"][-1][0] == summary["steps"]


def test_it_lasts_and_takes_a_job() -> None:
    spec = PASSES.get("finetune")
    assert spec.lasting and not spec.instant and spec.options() == FinetuneOptions()
