"""Writes projects in a thread of the window's own process, so that no save waits for a job. No Qt in here."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from espalier.model.document.project import save_project
from espalier.model.errors import EspalierError
from espalier.model.store.open_files import Version
from espalier.passes.base import Cancelled
from espalier.passes.jobs.kinds import Done, Event, Failed, JobEvent, JobInfo, Progress, SaveJob, Started, Stopped

EVERY = 0.05  # seconds between two words of progress


class Saver:
    """Saves one after another; what the user saves goes before copies for recovery, and ends one that is written."""

    def __init__(self, listener: Callable[[JobEvent], None]) -> None:
        self._listener = listener
        self._queue: deque[tuple[JobInfo, SaveJob]] = deque()
        self._wake = threading.Condition()
        self._current: tuple[JobInfo, SaveJob] | None = None
        self._stopped: set[int] = set()
        self._replaced: dict[tuple[Path, Version], Version] = {}  # by what we replaced a version of a file
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="espalier-saver")
        self._thread.start()

    def submit(self, info: JobInfo, job: SaveJob) -> None:
        """Queue a save."""
        with self._wake:
            if job.copy:
                self._queue.append((info, job))
            else:
                self._queue.insert(sum(not other.copy for _, other in self._queue), (info, job))
                if self._current and self._current[1].copy:
                    self._stopped.add(self._current[0].id)
            self._wake.notify()

    def cancel(self, number: int) -> bool:
        """Stop a save, which leaves the old file; False where there is none of this number."""
        with self._wake:
            waiting = next((entry for entry in self._queue if entry[0].id == number), None)
            if waiting:
                self._queue.remove(waiting)
            elif self._current and self._current[0].id == number:
                self._stopped.add(number)
            else:
                return False
        if waiting:
            self._tell(waiting[0], Stopped())
        return True

    def close(self) -> None:
        """Finish what the user saved, drop the rest, and wait for the thread to end."""
        with self._wake:
            dropped = [info for info, job in self._queue if job.copy]
            self._queue = deque(entry for entry in self._queue if not entry[1].copy)
            if self._current and self._current[1].copy:
                self._stopped.add(self._current[0].id)
            self._closing = True
            self._wake.notify()
        for info in dropped:
            self._tell(info, Stopped())
        self._thread.join()

    # -- in the thread

    def _loop(self) -> None:
        while self._one():
            pass  # the thread waits for the next one without holding files and graphs of the last

    def _one(self) -> bool:
        """Wait for a save and do it; False: there will be no more."""
        entry = self._next()
        if entry is None:
            return False
        self._tell(entry[0], Started())
        self._tell(entry[0], self._run(*entry))
        with self._wake:
            self._current = None
            self._stopped.discard(entry[0].id)
        return True

    def _next(self) -> tuple[JobInfo, SaveJob] | None:
        with self._wake:
            while not self._queue and not self._closing:
                self._wake.wait(1.0)
                # A program that ended without closing us must not wait for us for ever.
                self._closing = self._closing or not threading.main_thread().is_alive()
            self._current = self._queue.popleft() if self._queue else None
            return self._current

    def _run(self, info: JobInfo, job: SaveJob) -> Event:
        last = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal last
            if info.id in self._stopped:
                raise Cancelled("The save was stopped.")
            if time.monotonic() - last > EVERY:
                last = time.monotonic()
                self._tell(info, Progress(done, total, f"saving {job.path.name}"))

        try:
            over = self._now(job)
            wanted = None if job.anyway else over
            saved = save_project(job.project, job.store, job.path, over=wanted, progress=progress, placing=job.placing)
            if over and saved.version:
                self._replaced[job.path, over] = saved.version
            return Done(saved)
        except Cancelled:
            return Stopped()
        except EspalierError as error:
            return Failed(error.message, error.hint)
        except MemoryError:
            return Failed(f"There is not enough memory to save {job.path.name}.", "Close other programs, save again.")
        # Thread boundary: whatever else goes wrong, the window must hear that nothing was saved.
        except Exception as error:  # noqa: BLE001
            message = f"{job.path.name} could not be saved ({type(error).__name__}: {error})."
            return Failed(message, "Save under another name; report this as a bug.")

    def _now(self, job: SaveJob) -> Version | None:
        """The version that a save is to replace: of one that was asked for while another was written, that one."""
        over = job.over
        while over and (newer := self._replaced.get((job.path, over))):
            over = newer
        return over

    def _tell(self, info: JobInfo, event: Event) -> None:
        info.note(event, time.monotonic())
        self._listener(JobEvent(info, event))
