"""Further worker processes on this machine that join a study, as many as fit into memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.leftovers import Scratch
from espalier.model.memory import free
from espalier.passes.search.fleet.heartbeat import worker_name
from espalier.passes.search.fleet.memory import Capacity, resident
from espalier.passes.search.fleet.worker import ENDED, PARENT, wait_for_others
from espalier.passes.search.outage import OUTAGE
from espalier.passes.search.storage import STORAGE_VARIABLE, disconnected, outages
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.passes.search.study import StudyRun

MAIN = Path(__file__).parents[3] / "__main__.py"
PATIENCE = 20.0  # seconds for a worker to return its trial to the queue


@dataclass(slots=True)
class LocalWorkers:
    """`wanted`: number of further workers. They start after this process's first trial, when its memory is known."""

    wanted: int
    storage: str
    study: str
    tell: Callable[[str], None]
    plugins: tuple[str, ...] = ()
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _logs: Scratch = field(default_factory=Scratch)
    _started: bool = False

    @property
    def threads(self) -> int:
        """CPU threads of each worker."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores // (self.wanted + 1))

    def grow(self) -> None:
        """Start as many workers as fit into memory; only once."""
        if self._started or not self.wanted:
            return
        self._started = True
        capacity = Capacity(self.wanted, resident(), free())
        self.tell(capacity.message)
        for number in range(capacity.count):
            self._start(number)

    def _start(self, number: int) -> None:
        command = [sys.executable, str(MAIN), "worker", "--study", self.study,
                 "--threads", str(self.threads), *(w for p in self.plugins for w in ("--plugin", p))]  # fmt: skip
        threads = {f"{n}_NUM_THREADS": str(self.threads) for n in ("OMP", "MKL", "NUMBA")}
        names = {PARENT: str(os.getpid()), STORAGE_VARIABLE: self.storage}
        with self._log(number).open("wb") as log:
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log,
                                      env={**os.environ, **threads, **names},
                                      start_new_session=True)  # fmt: skip
        self.workers.append(worker)

    def _log(self, number: int) -> Path:
        return self._logs.folder / f"{number}.log"

    def report_failures(self) -> None:
        """Report workers that ended with an error."""
        for number, worker in enumerate(self.workers):
            if worker.returncode is None and (code := worker.poll()):
                with contextlib.suppress(OSError):
                    lines = self._log(number).read_text(errors="replace").strip().splitlines()[-2:]
                    why = " ".join(lines) if code > 0 else f"it was killed (signal {-code})."
                    self.tell(f"Worker {worker.pid} ended: {why}")

    def stop(self) -> None:
        """Terminate all workers, which then return their trials to the queue; kill those that take over PATIENCE s."""
        running = [w for w in self.workers if w.poll() is None]
        for worker in running:
            worker.terminate()
        for worker in running:
            try:
                worker.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            if worker.stdin is not None:  # a worker ends when its standard input closes
                worker.stdin.close()
        self._logs.close()


def all_trials(running: StudyRun, local: LocalWorkers) -> Generator[Trial]:
    """Yield the trials of all workers of a study until none runs."""
    with OUTAGE.reporting(local.tell):
        try:
            yield from _all(running, local)
        except outages() as error:
            raise disconnected(local.storage, error) from error
        finally:
            local.stop()


def _all(running: StudyRun, local: LocalWorkers) -> Generator[Trial]:
    from optuna.exceptions import UpdateFinishedTrialError

    while True:
        try:
            with contextlib.closing(running.trials()) as trials:
                for trial in trials:
                    yield trial
                    local.report_failures()
                    if trial.state in ENDED and trial.worker == worker_name():
                        local.grow()
            why = running.why
            if not wait_for_others(running.study, running.context.enough, local.tell, local.report_failures):
                yield from running.trials()  # the last results of other workers
                running.why = why
                return
        except UpdateFinishedTrialError:
            local.tell("A trial that ran here was ended by another worker.")
