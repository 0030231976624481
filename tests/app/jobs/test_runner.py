"""Jobs end with exactly one terminal event, whatever they do: fail, print, hang, die, send what cannot be read."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import espalier.app.jobs.lane as lane_module
from espalier.app.jobs import worker_process
from espalier.app.jobs.runner import JobRunner
from espalier.model.document.project import keys_of, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.integer import Integer
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.analysis.statistics import StatisticsOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.jobs.kinds import (
    TERMINAL,
    AnalyseJob,
    Done,
    Event,
    Failed,
    JobEvent,
    JobInfo,
    OpenJob,
    PluginJob,
    Progress,
    ReplayJob,
    Started,
    Stopped,
)
from espalier.passes.jobs.serving import INDIVISIBLE
from espalier.passes.select import Select
from tests.model.zoo import case
from tests.passes import toy_worker
from tests.passes.toy_worker import Toy, Unsendable
from tests.patience import PATIENCE, until

# -- the runner, with a real process


class Listener:
    """Collects events, and checks that a job has one terminal event and nothing after it."""

    def __init__(self) -> None:
        self.events: list[JobEvent] = []
        self.changed = threading.Condition()

    def __call__(self, event: JobEvent) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def of(self, job: JobInfo) -> list[Event]:
        return [e.event for e in self.events if e.job is job]

    def wait(self, good: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(good, PATIENCE), [e.event for e in self.events]

    def end(self, job: JobInfo) -> Event:
        self.wait(lambda: any(isinstance(e, TERMINAL) for e in self.of(job)))
        return self.of(job)[-1]

    def begun(self, job: JobInfo) -> None:
        self.wait(lambda: any(isinstance(e, Progress) for e in self.of(job)))

    def check(self) -> None:
        for job in {e.job.id: e.job for e in self.events}.values():
            terminal = [isinstance(e, TERMINAL) for e in self.of(job)]
            assert terminal.count(True) == 1 and terminal[-1], self.of(job)


class ToyRunner(JobRunner):
    """The runner over toy jobs."""

    def run(self, verb: str, value: Any = None, **options: Any) -> JobInfo:
        return self.submit(verb, Toy(verb, value), **options)  # type: ignore[arg-type]


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.check()


@pytest.fixture
def runner(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyRunner]:
    monkeypatch.setattr(worker_process, "_entry", toy_worker.entry)
    made = ToyRunner(listener)
    yield made
    made.close()
    assert not any(lane.is_alive for lane in made._workers.lanes)
    assert not [p for p in multiprocessing.active_children() if p.name == "espalier-worker"]


def test_jobs_run_one_after_another(runner: ToyRunner, listener: Listener) -> None:
    jobs = [runner.run("echo", i) for i in range(3)]
    assert [listener.end(j) for j in jobs] == [Done(0), Done(1), Done(2)]
    assert [e.job for e in listener.events] == [j for j in jobs for _ in range(2)]
    assert [j.state for j in jobs] == ["done"] * 3 and len({j.id for j in jobs}) == 3
    assert all(j.finished is not None and j.finished >= j.started for j in jobs)


def test_progress_and_log_stay_with_the_job(runner: ToyRunner, listener: Listener) -> None:
    counting, printing = runner.run("count", 2), runner.run("print", "hello")
    assert listener.end(counting) == Done(2) and counting.progress == Progress(2, 2, "step 2")
    assert listener.end(printing) == Done("printed") and printing.log[:2] == ["hello", "to the other stream"]


def test_a_job_can_be_asked_for_what_it_has(runner: ToyRunner, listener: Listener) -> None:
    job, waiting = runner.run("train", 0.5), runner.run("train", 0.25)
    listener.begun(job)
    runner.stop_and_keep(waiting.id)  # it has nothing yet: goes on waiting
    runner.stop_and_keep(job.id)
    assert listener.end(job) == Done("kept") and job.metrics == {"loss": [(1, 0.5)]}
    listener.begun(waiting)
    assert waiting.finished is None
    runner.stop_and_keep(waiting.id)
    assert listener.end(waiting) == Done("kept")


@pytest.mark.slow
def test_a_job_waits_and_goes_on(runner: ToyRunner, listener: Listener) -> None:
    job = runner.run("patient", 100)
    for _ in range(2):
        listener.begun(job)
        runner.pause(job.id)
        listener.wait(lambda: job.state == "paused")
        told = len(listener.events)
        time.sleep(0.3)
        assert len(listener.events) == told  # it does nothing
        runner.resume(job.id)
        listener.wait(lambda: job.state == "running" and isinstance(listener.events[-1].event, Progress))
    runner.pause(job.id)
    listener.wait(lambda: job.state == "paused")
    runner.cancel(job.id)
    assert listener.end(job) == Stopped()
    kept = runner.run("train", 0.5)
    listener.begun(kept)
    runner.pause(kept.id)
    runner.stop_and_keep(kept.id)
    runner.pause(kept.id)  # too late
    assert listener.end(kept) == Done("kept")


def test_an_urgent_job_goes_first(runner: ToyRunner, listener: Listener) -> None:
    first = runner.run("patient", 0.5)
    listener.begun(first)
    later, urgent = runner.run("echo", 1), runner.run("echo", 2, urgent=True)
    listener.end(later)
    order = [e.job for e in listener.events if isinstance(e.event, Started)]
    assert order == [first, urgent, later]


def test_the_worker_stays_warm(runner: ToyRunner, listener: Listener) -> None:
    verbs = {"pid": None, "fail": ("no", "", None), "bug": "x", "print": "x"}
    ends = [listener.end(runner.run(verb, verbs[verb])) for verb in ("pid", "fail", "pid", "bug", "print", "pid")]
    assert [e.result for e in ends[::2] if isinstance(e, Done)][:1] == [runner.worker_pid]
    assert ends[0] == ends[2] == ends[5]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_killed_worker_is_one_failure(number: int, runner: ToyRunner, listener: Listener) -> None:
    job, after = runner.run("die", int(number)), runner.run("echo", 1)
    event = listener.end(job)
    assert isinstance(event, Failed) and f"signal {int(number)}" in event.message and event.hint
    assert job.state == "failed" and listener.end(after) == Done(1)


def test_kill_minus_9_from_outside(runner: ToyRunner, listener: Listener) -> None:
    job = runner.run("deaf", 100)
    listener.begun(job)
    pid = runner.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    event = listener.end(job)
    assert isinstance(event, Failed) and "signal 9" in event.message
    assert listener.end(runner.run("echo", 1)) == Done(1) and runner.worker_pid != pid


@pytest.mark.slow
def test_a_worker_killed_while_idle_is_replaced(runner: ToyRunner, listener: Listener) -> None:
    """Whenever it is noticed: the next job is not to blame."""
    for pause in (0, 0.2):
        first = listener.end(runner.run("pid"))
        assert isinstance(first, Done)
        os.kill(first.result, signal.SIGKILL)
        time.sleep(pause)
        assert listener.end(runner.run("echo", 2)) == Done(2)


def test_an_exit_code_is_told(runner: ToyRunner, listener: Listener) -> None:
    event = listener.end(runner.run("exit", 3))
    assert isinstance(event, Failed) and "exit code 3" in event.message


@pytest.mark.slow
def test_a_result_before_death_counts(runner: ToyRunner, listener: Listener) -> None:
    assert listener.end(runner.run("done_and_die", 5)) == Done(5)
    assert listener.end(runner.run("echo", 1)) == Done(1)


def test_cancelling_a_running_job(runner: ToyRunner, listener: Listener) -> None:
    job = runner.run("patient", 100)
    listener.begun(job)
    pid = runner.worker_pid
    runner.cancel(job.id)
    assert listener.end(job) == Stopped() and job.state == "stopped"
    assert listener.end(runner.run("pid")) == Done(pid)  # it stopped by itself: the worker is still warm


def test_a_cancelled_job_that_fails_as_its_files_are_removed_is_stopped(
    runner: ToyRunner, listener: Listener, tmp_path: Path
) -> None:
    (file := tmp_path / "journal").write_bytes(b"")
    job = runner.run("bereft", str(file))
    listener.begun(job)
    runner.cancel(job.id)
    file.unlink()
    assert listener.end(job) == Stopped() and job.state == "stopped"


@pytest.mark.slow
def test_cancelling_a_job_that_does_not_ask_keeps_its_worker_warm(runner: ToyRunner, listener: Listener) -> None:
    """It is broken off between two operations, never in a message; a new worker would load torch again."""
    for verb in ("busy", "busy", "talkative", "talkative"):
        job = runner.run(verb, 10 * PATIENCE)
        listener.begun(job)
        pid = runner.worker_pid
        runner.cancel(job.id)
        assert listener.end(job) == Stopped()
        assert listener.end(runner.run("pid")) == Done(pid)


@pytest.mark.slow
def test_cancelling_before_the_worker_has_loaded_is_no_death(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "_entry", toy_worker.late_entry)
    monkeypatch.setattr(lane_module, "GRACE", 0.2)
    made = ToyRunner(listener)
    try:
        job = made.run("patient", PATIENCE)
        while made.worker_pid is None:
            time.sleep(0.01)
        pid = made.worker_pid
        made.cancel(job.id)
        assert listener.end(job) == Stopped() and listener.of(job) == [Stopped()], "it was not sent"
        assert listener.end(made.run("pid")) == Done(pid), "what it had loaded was not lost"
    finally:
        made.close()


@pytest.mark.slow
def test_the_next_job_runs_whatever_went_wrong_in_the_window(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing a job reads the document, in the thread without which no job would end."""
    faults: list[Exception] = [RuntimeError("dictionary changed size"), MemoryError()]

    def prepared(job: Any) -> Any:
        if faults:
            raise faults.pop()
        return job

    monkeypatch.setattr(worker_process, "_entry", toy_worker.entry)
    made = ToyRunner(listener, prepared)
    try:
        for word in ("MemoryError", "dictionary changed size"):
            end = listener.end(made.run("echo", 1))
            assert isinstance(end, Failed) and word in end.message and end.hint and end.details
        assert listener.end(made.run("echo", 2)) == Done(2)
    finally:
        made.close()


@pytest.mark.slow
def test_cancelling_amid_an_import_leaves_no_half_module(runner: ToyRunner, listener: Listener, tmp_path: Path) -> None:
    """Python forgets a module whose import is broken off, but not its parts: no later job could import it."""
    (tmp_path / "slowly").mkdir()
    (tmp_path / "slowly" / "__init__.py").write_text("from slowly import part\nwhole = part.held")
    (tmp_path / "slowly" / "part.py").write_text(
        "import sys, time\nassert not hasattr(sys, 'begun'), 'imported twice'\nsys.begun = True\n"
        "until = time.monotonic() + 0.8\nwhile time.monotonic() < until:\n    sum(range(1000))\nheld = 'whole'"
    )
    job = runner.run("importing", str(tmp_path))
    listener.begun(job)
    pid = runner.worker_pid
    runner.cancel(job.id)
    listener.end(job)
    assert listener.end(runner.run("importing", str(tmp_path))) == Done("whole")
    assert listener.end(runner.run("pid")) == Done(pid)


@pytest.mark.slow
def test_cancelling_amid_a_compilation_leaves_numba_whole(runner: ToyRunner, listener: Listener) -> None:
    """A generator that an exception has left is at its end: each later compilation raised StopIteration."""
    job = runner.run("registering", 0.8)
    listener.begun(job)
    pid = runner.worker_pid
    runner.cancel(job.id)
    listener.end(job)
    assert listener.end(runner.run("registering", 0.0)) == Done([])
    assert listener.end(runner.run("pid")) == Done(pid)


@pytest.mark.parametrize(
    ("file", "yes"),
    [("/usr/lib/python3/dist-packages/numba/core/compiler.py", True),
     ("C:\\Python\\Lib\\site-packages\\llvmlite\\ir\\values.py", True), ("<frozen importlib._bootstrap>", True),
     ("/home/me/numba/kernels.py", False), ("/usr/lib/python3/dist-packages/torch/nn/modules/module.py", False)],
)  # fmt: skip
def test_only_imports_and_compilations_are_indivisible(file: str, yes: bool) -> None:
    assert bool(INDIVISIBLE.search(file)) == yes


@pytest.mark.slow
def test_cancelling_a_deaf_job_ends_its_worker(runner: ToyRunner, listener: Listener) -> None:
    job = runner.run("deaf", 10 * PATIENCE)  # nobody waits for that
    listener.begun(job)
    pid = runner.worker_pid
    runner.cancel(job.id)
    assert listener.end(job) == Stopped()
    event = listener.end(runner.run("pid"))
    assert isinstance(event, Done) and event.result != pid
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(pid)), 0)


def test_cancelling_a_waiting_job(runner: ToyRunner, listener: Listener) -> None:
    running, waiting = runner.run("patient", 0.5), runner.run("echo", 1)
    listener.begun(running)
    runner.cancel(waiting.id)
    assert listener.of(waiting) == [Stopped()] and waiting.state == "stopped"
    assert listener.end(running) == Done(None)


def test_cancelling_what_is_over_does_nothing(runner: ToyRunner, listener: Listener) -> None:
    job = runner.run("echo", 1)
    listener.end(job)
    runner.cancel(job.id)
    runner.cancel(999)
    assert listener.end(runner.run("echo", 2)) == Done(2) and len(listener.of(job)) == 2


def test_a_job_that_cannot_be_sent_fails(runner: ToyRunner, listener: Listener) -> None:
    event = listener.end(runner.run("echo", Unsendable()))
    assert isinstance(event, Failed) and "cannot pickle this" in event.message and event.hint
    assert listener.end(runner.run("echo", 1)) == Done(1)


def test_a_job_that_the_worker_cannot_read_fails(runner: ToyRunner, listener: Listener) -> None:
    event = listener.end(runner.run("echo", toy_worker.Poison()))
    assert isinstance(event, Failed) and event.message
    assert listener.end(runner.run("echo", 1)) == Done(1)


@pytest.mark.parametrize("verb", ["poison", "unsendable"])
def test_a_result_that_does_not_arrive_fails(verb: str, runner: ToyRunner, listener: Listener) -> None:
    event = listener.end(runner.run(verb))
    assert isinstance(event, Failed) and event.hint
    assert listener.end(runner.run("echo", 1)) == Done(1)


def test_a_worker_that_replaces_another_gets_its_plugins(runner: ToyRunner, listener: Listener) -> None:
    assert listener.end(runner.submit("load", PluginJob((Path("mine"),)))) == Done(())
    assert isinstance(listener.end(runner.run("exit", 3)), Failed)
    job = runner.run("places")
    assert listener.end(job) == Done([Path("mine")])
    assert [type(e) for e in listener.of(job)] == [Started, Done], "nothing of the loading is told"
    assert listener.end(runner.run("places")) == Done([Path("mine")]), "once a worker"


def test_plugins_that_kill_are_not_given_again(runner: ToyRunner, listener: Listener) -> None:
    assert isinstance(listener.end(runner.submit("load", PluginJob((Path("deadly"),)))), Failed)
    assert listener.end(runner.run("places")) == Done([])


def test_large_results_arrive(runner: ToyRunner, listener: Listener) -> None:
    data = os.urandom(3_000_000)
    assert listener.end(runner.run("echo", data)) == Done(data)


def test_a_result_goes_when_it_was_taken(runner: ToyRunner, listener: Listener) -> None:
    """The thread that waits for the next job would hold the graphs of a closed document."""
    done = listener.end(runner.run("echo", {1, 2, 3}))
    assert done == Done({1, 2, 3}) and isinstance(done, Done)
    result = weakref.ref(done.result)
    del done
    listener.events.clear()
    until(lambda: result() is None)


def test_closing_ends_all_jobs(runner: ToyRunner, listener: Listener) -> None:
    running, waiting = runner.run("deaf", 2 * PATIENCE), runner.run("echo", 1)
    listener.begun(running)
    start = time.monotonic()
    runner.close()
    assert time.monotonic() - start < PATIENCE
    assert listener.of(running)[-1] == Stopped() and listener.of(waiting) == [Stopped()]
    runner.close()


# -- the real worker: torch, models, projects


@pytest.mark.slow
def test_the_real_worker(tmp_path: Path) -> None:
    """Open, replay, report, save, die, replay again, open what was saved: one job after another."""
    listener = Listener()
    runner = JobRunner(listener)
    work, path = tmp_path / "work", tmp_path / "p.espalier"
    recipe = Recipe((
        Step("prune", PruneOptions(0.5)),
        Step("quantize", QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(8, 6)}),))),
    ))  # fmt: skip

    def result(job: Any) -> Any:
        event = listener.end(runner.submit("job", job))
        assert isinstance(event, Done), event
        return event.result

    try:
        opened = result(OpenJob("demo:digits-mlp", work))
        base = opened.project.base
        assert set(opened.locations) >= keys_of(base) and set(opened.seconds) == {"capture", "raise", "check"}
        replay = ReplayJob(base, recipe, opened.locations, work, opened.project.source)
        done = result(replay)
        assert [r.report.pass_name for r in done.results] == ["prune", "quantize"]
        graph = done.graph
        assert graph == done.results[-1].graph
        assert set(done.locations) == keys_of(*(r.graph for r in done.results))
        locations = {**opened.locations, **done.locations}
        report = result(
            AnalyseJob(graph, Step("statistics", StatisticsOptions()), locations, work, opened.project.source)
        )
        assert report.pass_name == "statistics" and report.summary["zeros"] > 0
        project = opened.project.__class__(opened.project.source, base, recipe, graph)
        (store := WeightStore(work)).add(locations)
        places = save_project(project, store, path, everything=True).places
        assert keys_of(base, graph) == set(places)
        store = WeightStore(work)
        assert load_project(path, store) == project
        assert all(store.get(k).key() == k for k in keys_of(base, graph))

        refused = listener.end(runner.submit("open", OpenJob("demo:nothing", work)))
        assert isinstance(refused, Failed) and not refused.details and refused.hint
        os.kill(int(str(runner.worker_pid)), signal.SIGKILL)
        assert [r.graph for r in result(replay).results] == [r.graph for r in done.results]
        assert result(OpenJob(str(path), tmp_path / "other", origin=Origin.TYPED)).project == project
    finally:
        runner.close()
    listener.check()


def test_jobs_travel_without_loss() -> None:
    graph = case("many").graph
    job = ReplayJob(graph, Recipe((Step("prune", PruneOptions(0.5)),)), {}, Path("work"), SourceInfo("x", "X"))
    back = pickle.loads(pickle.dumps(job))
    assert back == job and list(back.base.nodes) == list(graph.nodes)
