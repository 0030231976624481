"""The queue of jobs of a window, with a runner that only reports."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from espalier.app.jobs.queue import JobQueue
from espalier.passes.jobs.kinds import JobEvent, JobInfo, Progress
from tests.passes.toy_worker import Toy

pytestmark = pytest.mark.gui


class Reporting:
    """A runner that reports from a thread of its own, as the real one does."""

    def __init__(self, listen: Any) -> None:
        self.listen = listen

    def report(self) -> None:
        """Report a step, and return once Qt has queued it."""
        job = JobInfo(1, "search", Toy("echo", 1))  # type: ignore[arg-type]
        thread = threading.Thread(target=self.listen, args=(JobEvent(job, Progress(1, 2, "")),))
        thread.start()
        thread.join()

    def close(self) -> None:
        """End the jobs."""


@pytest.mark.parametrize("is_ended", [False, True])
def test_an_event_that_qt_has_queued_is_not_signalled_after_the_end(qtbot: QtBot, is_ended: bool) -> None:
    made: list[Reporting] = []

    def make(listen: Any) -> Any:
        made.append(Reporting(listen))
        return made[0]

    queue, told = JobQueue(make), list[JobEvent]()
    queue.job_event.connect(told.append)
    made[0].report()
    assert not told
    if is_ended:
        queue.end_jobs()
    QCoreApplication.processEvents()
    assert len(told) == (not is_ended)
