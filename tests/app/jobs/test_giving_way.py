"""A job that makes room for others, with the real worker: one job from its request to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

import espalier.app.jobs.worker_process as worker_process
from espalier.app.jobs.queue import JobQueue, Rest
from espalier.app.jobs.runner import JobRunner
from espalier.passes.jobs.kinds import Done, JobEvent, JobInfo, Paused, Progress, Started, Stopped, Yielded
from tests.passes import toy_worker
from tests.passes.toy_worker import Toy

pytestmark = pytest.mark.gui


@pytest.fixture
def queue(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobQueue]:
    """A queue over a worker that runs toys."""
    monkeypatch.setattr(worker_process, "_entry", toy_worker.entry)
    made = JobQueue(JobRunner)
    yield made
    made.end_jobs()


def events(queue: JobQueue) -> list[tuple[str, type]]:
    """What is heard from now on, by title, without progress and figures."""
    told: list[tuple[str, type]] = []
    shown = (Started, Paused, Yielded, Done, Stopped)

    def hear(heard: JobEvent) -> None:
        if isinstance(heard.event, shown):
            told.append((heard.job.title, type(heard.event)))

    queue.job_event.connect(hear)
    return told


def train(queue: JobQueue, results: list[Any]) -> JobInfo:
    """A job that works until it is asked for what it has."""
    return queue.submit("long", Toy("train", 0.5), results.append)  # type: ignore[arg-type]


def begun(qtbot: QtBot, job: JobInfo) -> None:
    """Wait until it is at work."""
    qtbot.waitUntil(lambda: job.state == "running" and isinstance(job.progress, Progress))


def test_a_job_makes_room_and_goes_on_behind(queue: JobQueue, qtbot: QtBot) -> None:
    told, results = events(queue), list[Any]()
    job = train(queue, results)
    begun(qtbot, job)
    queue.submit("short", Toy("echo", 1), results.append)  # type: ignore[arg-type]
    assert queue.give_way(job.id, lambda _: Rest(Toy("count", 3)))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: len(results) == 2)
    assert results == [1, 3] and job.state == "done" and queue.jobs == []
    assert told == [("long", Started), ("long", Yielded), ("short", Started), ("short", Done),
                    ("long", Started), ("long", Done)]  # fmt: skip
    assert job.waited > 0 and job.took <= (job.finished or 0.0) - job.started - job.waited


def test_a_job_of_which_nothing_is_left_has_ended(queue: JobQueue, qtbot: QtBot) -> None:
    told, results = events(queue), list[Any]()
    job = train(queue, results)
    begun(qtbot, job)
    assert queue.give_way(job.id, lambda _: None)
    qtbot.waitUntil(lambda: bool(results))
    assert results == ["kept"] and job.state == "done" and told == [("long", Started), ("long", Done)]


def test_the_rest_of_a_paused_job_waits_to_be_told(queue: JobQueue, qtbot: QtBot) -> None:
    results = list[Any]()
    job = train(queue, results)
    begun(qtbot, job)
    assert queue.give_way(job.id, lambda _: Rest(Toy("count", 3), paused=True))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: job.state == "paused")
    queue.submit("short", Toy("echo", 1), results.append)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: results == [1])
    assert queue.jobs == [job] and job.state == "paused"
    assert not queue.give_way(job.id, lambda _: None), "it does not run"
    queue.resume(job.id)
    qtbot.waitUntil(lambda: results == [1, 3])


def test_what_waits_can_be_paused_and_cancelled(queue: JobQueue, qtbot: QtBot) -> None:
    told, results = events(queue), list[Any]()
    job = train(queue, results)
    begun(qtbot, job)
    later = queue.submit("later", Toy("echo", 1), results.append)  # type: ignore[arg-type]
    queue.pause(later.id)
    qtbot.waitUntil(lambda: later.state == "paused")
    queue.give_way(job.id, lambda _: Rest(Toy("count", 3), paused=True))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: job.state == "paused")
    queue.cancel(job.id)
    queue.cancel(later.id)
    qtbot.waitUntil(lambda: not queue.jobs)
    assert results == [] and told[-2:] == [("long", Stopped), ("later", Stopped)]
