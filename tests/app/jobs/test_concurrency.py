"""Which jobs are long, measure times, need the same folder, and how much memory they are expected to take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from espalier.app.jobs import concurrency
from espalier.app.jobs.concurrency import BASE, conflicts, is_long, memory, runs_alone, too_little_memory
from espalier.app.jobs.schedule import Schedule
from espalier.kernels.bench.request import Request
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Location
from espalier.passes.base import NoOptions, is_timed
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import AnalyseJob, JobInfo, OpenJob, ReplayJob, SearchJob, SweepJob
from espalier.passes.search.search import Search
from espalier.passes.search.spec import Goal, SearchSpec
from espalier.passes.sweep.sweep import Sweep

INFO, WORK = SourceInfo("x", "X"), Path("work")


def analysis(name: str) -> AnalyseJob:
    return AnalyseJob(Graph({}), Step(name, NoOptions()), {}, WORK, INFO)


def search(spec: SearchSpec) -> SearchJob:
    return SearchJob(Search(spec, Recipe(), Graph({})), "", {}, WORK, INFO)


def training(folder: Path = WORK) -> ReplayJob:
    return ReplayJob(Graph({}), Recipe((Step("finetune", NoOptions()),)), {}, folder, INFO)


SWEEP = SweepJob(Sweep(Recipe()), Graph({}), {}, WORK, INFO)
PRUNING = ReplayJob(Graph({}), Recipe((Step("prune", NoOptions()),)), {}, WORK, INFO)


def test_long_jobs() -> None:
    assert all(map(is_long, (training(), SWEEP, search(SearchSpec()), KernelsJob(Request(("add",))))))
    assert not any(map(is_long, (PRUNING, OpenJob("x", WORK), analysis("evaluate"), LabJob())))
    cached = replace(training(), cached=(1, Graph({})))
    assert not is_long(cached), "its training has been run"


@pytest.mark.parametrize("name", ["layer_latency", "profile", "compile"])
def test_analyses_that_measure_times_run_alone(name: str) -> None:
    assert is_timed(name) and runs_alone(analysis(name)) and not runs_alone(analysis("evaluate"))


def test_searches_by_measured_time_run_alone() -> None:
    assert runs_alone(search(SearchSpec(goals=(Goal("latency"),))))
    assert runs_alone(search(SearchSpec(goals=(Goal("accuracy"),), within=("latency<=0.1",))))
    assert not runs_alone(search(SearchSpec(goals=(Goal("accuracy"), Goal("size_bytes")))))
    assert not runs_alone(search(SearchSpec(goals=(Goal("of a plug-in"),)))), "it fails when it runs"
    assert runs_alone(KernelsJob(Request(("add",)))) and not runs_alone(LabJob())


def test_two_trainings_of_one_document_conflict() -> None:
    assert conflicts(training(), SWEEP) and conflicts(SWEEP, training())
    assert not conflicts(training(), training(Path("other"))) and not conflicts(training(), PRUNING)
    assert not conflicts(training(), analysis("evaluate"))


def test_memory_is_a_worker_and_some_copies_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = Location(Path("f"), 0, "float32", (250,))
    job = replace(training(), locations={"a": place, "b": place})  # type: ignore[arg-type]
    assert memory(job, has_worker=True) == 3 * 2000 and memory(job, has_worker=False) == BASE + 6000
    assert memory(LabJob(), has_worker=True) == 0
    monkeypatch.setattr(concurrency, "free", lambda: 8000)
    assert not too_little_memory(JobInfo(1, "t", job), has_worker=True)
    assert "0.7 GiB" in too_little_memory(JobInfo(1, "t", job), has_worker=False)


def test_a_job_that_waits_to_run_alone_is_not_overtaken_by_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "free", lambda: 1 << 40)
    schedule = Schedule(3)
    jobs = [training(), analysis("profile"), replace(SWEEP, workdir=Path("other")), analysis("evaluate")]
    first, timed, long, short = (JobInfo(number, "t", job) for number, job in enumerate(jobs))
    for info in (first, timed, long, short):
        schedule.add(info)
    assert schedule._take(0) is first
    assert schedule._take(1) is short, "which ends soon"
    assert schedule._take(2) is None, "the long one would keep the timed one waiting, and the next long one again"
    schedule._running.clear()
    assert schedule._take(0) is timed


def test_a_waiting_job_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "free", lambda: 1 << 40)
    schedule = Schedule(2)

    def why(*running: Any, job: Any) -> str:
        lanes = {lane: JobInfo(lane, f"Job {lane}", each) for lane, each in enumerate(running)}
        schedule._begun = dict.fromkeys(lanes, -1e9)
        return schedule._lane_of(JobInfo(9, "t", job), lanes)[1]

    evaluation = analysis("evaluate")
    assert why(evaluation, job=analysis("profile")) == "it measures times, so that no other job may run"
    assert why(analysis("profile"), job=evaluation) == "Job 0 measures times, so that no other job may run"
    assert why(training(), job=training(Path("other"))) == "one process is kept for short jobs"
    assert why(evaluation, evaluation, job=evaluation) == "all processes work"
    assert why(training(), job=evaluation) == "" and why(job=training()) == ""
    monkeypatch.setattr(concurrency, "free", lambda: 0)
    assert "GiB" in why(training(), job=evaluation)
