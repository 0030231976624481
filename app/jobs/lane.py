"""A lane of jobs: a warm worker process, and the thread that hands it one job after another and only waits.

If a worker dies, its job fails and the next job gets a new worker. Free of Qt.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from espalier.app.jobs.schedule import Order, Schedule
from espalier.app.jobs.worker_process import GRACE, WorkerProcess
from espalier.app.translation import tr
from espalier.model.errors import EspalierError
from espalier.passes.jobs.kinds import (
    TERMINAL,
    UNSENDABLE,
    Done,
    Event,
    Failed,
    Job,
    JobEvent,
    JobInfo,
    PluginJob,
    Ready,
    ReplayJob,
    ReplayResult,
    Stopped,
)

INTERRUPT_INTERVAL = 0.3  # seconds between two interrupts of a cancelled job
Listener = Callable[[JobEvent], None]


@dataclass(eq=False, slots=True)
class Client:
    """Whose jobs these are. `listener` is called from a lane's thread with every event of them.

    `prepared` returns a job as it is sent to the worker.
    """

    listener: Listener
    prepared: Callable[[Job], Job]


class Jobs(Protocol):
    """What the lanes share. `plugins`: the last successful PluginJob."""

    schedule: Schedule
    plugins: Job | None

    def client(self, info: JobInfo) -> Client | None:
        """Whose job it is; None if it has ended."""
        ...

    def report(self, info: JobInfo, event: Event) -> None:
        """Note an event of a job, and send it to its client."""
        ...


class Lane:
    """Runs one job at a time. The first lane starts its worker at once, the others when they get their first job."""

    def __init__(self, number: int, jobs: Jobs) -> None:
        self._number, self._jobs, self._schedule = number, jobs, jobs.schedule
        self._worker: WorkerProcess | None = None
        self._thread = threading.Thread(target=self._loop, name=f"espalier-jobs-{number + 1}")
        self._thread.start()

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, for tests and the log."""
        worker = self._worker
        return worker.process.pid if worker else None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread and the process to end, after the schedule was closed."""
        self._thread.join()

    # -- in the thread

    def _loop(self) -> None:
        if self._number == 0:
            self._start_worker()
        while self._run_next():
            pass  # the thread waits for the next job without holding graphs and results of the last
        self._stop_worker()

    def _run_next(self) -> bool:
        """Wait for a job and run it; False: there will be no more."""
        match self._schedule.next(self._number):
            case Order.CLOSE:
                return False
            case Order.START:
                self._start_worker()
            case Order.STOP:
                self._stop_worker()
            case info:
                try:
                    self._jobs.report(info, self._schedule.park(info, self._run_safely(info)))
                finally:
                    self._schedule.finish(self._number)
        return True

    def _start_worker(self) -> None:
        """Start the process ahead of its first job, which starts it again, and reports the error, if that failed."""
        try:
            self._live_worker()
        except OSError:
            self._schedule.note_failed_start()

    def _stop_worker(self) -> None:
        if self._worker:
            self._worker.stop()
            self._worker = None
        self._schedule.note_worker(self._number, False)

    def _live_worker(self) -> WorkerProcess:
        if self._worker is None or not self._worker.process.is_alive():
            if self._worker is not None:
                self._worker.stop()
            self._worker = WorkerProcess()
            self._schedule.note_worker(self._number, True)
        return self._worker

    def _run_safely(self, info: JobInfo) -> Event:
        """Run a job; any exception becomes Failed, so that the next job can run."""
        try:
            return self._run(info)
        # Thread boundary: without this thread no job would ever end.
        except Exception as error:  # noqa: BLE001
            if self._worker:
                self._worker.stop()  # it may still run the job
            info.state = "failed"
            message = tr("The job could not be run ({}: {}).", type(error).__name__, error)
            details = "".join(traceback.format_exception(error))
            return Failed(message, "Run it again; if that fails too, report this as a bug.", details=details)

    def _run(self, info: JobInfo) -> Event:
        """Send the job and report its events; returns its terminal event."""
        event = self._attempt(info)
        # The worker may have died before the job began, even long ago: try once more.
        return self._attempt(info) if isinstance(event, Failed) and info.state == "waiting" else event

    def _attempt(self, info: JobInfo) -> Event:
        worker = self._live_worker()
        loads = isinstance(info.job, PluginJob)
        if event := self._wait_until_ready(info, worker):
            return event
        try:
            if not loads and (event := self._send_plugins(info, worker)):
                return event
            if (client := self._jobs.client(info)) is None:
                return Stopped()
            worker.pipe.send(client.prepared(info.job))
        except EspalierError as error:
            info.state = "failed"
            return Failed(error.message, error.hint)
        except OSError:
            return worker.death()
        except UNSENDABLE as error:
            info.state = "failed"
            hint = tr("Correct the plug-in that its options are of.")
            return Failed(f"The job cannot be sent to the worker ({error}).", hint)
        event = _with_shared_nodes(info.job, self._follow(info, worker))
        if loads:
            worker.plugins = info.job if isinstance(event, Done) else None
            if not isinstance(event, Stopped):  # of a stopped one the former plug-ins stay, and are loaded again
                self._jobs.plugins = worker.plugins
        return event

    def _wait_until_ready(self, info: JobInfo, worker: WorkerProcess) -> Event | None:
        """Wait until the worker accepts jobs; returns an event if it died or the job was cancelled."""
        while not worker.ready:
            if self._schedule.must_stop(info):
                return Stopped()
            event = worker.receive()
            if event is not None and not isinstance(event, Ready):
                return event
            worker.ready = event is not None
        return None

    def _send_plugins(self, info: JobInfo, worker: WorkerProcess) -> Event | None:
        """Load the plug-ins into a worker that lacks them; returns an event if that failed.

        Plug-ins that fail here are not tried again: one that hangs would block every job.
        """
        plugins = self._jobs.plugins
        if plugins is None or worker.plugins is plugins:
            return None
        worker.plugins = plugins
        worker.pipe.send(plugins)
        event = self._follow(info, worker, silent=True)
        if isinstance(event, Done):
            return None
        self._jobs.plugins = None
        return event

    def _follow(self, info: JobInfo, worker: WorkerProcess, silent: bool = False) -> Event:
        """Report the events of a job until its terminal one, which is returned; a cancelled job is interrupted."""
        cancelled_at: float | None = None
        next_interrupt = 0.0
        while True:
            event = worker.receive()
            if isinstance(event, TERMINAL):
                # What was cancelled may fail first, as its files are removed.
                failed = isinstance(event, Failed) and self._schedule.must_stop(info)
                return Stopped() if failed else event
            if event is not None and not silent:
                self._jobs.report(info, event)
            if cancelled_at is None and self._schedule.must_stop(info):
                cancelled_at, next_interrupt = time.monotonic(), INTERRUPT_INTERVAL
                worker.send(None)
            if word := self._schedule.take_word(info):
                worker.send(word)
            if cancelled_at is not None and time.monotonic() - cancelled_at > next_interrupt:
                next_interrupt += INTERRUPT_INTERVAL
                worker.interrupt()
            grace = 0 if self._schedule.closing else GRACE
            if cancelled_at is not None and time.monotonic() - cancelled_at > grace:
                worker.stop()
                return Stopped()


def _with_shared_nodes(job: Job, event: Event) -> Event:
    """The result of a replay, with unchanged nodes replaced by those of the graphs that it was given.

    Done in this thread, so that the window finds changes by identity.
    """
    if not isinstance(job, ReplayJob) or not isinstance(event, Done):
        return event
    result: ReplayResult = event.result
    given = [job.cached[1], job.base] if job.cached else [job.base]
    graphs = {id(g): g for g in (result.graph, *(r.graph for r in result.results if r))}
    shared = {key: graph.sharing(given) for key, graph in graphs.items()}
    results = tuple(r and replace(r, graph=shared[id(r.graph)]) for r in result.results)
    return Done(replace(result, graph=shared[id(result.graph)], results=results))
