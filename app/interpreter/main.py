"""The console's process: receives texts from the window, runs them, and sends what they print."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from espalier.app.features.console.messages import (
    ERROR,
    OUT,
    Complete,
    Completions,
    Ended,
    Interrupt,
    Line,
    Progress,
    Quit,
    Ready,
    Reply,
    Run,
)
from espalier.app.interpreter.completion import completions
from espalier.app.interpreter.interpreter import Interpreter, report
from espalier.app.interpreter.names import Names
from espalier.app.interpreter.streams import Captured, Entry, Outgoing, Stream
from espalier.app.interpreter.window_link import WindowLink
from espalier.passes.jobs.openmp import yield_processors

AGAIN = 0.1  # seconds until an interrupt is tried again that came during an import
PROGRESS = 0.1  # seconds between two reports of progress


class Process:
    """The main thread runs texts; another one receives messages, so that a running text can be interrupted."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._outgoing = Outgoing(pipe)
        self._todo: queue.SimpleQueue[Run | Complete] = queue.SimpleQueue()
        self._running = 0  # the number of the running text
        self._working = False
        self._reported = 0.0
        self._interpreter = Interpreter()
        self._names = Names(self._interpreter.namespace, self._progress)
        self._link = self._names.window = WindowLink(self._outgoing, self._names.take)
        self._captured = Captured(self._outgoing)
        sys.stdout, sys.stderr = Stream(self._outgoing, OUT, 1), Stream(self._outgoing, ERROR, 2)
        sys.stdin = Entry(self._link.line)  # type: ignore[assignment]
        signal.signal(signal.SIGINT, self._interrupted)

    def serve(self) -> None:
        """Run texts until the window closes the pipe."""
        threading.Thread(target=self._receive, name="console-input", daemon=True).start()
        self._outgoing.send(Ready())
        while True:
            match self._todo.get():
                case Run() as text:
                    self._run(text)
                case Complete(text=text):
                    self._complete(text)

    def _receive(self) -> None:
        """Sort the messages; ends the process with the pipe, whatever runs."""
        while True:
            try:
                message = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(0)
            # Boundary of the process: values of a plug-in that is not loaded here may raise anything.
            except Exception as error:  # noqa: BLE001
                self._outgoing.write(ERROR, f"A message of the window cannot be read ({error}).\n")
                continue
            self._sort(message)

    def _sort(self, message: Any) -> None:
        match message:
            case Run() | Complete():
                self._todo.put(message)
            case Interrupt(number=number):
                self._kick(number)
            case Line():
                self._link.lines.put(message)
            case Reply():
                self._link.replies.put(message)
            case Quit():
                atexit._run_exitfuncs()  # the main thread may run a text, and never end by itself
                os._exit(0)
            case _:
                pass

    def _kick(self, number: int) -> None:
        """Interrupt the main thread, if the text of this number runs."""
        if number == self._running:
            if hasattr(signal, "pthread_kill"):  # also ends a sleep or a read
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                import _thread

                _thread.interrupt_main()

    def _interrupted(self, _signal: int, frame: FrameType | None) -> None:
        if not self._working:
            return
        if _is_importing(frame):
            threading.Timer(AGAIN, self._kick, (self._running,)).start()
        elif not self._outgoing.postpone():
            raise KeyboardInterrupt

    def _run(self, text: Run) -> None:
        self._running, self._working = text.number, True
        try:
            self._run_text(text)
        # The user's code may raise anything; the console goes on.
        except BaseException as error:  # noqa: BLE001
            self._working = False
            with contextlib.suppress(Exception):
                report(error)
        finally:
            self._working, self._running = False, 0
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            self._captured.drain()
        self._outgoing.send(Ended(text.number))

    def _run_text(self, text: Run) -> None:
        if text.update is not None:
            self._names.take(text.update)
        if (tree := self._interpreter.parse(text.text, text.number)) is None:
            return
        self._names.begin(text.selection, tree)
        self._interpreter.run(tree, text.number)
        self._names.end()

    def _complete(self, text: str) -> None:
        model = self._names.document.model
        length, words = completions(text, self._interpreter.namespace, lambda: model.project.graph.nodes if model
                                    else ())  # fmt: skip
        self._outgoing.send(Completions(text, length, tuple(words)))

    def _progress(self, done: int, total: int, text: str) -> None:
        now = time.monotonic()
        if now - self._reported > PROGRESS or (total and done >= total):
            self._reported = now
            self._outgoing.send(Progress(done, total, text))


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: an aborted import would leave it unusable in this process."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def main(pipe: Connection) -> None:
    """Serve a window."""
    yield_processors()
    Process(pipe).serve()
