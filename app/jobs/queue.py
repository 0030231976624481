"""The jobs of the window: who waits for the result of which, and what is told when one ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.runner import Listener
from espalier.model.errors import JobError
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, Job, JobEvent, JobInfo, Yielded, emptied


class Runner(Protocol):
    """What runs jobs, one after another, and tells its listener of each event."""

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job; an urgent one goes before those that wait."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a job."""
        ...

    def stop_and_keep(self, number: int) -> None:
        """Ask a job to end soon with what it has."""
        ...

    def pause(self, number: int) -> None:
        """Ask the running job to wait."""
        ...

    def resume(self, number: int) -> None:
        """Let a job that waits go on."""
        ...

    def give_way(self, number: int) -> bool:
        """Ask the running job to make room: Yielded comes in place of Done. False: it does not run."""
        ...

    def drop(self, number: int) -> None:
        """Forget a job that made room and of which nothing is left."""
        ...

    def close(self) -> None:
        """Stop everything."""
        ...


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a job that made room; `paused`: it waits until it is told to go on."""

    job: Job
    paused: bool = False


Onward = Callable[[Any], Rest | None]  # the rest of a job by what its first part gave; None: nothing is left


class JobQueue(QObject):
    """Jobs that wait or run. `queued`: one more; `job_event` tells every event of them; `problem` an error."""

    job_event = Signal(object)
    queued = Signal()
    problem = Signal(object)
    _arrived = Signal(object)

    def __init__(self, make: Callable[[Listener], Runner], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs: list[JobInfo] = []
        self._on_done: dict[int, Callable[[Any], None]] = {}
        self._on_failed: dict[int, Callable[[JobError], None]] = {}
        self._onward: dict[int, Onward] = {}
        self._arrived.connect(self._on_event)
        self._runner = make(self._arrived.emit)

    def cancel(self, number: int) -> None:
        """Stop a job."""
        self._runner.cancel(number)

    def stop_and_keep(self, number: int) -> None:
        """Let the running job end soon with what it has so far."""
        self._runner.stop_and_keep(number)

    def pause(self, number: int) -> None:
        """Let the running job wait; its state is "paused" once it does."""
        self._runner.pause(number)

    def resume(self, number: int) -> None:
        """Let a paused job go on."""
        self._runner.resume(number)

    def give_way(self, number: int, onward: Onward) -> bool:
        """Let the running job make room for those that wait, and queue up behind them: the same job with its `Rest`.

        Returns False where it does not run.
        """
        asked = self._runner.give_way(number)
        if asked:
            self._onward[number] = onward
        return asked

    def submit(
        self,
        title: str,
        job: Job,
        done: Callable[[Any], None],
        *,
        urgent: bool = False,
        failed: Callable[[JobError], None] | None = None,
    ) -> JobInfo:
        """Queue a job; `done` gets its result, unless nobody waits for it by then.

        `failed` gets the error of a job that its asker tells of itself; else it is a `problem`.
        """
        info = self._runner.submit(title, job, urgent=urgent)
        self._on_done[info.id] = done
        if failed:
            self._on_failed[info.id] = failed
        self.jobs.append(info)
        self.queued.emit()
        return info

    def end_jobs(self) -> None:
        """Stop everything, and hear no more."""
        self._arrived.disconnect(self._on_event)
        self._runner.close()

    def _on_event(self, heard: JobEvent) -> None:
        if isinstance(heard.event, Yielded):
            heard = self._go_on(heard.job, heard.event)
        if isinstance(heard.event, TERMINAL):
            self._finish(heard)
        self.job_event.emit(heard)
        if isinstance(heard.event, TERMINAL):
            heard.job.job = emptied(heard.job.job)  # lists keep it as long as the window lives

    def _go_on(self, job: JobInfo, event: Yielded) -> JobEvent:
        """The event as it is told: the end of a job of which nothing is left."""
        onward = self._onward.pop(job.id, None)
        rest = onward(event.result) if onward else None
        if rest is None:
            self._runner.drop(job.id)
            job.state, job.finished = "done", time.monotonic()
            return JobEvent(job, Done(event.result))
        job.job = rest.job
        if rest.paused:
            job.state = "paused"
        else:
            self._runner.resume(job.id)
        return JobEvent(job, event)

    def _finish(self, heard: JobEvent) -> None:
        self._onward.pop(heard.job.id, None)
        done, failed = self._on_done.pop(heard.job.id, None), self._on_failed.pop(heard.job.id, None)
        self.jobs = [j for j in self.jobs if j.id != heard.job.id]
        if isinstance(heard.event, Done) and done:
            done(heard.event.result)
        elif isinstance(heard.event, Failed) and (done or failed is None):  # else its asker is of another document
            (failed or self.problem.emit)(JobError(heard.event.message, heard.event.hint, heard.event.node))
        if done:
            self._ended(heard.job)

    def _ended(self, job: JobInfo) -> None:
        """A job that somebody waited for has ended, well or not."""
