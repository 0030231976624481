"""Runs jobs one after another in a warm worker process, from a thread that only waits.

If a worker dies, its job fails and the next job gets a new worker. Free of Qt.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

from espalier.app.jobs.schedule import Schedule
from espalier.app.jobs.worker_process import GRACE, WorkerProcess
from espalier.model.errors import EspalierError
from espalier.passes.jobs.kinds import (
    TERMINAL,
    UNSENDABLE,
    Continue,
    Done,
    Event,
    Failed,
    Finish,
    Job,
    JobEvent,
    JobInfo,
    Pause,
    Paused,
    PluginJob,
    Ready,
    ReplayJob,
    ReplayResult,
    Stopped,
)

INTERRUPT_INTERVAL = 0.3  # seconds between two interrupts of a cancelled job
Listener = Callable[[JobEvent], None]


class JobRunner:
    """Runs queued jobs; `listener` is called from the runner's thread with every event.

    `prepared` returns a job as it is sent to the worker.
    """

    def __init__(
        self, listener: Listener, prepared: Callable[[Job], Job] = lambda job: job, ids: Iterator[int] | None = None
    ) -> None:
        self._listener, self._prepared = listener, prepared
        self._ids = ids or itertools.count(1)
        self._schedule = Schedule()
        self._worker: WorkerProcess | None = None
        self._plugins: Job | None = None  # the last successful PluginJob
        self.give_way, self.drop = self._schedule.give_way, self._schedule.drop
        self._thread = threading.Thread(target=self._loop, name="espalier-jobs")
        self._thread.start()

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, for tests and the log."""
        return self._worker.process.pid if self._worker else None

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job; an urgent one goes first."""
        info = JobInfo(next(self._ids), title, job)
        self._schedule.add(info, urgent=urgent)
        return info

    def cancel(self, number: int) -> None:
        """Stop a job, running or queued."""
        if removed := self._schedule.cancel(number):
            self._report(removed, Stopped())

    def stop_and_keep(self, number: int) -> None:
        """Ask the running job to end soon with its partial results; does nothing for a queued job."""
        self._schedule.send(number, Finish())

    def pause(self, number: int) -> None:
        """Ask the running job to pause, which it reports by Paused; a queued job leaves the queue."""
        if queued := self._schedule.pause(number):
            self._report(queued, Paused())
        else:
            self._schedule.send(number, Pause())

    def resume(self, number: int) -> None:
        """Continue a paused job; one outside the worker is queued again."""
        if not self._schedule.resume(number):
            self._schedule.send(number, Continue())

    def close(self) -> None:
        """Stop all jobs and wait for the thread and the process to end."""
        for info in self._schedule.close():
            self._report(info, Stopped())
        self._thread.join()

    # -- in the thread

    def _loop(self) -> None:
        with contextlib.suppress(OSError):  # the first job tries again, and reports the error
            self._worker = WorkerProcess()
        while self._run_next():
            pass  # the thread waits for the next job without holding graphs and results of the last
        if self._worker:
            self._worker.stop()

    def _run_next(self) -> bool:
        """Wait for a job and run it; False: there will be no more."""
        info = self._schedule.next()
        if info is None:
            return False
        self._report(info, self._schedule.park(info, self._run_safely(info)))
        self._schedule.finish()
        return True

    def _live_worker(self) -> WorkerProcess:
        if self._worker is None or not self._worker.process.is_alive():
            if self._worker is not None:
                self._worker.stop()
            self._worker = WorkerProcess()
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
            message = f"The job could not be run ({type(error).__name__}: {error})."
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
            worker.pipe.send(self._prepared(info.job))
        except EspalierError as error:
            info.state = "failed"
            return Failed(error.message, error.hint)
        except OSError:
            return worker.death()
        except UNSENDABLE as error:
            info.state = "failed"
            hint = "Correct the plug-in that its options are of."
            return Failed(f"The job cannot be sent to the worker ({error}).", hint)
        event = _with_shared_nodes(info.job, self._follow(info, worker))
        if loads:
            self._plugins, worker.has_plugins = (info.job if isinstance(event, Done) else None), True
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
        """Load the plug-ins into a worker that replaces a dead one; returns an event if that failed.

        Plug-ins that fail here are not tried again: one that hangs would block every job.
        """
        if self._plugins is None or worker.has_plugins:
            return None
        worker.has_plugins = True
        worker.pipe.send(self._plugins)
        event = self._follow(info, worker, silent=True)
        if isinstance(event, Done):
            return None
        self._plugins = None
        return event

    def _follow(self, info: JobInfo, worker: WorkerProcess, silent: bool = False) -> Event:
        """Report the events of a job until its terminal one, which is returned; a cancelled job is interrupted."""
        cancelled_at: float | None = None
        next_interrupt = 0.0
        while True:
            event = worker.receive()
            if isinstance(event, TERMINAL):
                return event
            if event is not None and not silent:
                self._report(info, event)
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

    def _report(self, info: JobInfo, event: Event) -> None:
        info.note(event, time.monotonic())
        self._listener(JobEvent(info, event))


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
