"""The jobs of a window: calls back with their results, and signals their events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.lane import Listener
from espalier.model.errors import JobError
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, Job, JobEvent, JobInfo, Yielded, without_data


class Runner(Protocol):
    """Runs jobs and reports each event to its listener."""

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job; an urgent one goes first."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a job."""
        ...

    def stop_and_keep(self, number: int) -> None:
        """Ask a job to end soon with its partial results."""
        ...

    def pause(self, number: int) -> None:
        """Pause a job."""
        ...

    def resume(self, number: int) -> None:
        """Continue a paused job."""
        ...

    def give_way(self, number: int) -> bool:
        """Ask the running job to yield: it ends with Yielded instead of Done. Returns False if it does not run."""
        ...

    def blocks(self, number: int) -> bool:
        """Whether a queued job waits for this running one to end or to yield."""
        ...

    def drop(self, number: int) -> None:
        """Remove a job that yielded and is complete."""
        ...

    def close(self) -> None:
        """Stop all jobs."""
        ...


@dataclass(frozen=True, slots=True)
class Rest:
    """The remaining part of a job that yielded; `paused`: it waits for `resume`."""

    job: Job
    paused: bool = False


Continuation = Callable[[Any], Rest | None]  # the result of a part → the remaining job; None: it is complete


class JobQueue(QObject):
    """The queued and running jobs. Signals: `queued` (a new job), `job_event` (a JobEvent), `problem` (an error)."""

    job_event = Signal(object)
    queued = Signal()
    problem = Signal(object)
    _arrived = Signal(object)

    def __init__(self, make: Callable[[Listener], Runner], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs: list[JobInfo] = []
        self._on_done: dict[int, Callable[[Any], None]] = {}
        self._on_failed: dict[int, Callable[[JobError], None]] = {}
        self._continuations: dict[int, Continuation] = {}
        self._is_ended = False
        self._arrived.connect(self._on_event)
        self._runner = make(self._arrived.emit)

    def cancel(self, number: int) -> None:
        """Stop a job."""
        self._runner.cancel(number)

    def stop_and_keep(self, number: int) -> None:
        """Ask the running job to end soon with its partial results."""
        self._runner.stop_and_keep(number)

    def pause(self, number: int) -> None:
        """Pause a job; its state becomes "paused" when it does."""
        self._runner.pause(number)

    def resume(self, number: int) -> None:
        """Continue a paused job."""
        self._runner.resume(number)

    def give_way(self, number: int, continuation: Continuation) -> bool:
        """Ask the running job to yield to the queued ones; its `Rest` is queued behind them as the same job.

        Returns False if it does not run.
        """
        yields = self._runner.give_way(number)
        if yields:
            self._continuations[number] = continuation
        return yields

    def blocks(self, number: int) -> bool:
        """Whether a queued job waits for this one, since it cannot run beside it; a paused one yields to any."""
        if any(j.id == number and j.state == "paused" for j in self.jobs):
            return any(j.state == "waiting" for j in self.jobs)
        return self._runner.blocks(number)

    def submit(
        self,
        title: str,
        job: Job,
        done: Callable[[Any], None],
        *,
        urgent: bool = False,
        failed: Callable[[JobError], None] | None = None,
    ) -> JobInfo:
        """Queue a job; `done` receives its result, unless the document was closed meanwhile.

        `failed` receives its error; without it, `problem` is emitted.
        """
        info = self._runner.submit(title, job, urgent=urgent)
        self._on_done[info.id] = done
        if failed:
            self._on_failed[info.id] = failed
        self.jobs.append(info)
        self.queued.emit()
        return info

    def end_jobs(self) -> None:
        """Stop all jobs; their events are no longer signalled, not even those that Qt has queued."""
        self._is_ended = True
        self._runner.close()

    def _on_event(self, event: JobEvent) -> None:
        if self._is_ended:
            return
        if isinstance(event.event, Yielded):
            event = self._continue(event.job, event.event)
        if isinstance(event.event, TERMINAL):
            self._finish(event)
        self.job_event.emit(event)
        if isinstance(event.event, TERMINAL):
            event.job.job = without_data(event.job.job)  # the list of jobs holds it until the window closes

    def _continue(self, job: JobInfo, event: Yielded) -> JobEvent:
        """Queue the rest of a job that yielded; returns the event to signal, Done if it is complete."""
        continuation = self._continuations.pop(job.id, None)
        rest = continuation(event.result) if continuation else None
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

    def _finish(self, event: JobEvent) -> None:
        job, end = event.job, event.event
        self._continuations.pop(job.id, None)
        done, failed = self._on_done.pop(job.id, None), self._on_failed.pop(job.id, None)
        self.jobs = [j for j in self.jobs if j.id != job.id]
        if isinstance(end, Done) and done:
            done(end.result)
        elif isinstance(end, Failed) and (done or failed is None):  # `failed` without `done`: of a closed document
            (failed or self.problem.emit)(JobError(end.message, end.hint, end.node))
        if done:
            self._ended(job)

    def _ended(self, job: JobInfo) -> None:
        """Called when a job of the open document has ended, whether it succeeded or not."""
