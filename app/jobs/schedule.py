"""The schedule of the worker's jobs: queued, paused and running ones, and control messages. Thread-safe, free of Qt."""

from __future__ import annotations

import threading
from collections import deque

from espalier.passes.jobs.kinds import Command, Done, Event, Finish, JobInfo, Yielded


class Schedule:
    """Submitting threads add, pause and cancel jobs; the runner's thread takes them with `next`."""

    def __init__(self) -> None:
        self._queue: deque[JobInfo] = deque()
        self._condition = threading.Condition()
        self._current: JobInfo | None = None
        self._cancelled: set[int] = set()
        self._words: dict[int, Command] = {}  # the last control message for the running job
        self._yielding: set[int] = set()  # jobs that were asked to yield
        self._parked: dict[int, JobInfo] = {}  # paused jobs, and jobs between two parts
        self.closing = False

    def add(self, info: JobInfo, *, urgent: bool = False) -> None:
        """Queue a job; an urgent one goes first."""
        with self._condition:
            (self._queue.appendleft if urgent else self._queue.append)(info)
            self._condition.notify()

    def cancel(self, number: int) -> JobInfo | None:
        """Cancel a job; returns it if it was queued or parked, so that it has ended now."""
        with self._condition:
            removed = self._parked.pop(number, None) or self._remove(number)
            if removed is None and self._current and self._current.id == number:
                self._cancelled.add(number)
            self._condition.notify()
        return removed

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
            self._condition.notify()
        return parked is not None

    def give_way(self, number: int) -> bool:
        """Ask the running job to end its present part, after which it is parked; returns False if it does not run."""
        with self._condition:
            if self._current is None or self._current.id != number:
                return False
            self._yielding.add(number)
        self.send(number, Finish())
        return True

    def drop(self, number: int) -> None:
        """Remove a parked job."""
        with self._condition:
            self._parked.pop(number, None)

    def send(self, number: int, word: Command) -> None:
        """Set the control message for a job, if it runs; Finish is final."""
        with self._condition:
            if self._current and self._current.id == number and self._words.get(number) != Finish():
                self._words[number] = word

    def close(self) -> list[JobInfo]:
        """End the schedule; returns the jobs that did not run."""
        with self._condition:
            self.closing = True
            removed = [*self._queue, *self._parked.values()]
            self._queue.clear()
            self._parked.clear()
            self._condition.notify()
        return removed

    # -- in the runner's thread

    def next(self) -> JobInfo | None:
        """Wait for the next job and make it the running one; None at the end."""
        with self._condition:
            while not self._queue and not self.closing:
                self._condition.wait(1.0)
                # The process may end without `close`; its exit waits for this thread.
                self.closing = self.closing or not threading.main_thread().is_alive()
            self._current = None if self.closing else self._queue.popleft()
            return self._current

    def finish(self) -> None:
        """Mark the running job as ended."""
        self._current = None

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
