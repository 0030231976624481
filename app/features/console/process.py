"""The console's process as the window sees it: started when first needed, stopped with the window. Free of Qt."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from espalier.app.features.console.messages import Output, Quit
from espalier.app.jobs.worker_process import SAFE_PATH, safe_path
from espalier.app.translation import tr
from espalier.model.orphans import end_with_parent
from espalier.model.trust import begin_session

MAIN = "espalier.app.interpreter.main"  # by name: it stands above the features
GRACE = 1.0  # seconds that the process has to end before it is killed
BOUND = 512 * 1024  # characters that wait to be shown; the process then waits for the window
NICE = 3  # as the worker's, so that the window has priority


def _entry(pipe: Connection) -> None:
    os.environ.pop(SAFE_PATH, None)
    end_with_parent()
    if hasattr(os, "nice"):
        os.nice(NICE)
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it may have children
    importlib.import_module(MAIN).main(pipe)


class ConsoleProcess:
    """One process and two threads that send to it and receive from it. `wake`: called from a thread with news.

    Sending never waits for the process: it may hold its interpreter for long.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        begin_session()
        self._wake = wake
        self._news: deque[Any] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._closing = False
        self._unsent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        context = multiprocessing.get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_entry, args=(other_end,), daemon=True, name="espalier-console")
        with safe_path():
            self._process.start()
        other_end.close()
        self._threads = [threading.Thread(target=loop, name=f"espalier-console-{name}")
                         for name, loop in (("send", self._send), ("receive", self._receive))]  # fmt: skip
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._process.pid

    def post(self, message: Any) -> None:
        """Send a message, from a thread."""
        self._unsent.put(message)

    def take(self, most: int) -> list[Any]:
        """The messages that arrived, in order, with at most about `most` characters of output."""
        taken: list[Any] = []
        with self._changed:
            while self._news and most > 0:
                message = self._news.popleft()
                if isinstance(message, Output):
                    most -= len(message.text)
                    self._size -= len(message.text)
                taken.append(message)
            self._changed.notify_all()
        return taken

    def stop(self) -> None:
        """End the process, whatever it runs, and the threads: kill it if it does not end by itself.

        Messages that were not taken are dropped.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._unsent.put(Quit())
        self._unsent.put(None)
        self._process.join(GRACE / 2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(GRACE)
        for thread in self._threads:
            thread.join()
        self._pipe.close()

    # -- in the threads

    def _send(self) -> None:
        while (message := self._unsent.get()) is not None:
            try:
                self._pipe.send(message)
            except OSError:  # it has ended; the other thread says so
                continue
            # Boundary of the process: values of a plug-in may refuse to be pickled with any exception.
            except Exception as error:  # noqa: BLE001
                self._arrived(Unsent(f"{type(error).__name__}: {error}"))

    def _receive(self) -> None:
        while True:
            try:
                message = self._pipe.recv()
            except (EOFError, OSError):
                break
            # Boundary of the process: what it sends may not be readable here.
            except Exception as error:  # noqa: BLE001
                message = Unsent(f"{type(error).__name__}: {error}")
            if not self._arrived(message):
                return
        self._process.join(GRACE)
        self._arrived(Died(self._process.exitcode))

    def _arrived(self, message: Any) -> bool:
        """Queue a message for the window; waits while too much output is queued. False: the window is closing."""
        with self._changed:
            while self._size > BOUND and not self._closing:
                self._changed.wait()
            if self._closing:
                return False
            if isinstance(message, Output):
                self._size += len(message.text)
            self._news.append(message)
        self._wake()
        return True


class Died:
    """The process has ended by itself. `code`: its exit code; negative: a signal."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    @property
    def reason(self) -> str:
        """How it ended."""
        code = self.code or 0
        return tr("signal {}", -code) if code < 0 else tr("exit code {}", code)


class Unsent:
    """A message that could not be sent or read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
