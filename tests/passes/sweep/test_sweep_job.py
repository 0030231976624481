"""A sweep as a job of the worker: outcomes on their way one by one, and its graphs at hand for a replay after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import espalier.passes.jobs.worker as worker
from espalier.model.document.document import Document, State
from espalier.model.document.project import keys_of, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.opening import open_source
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Cancelled
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import PartialResult, ReplayJob, SweepJob
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep.results import Outcome
from espalier.passes.sweep.sweep import Axis, Setting, Sweep, Variant, points
from espalier.passes.transform.finetune import FinetuneOptions


class Ear:
    """A channel that remembers; `stop` after so many outcomes cancels."""

    def __init__(self, stop: int = 0) -> None:
        self.found: list[Outcome] = []
        self.stop = stop

    def send(self, event: Any) -> None:
        if isinstance(event, PartialResult):
            self.found.append(event.part)

    def progress(self, done: int, total: int, text: str) -> None:
        if self.stop and len(self.found) >= self.stop:
            raise Cancelled("The job was cancelled.")

    def metric(self, name: str, step: int, value: float) -> None:
        raise AssertionError("a sweep tells no figures of its trainings")

    def enough(self) -> bool:
        return False

    def paused(self) -> bool:
        return False


@pytest.mark.slow
def test_outcomes_come_one_by_one_and_graphs_stay_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_source("demo:digits-mlp", tmp_path)
    project, store = opened.project, opened.store
    store.flush("base")
    options = FinetuneOptions(data="demo:digits", max_steps=3, validate=False, keep="last", learning_rate=0.01)
    recipe = Recipe((Step("prune", PruneOptions(0.3)), Step("finetune", options)))
    both = (Variant("without", (Setting(1, "", False),)), Variant("with"))
    sweep = Sweep(
        recipe, Axis(0, "sparsity", (0.3, 0.6)), variants=both, score=EvaluateOptions("demo:digits", limit=50)
    )
    job = SweepJob(sweep, project.base, store.locate(keys_of(project.base)), tmp_path, project.source)
    cut = Ear(stop=3)
    with pytest.raises(Cancelled):
        worker.handle(job, cut)  # type: ignore[arg-type]
    assert len(cut.found) == 3
    ear = Ear()
    again = SweepJob(sweep, project.base, job.locations, tmp_path, job.source, outcomes=tuple(cut.found))
    assert worker.handle(again, ear) == 5  # type: ignore[arg-type]
    assert [o.reused for o in ear.found] == [True] * 3 + [False] * 2 and not any(o.error for o in ear.found)
    trained = ear.found[-1]
    assert "finetune" in trained.seconds

    def never(*given: object) -> None:
        raise AssertionError("it was trained already")

    monkeypatch.setattr("espalier.passes.recipes.replay.run_step", never)
    wish = points(sweep)[-1].recipe
    replayed = worker.handle(ReplayJob(project.base, wish, {}, tmp_path, job.source), Ear())  # type: ignore[arg-type]
    assert set(replayed.locations) >= {w.key for w in replayed.graph.weights.values() if w.key}


def test_sweeps_lie_in_the_project_beside_the_recipe(tmp_path: Path) -> None:
    opened = open_source("demo:digits-mlp", tmp_path / "work")
    document = Document(opened.project, opened.store)
    assert not document.dirty
    document.keep("sweeps/001.jsonl", b"{}\n")
    assert document.dirty
    path = tmp_path / "p.espalier"
    save_project(document.snapshot(), opened.store, path)
    kept = document.project.extras
    document.keep("sweeps/002.jsonl", b"later")
    document.saved(path, document.present, kept)
    assert document.dirty  # what came meanwhile is not in the file
    document.keep("sweeps/002.jsonl", None)
    assert not document.dirty and document.path == path
    assert load_project(path, WeightStore(tmp_path)).extras == {"sweeps/001.jsonl": b"{}\n"}
    document.commit("Edit", State(Recipe((Step("prune", PruneOptions()),)), document.graph))
    assert document.dirty
    document.undo()
    assert not document.dirty
