"""The worker's side of a job: takes it from the pipe, sends its events, hears what the window has to say meanwhile.

No Qt, no torch.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from espalier.model.errors import EspalierError, Interrupted
from espalier.passes.base import Cancelled
from espalier.passes.jobs.kinds import (
    UNSENDABLE,
    Continue,
    Continued,
    Done,
    Event,
    Failed,
    Finish,
    LogLine,
    Metric,
    Pause,
    Paused,
    Progress,
    Ready,
    Started,
    Stopped,
    Word,
)

Handler = Callable[[Any, "Channel"], Any]
INTERRUPT = getattr(signal, "SIGUSR1", None)  # tells a worker that its job was cancelled, where the job does not ask


class Channel:
    """The worker's side of the pipe: sends events, notices a cancel, a finish and a pause."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._last = self._since = 0.0
        self._enough = self._paused = False
        self.working = False  # whether the code of a job runs now
        self._talking = self._late = False  # a message is under way; an interrupt waits for its end

    def interrupt(self, _signal: int = 0, frame: FrameType | None = None) -> None:
        """Break the job off; a worker without one has nothing to break off, and the next interrupt comes soon."""
        self._late = self._talking
        if self.working and not self._talking and not _imports(frame or inspect.currentframe()):
            self.working = False
            raise Interrupted

    def send(self, event: Event) -> None:
        """Send one event."""
        self._whole(lambda: self._pipe.send(event))

    def _whole(self, talk: Callable[[], Any]) -> Any:
        """A message, never broken off in its middle: what came after it would not be understood."""
        self._talking = True
        try:
            return talk()
        finally:
            self._talking = False
            if self._late:
                self.interrupt()

    def progress(self, done: int, total: int, text: str) -> None:
        """Send progress, at most 20 a second; waits while the job is paused; raises Cancelled when it was stopped."""
        if self.paused():
            self._wait()
        if not done and total:
            self._since = time.thread_time()
        now = time.monotonic()
        if now - self._last > 0.05 or done >= total:
            self._last = now
            self.send(Progress(done, total, text))

    def metric(self, name: str, step: int, value: float) -> None:
        """Send a figure."""
        self.send(Metric(name, step, value))

    def enough(self) -> bool:
        """Whether the user wants what the job has so far; raises Cancelled as `progress` does."""
        self._hear()
        return self._enough

    def paused(self) -> bool:
        """Whether the user wants the job to wait; raises Cancelled as `progress` does."""
        self._hear()
        return self._paused

    def begin(self) -> None:
        """A new job begins: what was said to the one before it is forgotten."""
        self._enough = self._paused = False
        self._since = time.thread_time()

    def spent(self) -> float:
        """Processor seconds of this thread since the job's steps began, or else the job."""
        return time.thread_time() - self._since

    def _hear(self) -> None:
        while self._pipe.poll():
            self._take(self._whole(self._pipe.recv))

    def _wait(self) -> None:
        """Without work until somebody says a word."""
        self.send(Paused())
        while self._paused:
            self._take(self._whole(self._pipe.recv))
        self.send(Continued())

    def _take(self, word: Word | None) -> None:
        match word:
            case Pause():
                self._paused = True
            case Continue():
                self._paused = False
            case Finish():
                self._enough, self._paused = True, False
            case _:
                raise Cancelled("The job was cancelled.")


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported: one that is broken off stays broken for as long as the process lives."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


class _Lines(io.TextIOBase):
    """A standard stream whose lines become events, so that a print in a model's code breaks nothing."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._rest = channel, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._send(line)
        return len(text)

    def finish(self) -> None:
        """Send what stands on the last line, which has no end."""
        self._send(self._rest)
        self._rest = ""

    def _send(self, line: str) -> None:
        if line.strip():
            self._channel.send(LogLine(line.rstrip()))


def serve(pipe: Connection, handler: Handler) -> None:
    """The worker's loop: take a job, run it, send its one terminal event; ends when the pipe closes."""
    channel = Channel(pipe)
    if INTERRUPT is not None and threading.current_thread() is threading.main_thread():
        signal.signal(INTERRUPT, channel.interrupt)
    with contextlib.suppress(BrokenPipeError):
        channel.send(Ready())
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        # Worker boundary: a job with values of a plug-in that is not loaded here fails to be read in any way.
        except Exception as error:  # noqa: BLE001
            with contextlib.suppress(BrokenPipeError):
                channel.send(_bug(error))
            continue
        if job is None or isinstance(job, Word):
            continue  # a word that came too late
        channel.begin()
        with contextlib.suppress(BrokenPipeError):
            channel.send(Started())
            _send_end(channel, run_one(job, channel, handler))


def _send_end(channel: Channel, event: Event) -> None:
    try:
        channel.send(event)
    except UNSENDABLE as error:
        channel.send(Failed(f"The job's result cannot be sent ({error}).", "Correct the plug-in that made it."))


def run_one(job: Any, channel: Channel, handler: Handler) -> Event:
    """The terminal event of one job."""
    lines = _Lines(channel)
    try:
        return _outcome(job, channel, handler, lines)
    finally:
        lines.finish()


def _outcome(job: Any, channel: Channel, handler: Handler, lines: Any) -> Event:
    try:
        with contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
            channel.working = True
            try:
                result = handler(job, channel)
            finally:
                channel.working = False
            return Done(result, channel.spent())
    except (Cancelled, Interrupted):
        return Stopped()
    except EspalierError as error:
        return Failed(error.message, error.hint, error.node)
    except MemoryError:
        return Failed("The job needs more memory than there is.", "Close other programs, or use a smaller model.")
    # Worker boundary: the user's model code may raise anything, and the worker must live on.
    except BaseException as error:  # noqa: BLE001
        return _bug(error)


def _bug(error: BaseException) -> Failed:
    message = f"{type(error).__name__}: {str(error).strip()[:500]}"
    return Failed(message, "See the log for where it happened.", None, "".join(traceback.format_exception(error)))
