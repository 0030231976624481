"""Further workers on this machine: as many as memory has room for, each a process of its own that joins the study."""

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
from espalier.passes.search.fleet.heartbeat import worker_name
from espalier.passes.search.fleet.memory import Capacity, free, resident
from espalier.passes.search.fleet.worker import ENDED, PARENT, wait_for_others
from espalier.passes.search.outage import OUTAGE
from espalier.passes.search.storage import NAMED, broken_off, outages
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.passes.search.study import Running

MAIN = Path(__file__).parents[3] / "__main__.py"
PATIENCE = 20.0  # seconds for a worker to give its trial back


@dataclass(slots=True)
class LocalWorkers:
    """`wanted`: further workers. They start after this process's first trial, when it is known what one takes."""

    wanted: int
    storage: str
    study: str
    tell: Callable[[str], None]
    plugins: tuple[str, ...] = ()
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _logs: Scratch = field(default_factory=Scratch)
    _asked: bool = False

    @property
    def threads(self) -> int:
        """Processor threads of each."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores // (self.wanted + 1))

    def grow(self) -> None:
        """Start as many as there is room for; once."""
        if self._asked or not self.wanted:
            return
        self._asked = True
        room = Capacity(self.wanted, resident(), free())
        self.tell(room.words)
        for number in range(room.count):
            self._start(number)

    def _start(self, number: int) -> None:
        words = [sys.executable, str(MAIN), "worker", "--study", self.study,
                 "--threads", str(self.threads), *(w for p in self.plugins for w in ("--plugin", p))]  # fmt: skip
        threads = {f"{n}_NUM_THREADS": str(self.threads) for n in ("OMP", "MKL", "NUMBA")}
        with self._log(number).open("wb") as log:
            worker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log,
                                      env={**os.environ, **threads, PARENT: str(os.getpid()), NAMED: self.storage},
                                      start_new_session=True)  # fmt: skip
        self.workers.append(worker)

    def _log(self, number: int) -> Path:
        return self._logs.folder / f"{number}.log"

    def look(self) -> None:
        """Tell of workers that ended otherwise than they should."""
        for number, worker in enumerate(self.workers):
            if worker.returncode is None and (code := worker.poll()):
                with contextlib.suppress(OSError):
                    lines = self._log(number).read_text(errors="replace").strip().splitlines()[-2:]
                    why = " ".join(lines) if code > 0 else f"it was killed (signal {-code})."
                    self.tell(f"Worker {worker.pid} ended: {why}")

    def stop(self) -> None:
        """End all: politely, so that they give their trials back, then for good."""
        running = [w for w in self.workers if w.poll() is None]
        for worker in running:
            worker.terminate()
        for worker in running:
            try:
                worker.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            if worker.stdin is not None:  # open until now: where it closes, the worker ends
                worker.stdin.close()
        self._logs.close()


def together(running: Running, local: LocalWorkers) -> Generator[Trial]:
    """The trials of all workers of a study, until none runs any more."""
    with OUTAGE.told(local.tell):
        try:
            yield from _all(running, local)
        except outages() as error:
            raise broken_off(local.storage, error) from error
        finally:
            local.stop()


def _all(running: Running, local: LocalWorkers) -> Generator[Trial]:
    from optuna.exceptions import UpdateFinishedTrialError

    while True:
        try:
            with contextlib.closing(running.trials()) as trials:
                for trial in trials:
                    yield trial
                    local.look()
                    if trial.state in ENDED and trial.worker == worker_name():
                        local.grow()
            why = running.why
            if not wait_for_others(running.study, running.context.enough, local.tell, local.look):
                yield from running.trials()  # what others told last
                running.why = why
                return
        except UpdateFinishedTrialError:
            local.tell("A trial that ran here was ended by another worker.")
