"""Runs jobs in a few worker processes, side by side where memory allows it. Free of Qt.

The windows of a program share the workers: `shared` returns them, and the last window to close ends them.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable

from espalier.app.jobs.concurrency import lanes
from espalier.app.jobs.lane import Client, Lane, Listener
from espalier.app.jobs.schedule import Schedule
from espalier.passes.jobs.kinds import (
    TERMINAL,
    Continue,
    Event,
    Finish,
    Job,
    JobEvent,
    JobInfo,
    Pause,
    Paused,
    Stopped,
)

NUMBERS = itertools.count(1)  # of all jobs of this process


class Workers:
    """The lanes and the schedule that they share. `plugins`: the last successful PluginJob."""

    def __init__(self, count: int) -> None:
        self.schedule = Schedule(count)
        self.plugins: Job | None = None
        self._clients: dict[int, Client] = {}  # by the number of a job that has not ended
        self._ended = threading.Condition()
        self.users = 0
        self.lanes = [Lane(number, self) for number in range(count)]

    def add(self, info: JobInfo, client: Client, *, urgent: bool) -> None:
        """Queue a job; an urgent one goes first."""
        with self._ended:
            self._clients[info.id] = client
        self.schedule.add(info, urgent=urgent)

    def client(self, info: JobInfo) -> Client | None:
        """Whose job it is; None if it has ended."""
        return self._clients.get(info.id)

    def report(self, info: JobInfo, event: Event) -> None:
        """Note an event of a job, and send it to its client."""
        with self._ended:
            client = self._clients.get(info.id)
            if client is None:
                return  # it was cancelled between two parts
            info.note(event, time.monotonic())
            if isinstance(event, TERMINAL):
                del self._clients[info.id]
                self._ended.notify_all()
        with contextlib.suppress(RuntimeError):  # its window was destroyed
            client.listener(JobEvent(info, event))

    def cancel(self, number: int) -> None:
        """Stop a job, running or queued."""
        if removed := self.schedule.cancel(number):
            self.report(removed, Stopped())

    def drop(self, number: int) -> None:
        """Remove a job that yielded and is complete."""
        self.schedule.drop(number)
        with self._ended:
            self._clients.pop(number, None)
            self._ended.notify_all()

    def release(self, client: Client) -> None:
        """Stop the jobs of a client and wait for their end."""
        with self._ended:
            own = [number for number, owner in self._clients.items() if owner is client]
        for number in own:
            self.cancel(number)
        with self._ended:
            self._ended.wait_for(lambda: client not in self._clients.values())

    def close(self) -> None:
        """Stop all jobs and wait for the threads and the processes to end."""
        for info in self.schedule.close():
            self.report(info, Stopped())
        for lane in self.lanes:
            lane.join()


_shared: list[Workers] = []
_lock = threading.Lock()


def shared() -> Workers:
    """The workers of this process, started on first use; each call needs a `JobRunner.close`."""
    with _lock:
        if not _shared:
            _shared.append(Workers(lanes()))
        return _shared[0]


class JobRunner:
    """The jobs of one client: `listener` is called from another thread with every event of them.

    `prepared` returns a job as it is sent to the worker. `workers`: by default its own, of which there is one.
    """

    def __init__(
        self, listener: Listener, prepared: Callable[[Job], Job] = lambda job: job, workers: Workers | None = None
    ) -> None:
        self._client, self._closed = Client(listener, prepared), False
        self._workers = workers or Workers(1)
        with _lock:
            self._workers.users += 1
        schedule = self._schedule = self._workers.schedule
        self.give_way, self.blocks = schedule.give_way, schedule.blocks
        self.cancel, self.drop = self._workers.cancel, self._workers.drop

    @property
    def worker_pid(self) -> int | None:
        """The process id of the first worker, for tests and the log."""
        return self._workers.lanes[0].worker_pid

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of all workers that run."""
        return [pid for lane in self._workers.lanes if (pid := lane.worker_pid) is not None]

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job; an urgent one goes first."""
        info = JobInfo(next(NUMBERS), title, job)
        if self._closed:
            info.note(Stopped(), time.monotonic())
            return info
        self._workers.add(info, self._client, urgent=urgent)
        return info

    def stop_and_keep(self, number: int) -> None:
        """Ask the running job to end soon with its partial results; does nothing for a queued job."""
        self._schedule.send(number, Finish())

    def pause(self, number: int) -> None:
        """Ask the running job to pause, which it reports by Paused; a queued job leaves the queue."""
        if queued := self._schedule.pause(number):
            self._workers.report(queued, Paused())
        else:
            self._schedule.send(number, Pause())

    def resume(self, number: int) -> None:
        """Continue a paused job; one outside the worker is queued again."""
        if not self._schedule.resume(number):
            self._schedule.send(number, Continue())

    def close(self) -> None:
        """Stop the jobs of this client and wait for their end; the last client also ends the workers."""
        with _lock:
            if self._closed:
                return
            self._closed = True
            self._workers.users -= 1
            is_last = not self._workers.users
            if is_last and self._workers in _shared:
                _shared.remove(self._workers)
        if is_last:
            self._workers.close()
        else:
            self._workers.release(self._client)
