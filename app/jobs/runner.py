"""Runs jobs in one warm worker process, one after another, from a thread that only waits.

A worker that dies gives one Failed event; the next job gets a new worker. No Qt in here.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from espalier.model.errors import EspalierError
from espalier.model.trust import begin_session
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
    Word,
    Yielded,
)
from espalier.passes.jobs.orphans import end_with_parent
from espalier.passes.jobs.serving import INTERRUPT

GRACE = 1.5  # seconds that a cancelled job has to end before its worker is killed
AGAIN = 0.3  # seconds between two interrupts of a job that does not ask whether it is cancelled
NICE = 3  # where processors are short, the window answers first
SAFE_PATH = "PYTHONSAFEPATH"
Listener = Callable[[JobEvent], None]


def _entry(pipe: Connection) -> None:
    os.environ.pop(SAFE_PATH, None)
    end_with_parent()
    if hasattr(os, "nice"):
        os.nice(NICE)
    from espalier.passes.jobs.worker import main

    main(pipe)


@contextlib.contextmanager
def _away_from_the_working_folder() -> Iterator[None]:
    """A new Python looks for `multiprocessing` in the working folder first: a stranger's folder may have one."""
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH, None)


class Worker:
    """One spawned worker process and our end of its pipe."""

    def __init__(self) -> None:
        begin_session()  # else what the user allows in this window would not hold in the worker
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_entry, args=(theirs,), daemon=True, name="espalier-worker")
        with _away_from_the_working_folder():
            self.process.start()
        self.ready = self.furnished = False
        theirs.close()

    def stop(self) -> None:
        """End the process, kindly first; returns when it is gone."""
        self.pipe.close()
        self.process.join(0.2)
        for end in (self.process.terminate, self.process.kill):
            if self.process.is_alive():
                end()
                self.process.join(GRACE)

    def interrupt(self) -> None:
        """Break the job off between two operations: the next job finds the worker warm."""
        if INTERRUPT is not None and self.process.pid is not None and self.process.is_alive():
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, INTERRUPT)

    def hear(self) -> Event | None:
        """The next event, None after a short silence."""
        ready = wait([self.pipe, self.process.sentinel], timeout=0.05)
        if self.pipe in ready:
            try:
                return self.pipe.recv()
            except (EOFError, OSError):
                return self.death()
            # Worker boundary: a result with values of a plug-in that is not loaded here may raise anything.
            except Exception as error:  # noqa: BLE001
                self.stop()
                return Failed(f"The job's result cannot be read ({error}).", "Load its plug-in here too.")
        return self.death() if ready else None

    def say(self, word: Word | None) -> None:
        """Tell the running job something; None: end at once."""
        with contextlib.suppress(OSError):
            self.pipe.send(word)

    def death(self) -> Failed:
        """Why the process is gone, in words."""
        self.process.join(GRACE)
        code = self.process.exitcode or 0
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = "Your project is untouched; run the job again. If it ends again, see the log."
        return Failed(f"The worker process ended unexpectedly ({why}).", hint)


class JobRunner:
    """Queue of jobs; `listener` is called from the runner's thread with every event."""

    def __init__(
        self, listener: Listener, prepared: Callable[[Job], Job] = lambda job: job, ids: Iterator[int] | None = None
    ) -> None:
        self._listener, self._prepared = listener, prepared
        self._ids = ids or itertools.count(1)
        self._queue: deque[JobInfo] = deque()
        self._wake = threading.Condition()
        self._current: JobInfo | None = None
        self._cancelled: set[int] = set()
        self._words: dict[int, Word] = {}  # what the running job is to be told, the last word on it
        self._yielding: set[int] = set()  # jobs that were asked to make room
        self._parked: dict[
            int, JobInfo
        ] = {}  # jobs that neither run nor are in the queue: paused, or between two parts
        self._closing = False
        self._worker: Worker | None = None
        self._plugins: Job | None = None
        self._thread = threading.Thread(target=self._loop, name="espalier-jobs")
        self._thread.start()

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, for tests and the log."""
        return self._worker.process.pid if self._worker else None

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job; an urgent one goes before those that wait."""
        info = JobInfo(next(self._ids), title, job)
        with self._wake:
            (self._queue.appendleft if urgent else self._queue.append)(info)
            self._wake.notify()
        return info

    def cancel(self, number: int) -> None:
        """Stop a job, running or waiting."""
        with self._wake:
            waiting = self._parked.pop(number, None) or self._take_out(number)
            if waiting is None and self._current and self._current.id == number:
                self._cancelled.add(number)
            self._wake.notify()
        if waiting:
            self._tell(waiting, Stopped())

    def _take_out(self, number: int) -> JobInfo | None:
        """The job of the queue, which it leaves."""
        waiting = next((j for j in self._queue if j.id == number), None)
        if waiting:
            self._queue.remove(waiting)
        return waiting

    def stop_and_keep(self, number: int) -> None:
        """Ask the running job to end soon with what it has; one that waits has nothing yet, and goes on waiting."""
        self._tell_current(number, Finish())

    def pause(self, number: int) -> None:
        """Ask the running job to wait; its state is "paused" once it does. One of the queue leaves it meanwhile."""
        with self._wake:
            if waiting := self._take_out(number):
                self._parked[number] = waiting
        if waiting:
            self._tell(waiting, Paused())
        else:
            self._tell_current(number, Pause())

    def resume(self, number: int) -> None:
        """Let a job that waits go on; one that is not with the worker queues up."""
        with self._wake:
            parked = self._parked.pop(number, None)
            if parked:
                parked.state = "waiting"
                self._queue.append(parked)
            self._wake.notify()
        if not parked:
            self._tell_current(number, Continue())

    def give_way(self, number: int) -> bool:
        """Ask the running job to end a part of itself, then wait for `resume` or `cancel`; False: it does not run."""
        with self._wake:
            if self._current is None or self._current.id != number:
                return False
            self._yielding.add(number)
        self._tell_current(number, Finish())
        return True

    def drop(self, number: int) -> None:
        """Forget a job that made room and of which nothing is left."""
        with self._wake:
            self._parked.pop(number, None)

    def _tell_current(self, number: int, word: Word) -> None:
        with self._wake:
            if self._current and self._current.id == number and self._words.get(number) != Finish():
                self._words[number] = word

    def close(self) -> None:
        """Stop everything and wait for the thread and the process to end."""
        with self._wake:
            self._closing = True
            waiting = list(self._queue)
            waiting += self._parked.values()
            self._queue.clear()
            self._parked.clear()
            self._wake.notify()
        for info in waiting:
            self._tell(info, Stopped())
        self._thread.join()

    # -- in the thread

    def _loop(self) -> None:
        with contextlib.suppress(OSError):  # the first job tries again, and tells
            self._worker = Worker()
        while self._one():
            pass  # the thread waits for the next one without holding graphs and results of the last
        if self._worker:
            self._worker.stop()

    def _one(self) -> bool:
        """Wait for a job and see to it; False: there will be no more."""
        info = self._next()
        if info is None:
            return False
        self._tell(info, self._park(info, self._guarded(info)))
        self._current = None
        return True

    def _next(self) -> JobInfo | None:
        with self._wake:
            while not self._queue and not self._closing:
                self._wake.wait(1.0)
                # A program that ended without closing us must not wait for us for ever.
                self._closing = self._closing or not threading.main_thread().is_alive()
            self._current = None if self._closing else self._queue.popleft()
            return self._current

    def _park(self, info: JobInfo, event: Event) -> Event:
        """What the end of the job, or of a part of it, is told as."""
        with self._wake:
            if info.id not in self._yielding:
                return event
            self._yielding.discard(info.id)
            if not isinstance(event, Done) or self._closing or info.id in self._cancelled:
                return event
            self._parked[info.id] = info
            return Yielded(event.result)

    def _alive(self) -> Worker:
        if self._worker is None or not self._worker.process.is_alive():
            if self._worker is not None:
                self._worker.stop()
            self._worker = Worker()
        return self._worker

    def _guarded(self, info: JobInfo) -> Event:
        """As `_run`, but whatever goes wrong here, the next job is run."""
        try:
            return self._run(info)
        # Thread boundary: without this thread no job would ever end.
        except Exception as error:  # noqa: BLE001
            if self._worker:
                self._worker.stop()  # it may be amid the job
            info.state = "failed"
            told = f"The job could not be run ({type(error).__name__}: {error})."
            details = "".join(traceback.format_exception(error))
            return Failed(told, "Run it again; if that fails too, report this as a bug.", details=details)

    def _run(self, info: JobInfo) -> Event:
        """Send the job and pass its events on; returns its terminal event."""
        event = self._attempt(info)
        # A worker that died before the job began, perhaps long ago: the job is not to blame.
        return self._attempt(info) if isinstance(event, Failed) and info.state == "waiting" else event

    def _attempt(self, info: JobInfo) -> Event:
        worker = self._alive()
        loads = isinstance(info.job, PluginJob)
        if event := self._loaded(info, worker):
            return event
        try:
            if not loads and (event := self._furnish(info, worker)):
                return event
            worker.pipe.send(self._prepared(info.job))
        except EspalierError as error:
            info.state = "failed"
            return Failed(error.message, error.hint)
        except OSError:
            return worker.death()
        except UNSENDABLE as error:
            info.state = "failed"
            return Failed(
                f"The job cannot be sent to the worker ({error}).", "Correct the plug-in that its options are of."
            )
        event = _joined(info.job, self._follow(info, worker))
        if loads:
            self._plugins, worker.furnished = (info.job if isinstance(event, Done) else None), True
        return event

    def _loaded(self, info: JobInfo, worker: Worker) -> Event | None:
        """Wait until the worker takes jobs; returns an event where none is to be sent: it died, or nobody waits."""
        while not worker.ready:
            if self._closing or info.id in self._cancelled:
                return Stopped()
            event = worker.hear()
            if event is not None and not isinstance(event, Ready):
                return event
            worker.ready = event is not None
        return None

    def _furnish(self, info: JobInfo, worker: Worker) -> Event | None:
        """Give the plug-ins to a worker that replaces a dead one; returns an event where it came to no good.

        Plug-ins that fail here are not tried again: whatever hangs in them would hang every job.
        """
        if self._plugins is None or worker.furnished:
            return None
        worker.furnished = True
        worker.pipe.send(self._plugins)
        event = self._follow(info, worker, silent=True)
        if isinstance(event, Done):
            return None
        self._plugins = None
        return event

    def _follow(self, info: JobInfo, worker: Worker, silent: bool = False) -> Event:
        asked: float | None = None
        again = 0.0
        while True:
            event = worker.hear()
            if isinstance(event, TERMINAL):
                return event
            if event is not None and not silent:
                self._tell(info, event)
            if (self._closing or info.id in self._cancelled) and asked is None:
                asked, again = time.monotonic(), AGAIN
                worker.say(None)
            if word := self._words.pop(info.id, None):
                worker.say(word)
            if asked is not None and time.monotonic() - asked > again:
                again += AGAIN
                worker.interrupt()
            if asked is not None and time.monotonic() - asked > (0 if self._closing else GRACE):
                worker.stop()
                return Stopped()

    def _tell(self, info: JobInfo, event: Event) -> None:
        info.note(event, time.monotonic())
        self._listener(JobEvent(info, event))


def _joined(job: Job, event: Event) -> Event:
    """What a replay gave as if it had run here: the nodes that it left alone are those of the graphs it was given.

    Not in the window's thread, which then finds what changed, and counts it, by identity.
    """
    if not isinstance(job, ReplayJob) or not isinstance(event, Done):
        return event
    result: ReplayResult = event.result
    given = [job.known[1], job.base] if job.known else [job.base]
    graphs = {id(g): g for g in (result.graph, *(r.graph for r in result.results if r))}
    shared = {key: graph.sharing(given) for key, graph in graphs.items()}
    results = tuple(r and replace(r, graph=shared[id(r.graph)]) for r in result.results)
    return Done(replace(result, graph=shared[id(result.graph)], results=results))
