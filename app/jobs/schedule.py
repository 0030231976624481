"""The schedule of the workers' jobs: queued, paused and running ones, and control messages. Thread-safe, free of Qt."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from pathlib import Path

from espalier.app.jobs.concurrency import conflicts, is_long, runs_alone, too_little_memory
from espalier.app.translation import tr
from espalier.passes.jobs.kinds import Command, Done, Event, Finish, JobInfo, PluginJob, Yielded

RETIRE = 120.0  # seconds without a job after which a worker other than the first ends
PAUSE = 30.0  # seconds after a worker could not be started ahead
LASTING = 5.0  # seconds of a job after which a further worker is started; about what its start takes


class Order(Enum):
    """What a lane has to do besides a job: end, start its worker in advance, or end its worker to free memory."""

    CLOSE = auto()
    START = auto()
    STOP = auto()


class Schedule:
    """Submitting threads add, pause and cancel jobs; each lane's thread takes them with `next`.

    `lanes`: how many jobs may run at the same time; each lane has a worker process.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._queue: deque[JobInfo] = deque()
        self._condition = threading.Condition()
        self._running: dict[int, JobInfo] = {}  # by lane
        self._begun: dict[int, float] = {}  # when the job of a lane was taken
        self._has_worker: set[int] = set()  # lanes whose worker process runs
        self._cancelled: set[int] = set()
        self._words: dict[int, Command] = {}  # the last control message for a running job
        self._yielding: set[int] = set()  # jobs that were asked to yield
        self._parked: dict[int, JobInfo] = {}  # paused jobs, and jobs between two parts
        self._folders: dict[int, Path | None] = {}  # the working folder of the last job of a lane
        self._no_start_until = 0.0  # after a worker could not be started ahead
        self.closing = False

    def add(self, info: JobInfo, *, urgent: bool = False) -> None:
        """Queue a job; an urgent one goes first."""
        with self._condition:
            (self._queue.appendleft if urgent else self._queue.append)(info)
            self._condition.notify_all()

    def cancel(self, number: int) -> JobInfo | None:
        """Cancel a job; returns it if it was queued or parked, so that it has ended now."""
        with self._condition:
            removed = self._parked.pop(number, None) or self._remove(number)
            if removed is None and self._runs(number):
                self._cancelled.add(number)
            self._condition.notify_all()
        return removed

    def _runs(self, number: int) -> bool:
        return any(job.id == number for job in self._running.values())

    def _remove(self, number: int) -> JobInfo | None:
        queued = next((j for j in self._queue if j.id == number), None)
        if queued:
            self._queue.remove(queued)
        return queued

    def pause(self, number: int) -> JobInfo | None:
        """Park a queued job and return it; None if it is not in the queue."""
        with self._condition:
            if queued := self._remove(number):
                self._parked[number] = queued
        return queued

    def resume(self, number: int) -> bool:
        """Queue a parked job; returns False if it is not parked."""
        with self._condition:
            parked = self._parked.pop(number, None)
            if parked:
                parked.state = "waiting"
                self._queue.append(parked)
            self._condition.notify_all()
        return parked is not None

    def give_way(self, number: int) -> bool:
        """Ask a running job to end its present part, after which it is parked; returns False if it does not run."""
        with self._condition:
            if not self._runs(number):
                return False
            self._yielding.add(number)
        self.send(number, Finish())
        return True

    def blocks(self, number: int) -> bool:
        """Whether a queued job waits for this one to end or to yield."""
        with self._condition:
            others = {lane: job for lane, job in self._running.items() if job.id != number}
            if len(others) == len(self._running):  # a paused one outside the lanes
                return False
            return any(runs_alone(w.job) or self._lane_of(w, others)[0] is not None
                       for w in self._ready() if self._lane_of(w, self._running)[0] is None)  # fmt: skip

    def drop(self, number: int) -> None:
        """Remove a parked job."""
        with self._condition:
            self._parked.pop(number, None)

    def send(self, number: int, word: Command) -> None:
        """Set the control message for a job, if it runs; Finish is final."""
        with self._condition:
            if self._runs(number) and self._words.get(number) != Finish():
                self._words[number] = word

    def close(self) -> list[JobInfo]:
        """End the schedule; returns the jobs that did not run."""
        with self._condition:
            self.closing = True
            removed = [*self._queue, *self._parked.values()]
            self._queue.clear()
            self._parked.clear()
            self._condition.notify_all()
        return removed

    # -- which lane takes which job

    def _ready(self) -> Iterable[JobInfo]:
        """The queued jobs in their order, up to a change of the plug-ins: the ones behind need the new plug-ins."""
        if any(isinstance(job.job, PluginJob) for job in self._running.values()):
            return
        for info in self._queue:
            yield info
            if isinstance(info.job, PluginJob):
                return

    def _lane_of(self, info: JobInfo, running: dict[int, JobInfo]) -> tuple[int | None, str]:
        """The lane that can take a job beside the running ones, or None and why."""
        others = [job.job for job in running.values()]
        if others and runs_alone(info.job):
            return None, tr("it measures times, so that no other job may run")
        if timed := next((j for j in running.values() if runs_alone(j.job)), None):
            return None, tr("{} measures times, so that no other job may run", timed.title)
        if is_long(info.job) and others and sum(map(is_long, others)) >= self.lanes - 1:
            return None, tr("one process is kept for short jobs")
        if rival := next((j for j in running.values() if conflicts(info.job, j.job)), None):
            return None, tr("{} works on the same model", rival.title)
        idle = [lane for lane in range(self.lanes) if lane not in running]
        warm = [lane for lane in idle if lane in self._has_worker]
        folder = getattr(info.job, "workdir", None)  # its worker remembers results of this document
        lane = next((k for k in warm if self._folders.get(k) == folder), next(iter(warm or idle), None))
        if lane is None or not others:
            return lane, "" if lane is not None else tr("all processes work")
        has_worker = lane in self._has_worker
        if not has_worker and not all(self._lasts(k, job) for k, job in running.items()):
            return None, tr("a job is about to end")  # sooner than a new worker would start
        reason = too_little_memory(info, has_worker)
        return (None if reason else lane), reason

    def _lasts(self, lane: int, job: JobInfo) -> bool:
        """Whether it takes long until a running job ends, as far as one can tell."""
        spent = time.monotonic() - self._begun[lane]
        return job.id not in self._cancelled and (is_long(job.job) or spent > LASTING)

    def _take(self, lane: int) -> JobInfo | None:
        overtakes = True  # a long job does not overtake one that waits to run alone, which else might wait for ever
        for info in self._ready():
            if not overtakes and is_long(info.job):
                continue
            found, info.waits = self._lane_of(info, self._running)
            overtakes = overtakes and (found is not None or not runs_alone(info.job))
            if found == lane:
                self._queue.remove(info)
                self._running[lane], self._begun[lane] = info, time.monotonic()
                self._folders[lane] = getattr(info.job, "workdir", None)
                return info
        return None

    def _order(self, lane: int, idle_since: float) -> Order | None:
        """What an idle lane other than the first does with its worker."""
        now = time.monotonic()
        if lane == 0:
            return None
        if lane in self._has_worker:
            return Order.STOP if now - idle_since > RETIRE and not self._running else None
        if now < self._no_start_until:
            return None
        jobs = self._running.items()
        if not any(is_long(job.job) and self._lasts(k, job) and now - self._begun[k] > LASTING for k, job in jobs):
            return None
        spare = [k for k in range(self.lanes) if k not in self._running]
        if spare[0] != lane or self._has_worker & set(spare) or any(runs_alone(job.job) for _, job in jobs):
            return None
        return None if any(too_little_memory(job, has_worker=False) for _, job in jobs) else Order.START

    # -- in the threads of the lanes

    def next(self, lane: int) -> JobInfo | Order:
        """Wait for a job of a lane and note it as running, or for an order."""
        with self._condition:
            idle_since = time.monotonic()
            while not self.closing:
                if found := self._take(lane) or self._order(lane, idle_since):
                    return found
                self._condition.wait(1.0)
                # The process may end without `close`; its exit waits for this thread.
                self.closing = self.closing or not threading.main_thread().is_alive()
            return Order.CLOSE

    def note_worker(self, lane: int, runs: bool) -> None:
        """Note whether the worker process of a lane runs."""
        with self._condition:
            (self._has_worker.add if runs else self._has_worker.discard)(lane)
            self._condition.notify_all()

    def note_failed_start(self) -> None:
        """Start no worker ahead for a while, because it failed."""
        self._no_start_until = time.monotonic() + PAUSE

    def finish(self, lane: int) -> None:
        """Mark the job of a lane as ended."""
        with self._condition:
            self._running.pop(lane, None)
            self._condition.notify_all()

    def must_stop(self, info: JobInfo) -> bool:
        """Whether a job is cancelled, or the schedule ends."""
        return self.closing or info.id in self._cancelled

    def take_word(self, info: JobInfo) -> Command | None:
        """Remove and return the control message for a job."""
        return self._words.pop(info.id, None)

    def park(self, info: JobInfo, event: Event) -> Event:
        """Park a job that yielded: its Done becomes Yielded. Other events are returned unchanged."""
        with self._condition:
            if info.id not in self._yielding:
                return event
            self._yielding.discard(info.id)
            if not isinstance(event, Done) or self.must_stop(info):
                return event
            self._parked[info.id] = info
            return Yielded(event.result)
