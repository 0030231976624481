"""The process's end of the pipe: output in order with messages, bounded, and safe from interrupts."""

from __future__ import annotations

import contextlib
import io
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from espalier.app.features.console.messages import ERROR, OUT, Output

BOUND = 256 * 1024  # characters that wait to be sent; a printing text then waits for the window
PIECE = 32 * 1024  # characters of one message
DRAIN = 0.05  # seconds to wait for output of other programs after a text has ended


class Outgoing:
    """Sends output and messages in order, from a thread.

    A full pipe does not block the caller within a message, which an interrupt could cut in two.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._items: deque[Any] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._pending = False
        self.guarded = False  # whether an interrupt would leave the queue inconsistent
        threading.Thread(target=self._loop, name="console-output", daemon=True).start()

    def postpone(self) -> bool:
        """Whether an interrupt has to wait; it is then raised at the end of the present write."""
        self._pending = self.guarded
        return self.guarded

    def write(self, kind: str, text: str) -> None:
        """Queue output; waits while too much is queued. Raises KeyboardInterrupt."""
        for start in range(0, len(text), PIECE):
            self._write_piece(kind, text[start : start + PIECE])

    def _write_piece(self, kind: str, text: str) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.guarded = main or self.guarded
        try:
            with self._changed:
                while self._size > BOUND and not (main and self._pending):
                    self._changed.wait(0.05)
                self._append(kind, text)
        finally:
            if main:
                self.guarded = False
        if main and self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _append(self, kind: str, text: str) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Output) and last.kind == kind and len(last.text) < PIECE:
            self._items[-1] = Output(kind, last.text + text)
        else:
            self._items.append(Output(kind, text))
        self._size += len(text)
        self._changed.notify_all()

    def send(self, message: Any) -> None:
        """Queue a message behind the output so far."""
        main = threading.current_thread() is threading.main_thread()
        self.guarded = main or self.guarded
        try:
            with self._changed:
                self._items.append(message)
                self._changed.notify_all()
        finally:
            if main:
                self.guarded = False
        if main and self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _loop(self) -> None:
        with contextlib.suppress(OSError):  # the window has closed the pipe
            while True:
                with self._changed:
                    while not self._items:
                        self._changed.wait()
                    item = self._items.popleft()
                self._pipe.send(item)
                if isinstance(item, Output):
                    with self._changed:
                        self._size -= len(item.text)
                        self._changed.notify_all()


class Stream(io.TextIOBase):
    """Standard output or standard error of the console."""

    def __init__(self, outgoing: Outgoing, kind: str, number: int) -> None:
        self._outgoing, self._kind, self._number = outgoing, kind, number

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Any text can be written."""
        return "utf-8"

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """The descriptor, whose output arrives too."""
        return self._number

    def write(self, text: str, /) -> int:
        """Send a text; returns its length."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  as every text stream
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._outgoing.write(self._kind, text)
        return len(text)


class Entry(io.TextIOBase):
    """Standard input: the window asks the user for a line."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self._ask = ask

    def readable(self) -> bool:
        """Yes."""
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """A line that the user types, with its line end; empty at the end of the input."""
        return self._ask()

    def read(self, size: int | None = -1, /) -> str:
        """A line, too: the input has no end of its own."""
        return self._ask()


class Captured:
    """Output of other programs and of libraries in C, which write to the descriptors 1 and 2."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._ends: list[int] = []
        self._moving = threading.Lock()
        if os.name != "posix":
            return
        for kind, number in ((OUT, 1), (ERROR, 2)):
            end, write_end = os.pipe()
            os.dup2(write_end, number)
            os.close(write_end)
            self._ends.append(end)
            threading.Thread(target=self._forward, args=(end, kind, outgoing), name=f"console-{kind}",
                             daemon=True).start()  # fmt: skip

    def _forward(self, end: int, kind: str, outgoing: Outgoing) -> None:
        while True:
            select.select([end], [], [])
            with self._moving:  # what was read is queued before `drain` looks
                data = os.read(end, PIECE)
                outgoing.write(kind, data.decode("utf-8", "replace"))
            if not data:
                return

    def drain(self) -> None:
        """Wait until the threads have taken what was written, for a short time."""
        pause = threading.Event()
        for _ in range(5):
            with self._moving:
                if not self._ends or not select.select(self._ends, [], [], 0)[0]:
                    return
            pause.wait(DRAIN / 5)
