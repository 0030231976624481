"""Routes jobs: saves to a thread of the window's process, all others to the workers. Free of Qt."""

from __future__ import annotations

from collections.abc import Callable

from espalier.app.jobs.lane import Listener
from espalier.app.jobs.runner import NUMBERS, JobRunner, shared
from espalier.app.jobs.saver import Saver
from espalier.passes.jobs.kinds import Job, JobInfo, SaveJob


class JobRouter:
    """A runner for all jobs. `prepared` returns a job as it is sent, possibly long after it was submitted."""

    def __init__(self, listener: Listener, prepared: Callable[[Job], Job]) -> None:
        self._worker = JobRunner(listener, prepared, shared())
        self._saver = Saver(listener)
        # Saves cannot be paused.
        worker = self._worker
        self.stop_and_keep, self.pause, self.resume = worker.stop_and_keep, worker.pause, worker.resume
        self.give_way, self.blocks, self.drop = worker.give_way, worker.blocks, worker.drop

    @property
    def worker_pid(self) -> int | None:
        """The process id of the first worker, for tests and the log."""
        return self._worker.worker_pid

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of all workers that run."""
        return self._worker.worker_pids

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job; an urgent one goes first."""
        if not isinstance(job, SaveJob):
            return self._worker.submit(title, job, urgent=urgent)
        info = JobInfo(next(NUMBERS), title, job)
        self._saver.submit(info, job)
        return info

    def cancel(self, number: int) -> None:
        """Stop a job, running or queued."""
        if not self._saver.cancel(number):
            self._worker.cancel(number)

    def close(self) -> None:
        """Finish the saves by the user, stop all other jobs, and wait for the threads and processes to end."""
        self._saver.close()
        self._worker.close()
