"""Jobs in several workers: which run side by side, which wait and why, with toy jobs in real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import espalier.app.jobs.schedule as schedule
from espalier.app.jobs import concurrency, worker_process
from espalier.app.jobs.runner import JobRunner, Workers
from espalier.app.jobs.status import status_text
from espalier.passes.jobs.kinds import Done, Failed, JobInfo, PluginJob, Stopped, Yielded
from tests.app.jobs.test_runner import Listener
from tests.passes import toy_worker
from tests.passes.toy_worker import Toy


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Two lanes; jobs that train are long, and `timed` ones run alone."""
    monkeypatch.setattr(worker_process, "_entry", toy_worker.entry)
    monkeypatch.setattr(schedule, "is_long", lambda job: getattr(job, "verb", "") == "train")
    monkeypatch.setattr(schedule, "runs_alone", lambda job: getattr(job, "verb", "") == "patient")
    made = Workers(2)
    yield made
    made.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def runner(workers: Workers, listener: Listener) -> Iterator[JobRunner]:
    made = JobRunner(listener, workers=workers)
    yield made
    made.close()


def run(runner: JobRunner, verb: str, value: Any = None) -> JobInfo:
    return runner.submit(verb, Toy(verb, value))  # type: ignore[arg-type]


def wait_until(good: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not good():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_short_job_runs_beside_a_training(runner: JobRunner, listener: Listener) -> None:
    training = run(runner, "train", 0.5)
    listener.begun(training)
    pids = [listener.end(run(runner, "pid")) for _ in range(2)]
    assert pids[0] == pids[1] == Done(runner.worker_pids[1]) != Done(runner.worker_pids[0])
    assert training.state == "running" and not runner.blocks(training.id)
    runner.stop_and_keep(training.id)
    assert listener.end(training) == Done("kept")


@pytest.mark.slow
def test_one_lane_is_left_for_short_jobs(runner: JobRunner, listener: Listener) -> None:
    first, second = run(runner, "train", 0.5), run(runner, "train", 0.25)
    listener.begun(first)
    assert listener.end(run(runner, "echo", 1)) == Done(1)
    assert second.state == "waiting" and runner.blocks(first.id)
    runner.stop_and_keep(first.id)
    listener.begun(second)
    assert not runner.blocks(second.id)
    runner.stop_and_keep(second.id)
    assert listener.end(second) == Done("kept")


@pytest.mark.slow
def test_what_measures_times_runs_alone(runner: JobRunner, listener: Listener) -> None:
    training = run(runner, "train", 0.5)
    listener.begun(training)
    timed = run(runner, "patient", 0.3)
    assert listener.end(run(runner, "echo", 1)) == Done(1), "a job behind it overtakes"
    assert timed.state == "waiting" and runner.blocks(training.id)
    runner.stop_and_keep(training.id)
    listener.begun(timed)
    late = run(runner, "train", 0.25)
    assert listener.end(timed) == Done(None)
    listener.begun(late)
    ends = [e.job.title for e in listener.events if type(e.event).__name__ == "Started"]
    assert ends == ["train", "echo", "patient", "train"]
    runner.cancel(late.id)


@pytest.mark.slow
def test_a_short_job_does_not_start_a_worker_for_a_short_wait(
    runner: JobRunner, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = run(runner, "busy", 0.5)
    listener.begun(busy)
    assert listener.end(run(runner, "echo", 1)) == Done(1)
    assert len(runner.worker_pids) == 1 and busy.state == "done"
    monkeypatch.setattr(schedule, "LASTING", 0.2)
    busy = run(runner, "busy", 30)
    listener.begun(busy)
    assert listener.end(run(runner, "echo", 2)) == Done(2)
    assert len(runner.worker_pids) == 2 and busy.state == "running"
    runner.cancel(busy.id)


def test_jobs_behind_new_plugins_wait_and_every_worker_gets_them(
    runner: JobRunner, listener: Listener, tmp_path: Path
) -> None:
    training = run(runner, "train", 0.5)
    listener.begun(training)
    assert listener.end(run(runner, "places")) == Done([])
    loading = runner.submit("load", PluginJob((tmp_path / "a.py",)))
    assert listener.end(run(runner, "places")) == Done([tmp_path / "a.py"])
    assert listener.end(loading) == Done(())
    runner.stop_and_keep(training.id)
    listener.end(training)
    assert listener.end(run(runner, "pid")) == Done(runner.worker_pids[0])
    assert listener.end(run(runner, "places")) == Done([tmp_path / "a.py"])


@pytest.mark.slow
def test_without_memory_a_job_waits_and_says_why(
    runner: JobRunner, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [1 << 30]
    monkeypatch.setattr(concurrency, "free", lambda: free[0] // 2)
    training = run(runner, "train", 0.5)
    listener.begun(training)
    waiting = run(runner, "echo", 1)
    wait_until(lambda: bool(waiting.waits))
    text = "queued: needs about 0.7 GiB beside the running job, 0.5 GiB are free"
    assert status_text(waiting, time.monotonic()) == text and runner.blocks(training.id)
    free[0] *= 4
    assert listener.end(waiting) == Done(1) and not waiting.waits
    runner.cancel(training.id)


@pytest.mark.slow
def test_a_worker_that_dies_takes_only_its_own_job(runner: JobRunner, listener: Listener) -> None:
    training = run(runner, "train", 0.5)
    listener.begun(training)
    busy = run(runner, "busy", 60)
    listener.begun(busy)
    os.kill(runner.worker_pids[1], signal.SIGKILL)
    assert isinstance(listener.end(busy), Failed) and training.state == "running"
    assert listener.end(run(runner, "echo", 1)) == Done(1)
    os.kill(runner.worker_pids[0], signal.SIGKILL)
    assert isinstance(listener.end(training), Failed)


@pytest.mark.slow
def test_an_idle_further_worker_ends_and_the_first_stays(
    runner: JobRunner, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = run(runner, "train", 0.5)
    listener.begun(training)
    listener.end(run(runner, "echo", 1))
    monkeypatch.setattr(schedule, "RETIRE", 0.5)
    time.sleep(1.5)
    assert len(runner.worker_pids) == 2, "it is kept while a job runs"
    first = runner.worker_pids[0]
    runner.stop_and_keep(training.id)
    wait_until(lambda: runner.worker_pids == [first])
    assert listener.end(run(runner, "pid")) == Done(first)


@pytest.mark.slow
def test_a_worker_is_started_ahead_for_what_comes_beside_a_long_job(
    runner: JobRunner, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "LASTING", 0.3)
    training = run(runner, "train", 0.5)
    listener.begun(training)
    wait_until(lambda: len(runner.worker_pids) == 2)
    runner.cancel(training.id)


@pytest.mark.slow
def test_clients_share_the_workers_and_end_only_their_own_jobs(workers: Workers, runner: JobRunner) -> None:
    here, there = Listener(), Listener()
    mine, other = JobRunner(here, workers=workers), JobRunner(there, workers=workers)
    training = run(mine, "train", 0.5)
    here.begun(training)
    queued, long = run(mine, "train", 0.25), run(other, "busy", 60)
    there.begun(long)
    mine.close()
    assert here.end(training) == Stopped() == here.end(queued) and long.state == "running"
    assert there.end(run(other, "echo", 3)) == Done(3) and long.state == "running"
    other.close()
    assert there.end(long) == Stopped()


def test_a_job_that_is_cancelled_between_two_parts_leaves_its_lane_alive(
    workers: Workers, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window may cancel a job after it was parked and before that was reported."""
    runner = JobRunner(listener, workers=workers)
    park = workers.schedule.park

    def parked(info: JobInfo, event: Any) -> Any:
        found = park(info, event)
        if isinstance(found, Yielded):
            runner.cancel(info.id)
        return found

    monkeypatch.setattr(workers.schedule, "park", parked)
    job = run(runner, "train", 0.5)
    listener.begun(job)
    runner.give_way(job.id)
    assert listener.end(job) == Stopped()
    assert listener.end(run(runner, "echo", 1)) == Done(1)
    runner.close()
    assert run(runner, "echo", 1).state == "stopped", "a closed window starts nothing"


@pytest.mark.slow
def test_a_worker_that_cannot_start_ahead_is_not_tried_at_once_again(
    runner: JobRunner, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "LASTING", 1e9)  # none is started ahead before that fails
    training = run(runner, "train", 0.5)
    listener.begun(training)
    tries = list[int]()

    def failing() -> None:
        tries.append(1)
        raise OSError

    monkeypatch.setattr("espalier.app.jobs.lane.WorkerProcess", failing)
    monkeypatch.setattr(schedule, "LASTING", 0.2)
    wait_until(lambda: bool(tries))
    time.sleep(1)
    assert len(tries) == 1
    runner.cancel(training.id)


@pytest.mark.slow
def test_plugins_that_were_stopped_leave_the_former_ones(runner: JobRunner, listener: Listener, tmp_path: Path) -> None:
    assert listener.end(runner.submit("load", PluginJob((tmp_path / "a.py",)))) == Done(())
    stopped = runner.submit("load", PluginJob((tmp_path / "slow",)))
    wait_until(lambda: stopped.state == "running")
    runner.cancel(stopped.id)
    assert listener.end(stopped) == Stopped()
    found = listener.end(run(runner, "places"))
    assert isinstance(found, Done) and tmp_path / "a.py" in found.result


@pytest.mark.slow
def test_jobs_that_yield_go_on_in_any_lane(runner: JobRunner, listener: Listener) -> None:
    first, second = run(runner, "train", 0.5), run(runner, "train", 0.25)
    listener.begun(first)
    assert runner.give_way(first.id) and not runner.give_way(second.id)
    listener.begun(second)
    runner.resume(first.id)
    assert runner.blocks(second.id)
    runner.cancel(second.id)
    wait_until(lambda: first.state == "running")
    runner.stop_and_keep(first.id)
    assert listener.end(first) == Done("kept")
