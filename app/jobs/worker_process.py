"""The worker process of a window: a spawned Python process that runs one job at a time. Free of Qt."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from espalier.app.translation import tr
from espalier.model.orphans import end_with_parent
from espalier.model.trust import begin_session
from espalier.passes.jobs.kinds import Command, Event, Failed, Job
from espalier.passes.jobs.serving import INTERRUPT

GRACE = 1.5  # seconds that the process has to end before it is killed
NICE = 3  # the niceness of the worker, so that the window has priority
SAFE_PATH = "PYTHONSAFEPATH"
_starting = threading.Lock()


def _entry(pipe: Connection) -> None:
    os.environ.pop(SAFE_PATH, None)
    end_with_parent()
    if hasattr(os, "nice"):
        os.nice(NICE)
    from espalier.passes.jobs.worker import main

    main(pipe)


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Keep the working folder off the module path of a new Python: it may hold a foreign `multiprocessing`."""
    with _starting:  # threads share the environment
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            os.environ.pop(SAFE_PATH, None)


class WorkerProcess:
    """One spawned process and this end of its pipe.

    `ready`: it accepts jobs. `plugins`: the job that loaded the plug-ins which it has.
    """

    def __init__(self) -> None:
        begin_session()  # the worker inherits the session, and with it what the user allows in this window
        context = multiprocessing.get_context("spawn")
        self.pipe, other_end = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_entry, args=(other_end,), daemon=True, name="espalier-worker"
        )
        with safe_path():
            self.process.start()
        self.ready = False
        self.plugins: Job | None = None
        other_end.close()

    def stop(self) -> None:
        """End the process: close the pipe, then terminate, then kill it. Returns when it has ended."""
        self.pipe.close()
        self.process.join(0.2)
        for end in (self.process.terminate, self.process.kill):
            if self.process.is_alive():
                end()
                self.process.join(GRACE)

    def interrupt(self) -> None:
        """Interrupt the job between two operations; the process stays warm."""
        if INTERRUPT is not None and self.process.pid is not None and self.process.is_alive():
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, INTERRUPT)

    def receive(self) -> Event | None:
        """The next event; None if none arrives within 50 ms."""
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

    def send(self, word: Command | None) -> None:
        """Send a control message to the running job; None: end at once."""
        with contextlib.suppress(OSError):
            self.pipe.send(word)

    def death(self) -> Failed:
        """The event for the end of the process, with its signal or exit code."""
        self.process.join(GRACE)
        code = self.process.exitcode or 0
        reason = tr("signal {}", -code) if code < 0 else tr("exit code {}", code)
        hint = tr("Your project is untouched; run the job again. If it ends again, see the log.")
        return Failed(f"The worker process ended unexpectedly ({reason}).", hint)
