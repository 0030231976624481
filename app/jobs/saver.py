"""Writes projects in a thread of the window's process, so that no save waits for a job. Free of Qt."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from espalier.app.translation import tr
from espalier.model.document.project import save_project
from espalier.model.errors import EspalierError
from espalier.model.store.open_files import Version
from espalier.passes.base import Cancelled
from espalier.passes.jobs.kinds import Done, Event, Failed, JobEvent, JobInfo, Progress, SaveJob, Started, Stopped

PROGRESS_INTERVAL = 0.05  # seconds


class Saver:
    """Runs saves one after another; a save by the user goes before recovery copies and cancels a running one."""

    def __init__(self, listener: Callable[[JobEvent], None]) -> None:
        self._listener = listener
        self._queue: deque[tuple[JobInfo, SaveJob]] = deque()
        self._condition = threading.Condition()
        self._current: tuple[JobInfo, SaveJob] | None = None
        self._stopped: set[int] = set()
        self._replaced: dict[
            tuple[Path, Version], Version
        ] = {}  # (file, old version) → the version that this saver wrote over it
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="espalier-saver")
        self._thread.start()

    def submit(self, info: JobInfo, job: SaveJob) -> None:
        """Queue a save."""
        with self._condition:
            if job.copy:
                self._queue.append((info, job))
            else:
                self._queue.insert(sum(not other.copy for _, other in self._queue), (info, job))
                if self._current and self._current[1].copy:
                    self._stopped.add(self._current[0].id)
            self._condition.notify()

    def cancel(self, number: int) -> bool:
        """Cancel a save, which leaves the old file; returns False if there is no save of this number."""
        with self._condition:
            queued = next((entry for entry in self._queue if entry[0].id == number), None)
            if queued:
                self._queue.remove(queued)
            elif self._current and self._current[0].id == number:
                self._stopped.add(number)
            else:
                return False
        if queued:
            self._report(queued[0], Stopped())
        return True

    def close(self) -> None:
        """Finish the saves by the user, cancel the copies, and wait for the thread to end."""
        with self._condition:
            dropped = [info for info, job in self._queue if job.copy]
            self._queue = deque(entry for entry in self._queue if not entry[1].copy)
            if self._current and self._current[1].copy:
                self._stopped.add(self._current[0].id)
            self._closing = True
            self._condition.notify()
        for info in dropped:
            self._report(info, Stopped())
        self._thread.join()

    # -- in the thread

    def _loop(self) -> None:
        while self._run_next():
            pass  # the thread waits for the next save without holding files and graphs of the last

    def _run_next(self) -> bool:
        """Wait for a save and do it; False: there will be no more."""
        entry = self._next()
        if entry is None:
            return False
        self._report(entry[0], Started())
        self._report(entry[0], self._run(*entry))
        with self._condition:
            self._current = None
            self._stopped.discard(entry[0].id)
        return True

    def _next(self) -> tuple[JobInfo, SaveJob] | None:
        with self._condition:
            while not self._queue and not self._closing:
                self._condition.wait(1.0)
                # The process may end without `close`; its exit waits for this thread.
                self._closing = self._closing or not threading.main_thread().is_alive()
            self._current = self._queue.popleft() if self._queue else None
            return self._current

    def _run(self, info: JobInfo, job: SaveJob) -> Event:
        last = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal last
            if info.id in self._stopped:
                raise Cancelled("The save was stopped.")
            if time.monotonic() - last > PROGRESS_INTERVAL:
                last = time.monotonic()
                self._report(info, Progress(done, total, f"saving {job.path.name}"))

        try:
            over = self._present_version(job)
            expected = None if job.anyway else over
            saved = save_project(
                job.project, job.store, job.path, over=expected, progress=progress, placing=job.placing
            )
            if over and saved.version:
                self._replaced[job.path, over] = saved.version
            return Done(saved)
        except Cancelled:
            return Stopped()
        except EspalierError as error:
            return Failed(error.message, error.hint)
        except MemoryError:
            return Failed(
                f"There is not enough memory to save {job.path.name}.", "Close other programs and save again."
            )
        # Thread boundary: the window must learn of any failure.
        except Exception as error:  # noqa: BLE001
            message = tr("{} could not be saved ({}: {}).", job.path.name, type(error).__name__, error)
            return Failed(message, "Save under another name; report this as a bug.")

    def _present_version(self, job: SaveJob) -> Version | None:
        """The version that a save replaces: that of `job.over`, or of a save that replaced it since."""
        over = job.over
        while over and (newer := self._replaced.get((job.path, over))):
            over = newer
        return over

    def _report(self, info: JobInfo, event: Event) -> None:
        info.note(event, time.monotonic())
        self._listener(JobEvent(info, event))
