"""The worker's side of jobs: receives jobs and commands from a pipe, runs the jobs and sends their events.

No Qt, no torch.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
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
    Command,
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
)

Handler = Callable[[Any, "Channel"], Any]
INDIVISIBLE = re.compile(r"^<frozen importlib|[\\/](site|dist)-packages[\\/](numba|llvmlite)[\\/]")
INTERRUPT = getattr(signal, "SIGUSR1", None)  # cancels a job that does not poll the pipe


class Channel:
    """The worker's end of the pipe: sends events, receives commands (cancel, finish, pause, continue)."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._last_progress = self._since = 0.0
        self._enough = self._paused = False
        self._asks = False  # whether the job looks at `paused`, so that it prepares its pauses itself
        self.working = False  # whether the code of a job is running
        self._transferring = self._interrupted = False  # interrupts during a message are delayed to its end

    def interrupt(self, _signal: int = 0, frame: FrameType | None = None) -> None:
        """Abort the running job, if any; the sender repeats the signal until it has an effect."""
        self._interrupted = self._transferring
        if self.working and not self._transferring and not _is_indivisible(frame or inspect.currentframe()):
            self.working = False
            raise Interrupted

    def send(self, event: Event) -> None:
        """Send one event."""
        self._transfer(lambda: self._pipe.send(event))

    def _transfer(self, message: Callable[[], Any]) -> Any:
        """Send or receive a message without interruption: a partial message would corrupt the stream."""
        self._transferring = True
        try:
            return message()
        finally:
            self._transferring = False
            if self._interrupted:
                self.interrupt()

    def progress(self, done: int, total: int, text: str) -> None:
        """Send progress, at most 20 events per second. Waits while paused; raises Cancelled if cancelled.

        A job that looks at `paused` before each progress sees a pause there first, even one that arrives in between.
        """
        knew = self._paused or not self._asks
        self._receive_commands()
        if self._paused and knew:
            self._wait()
        if not done and total:
            self._since = time.thread_time()
        now = time.monotonic()
        if now - self._last_progress > 0.05 or done >= total:
            self._last_progress = now
            self.send(Progress(done, total, text))

    def metric(self, name: str, step: int, value: float) -> None:
        """Send a metric."""
        self.send(Metric(name, step, value))

    def enough(self) -> bool:
        """Whether the job is to stop with its result so far; raises Cancelled as `progress` does."""
        self._receive_commands()
        return self._enough

    def paused(self) -> bool:
        """Whether the job is to pause; raises Cancelled as `progress` does."""
        self._asks = True
        self._receive_commands()
        return self._paused

    def begin(self) -> None:
        """Start a new job: discard commands to the previous one."""
        self._enough = self._paused = self._asks = False
        self._since = time.thread_time()

    def spent(self) -> float:
        """Processor seconds of this thread since the first step of the job, or since its start."""
        return time.thread_time() - self._since

    def _receive_commands(self) -> None:
        while self._pipe.poll():
            self._apply(self._transfer(self._pipe.recv))

    def _wait(self) -> None:
        """Wait for a command."""
        self.send(Paused())
        while self._paused:
            self._apply(self._transfer(self._pipe.recv))
        self.send(Continued())

    def _apply(self, command: Command | None) -> None:
        match command:
            case Pause():
                self._paused = True
            case Continue():
                self._paused = False
            case Finish():
                self._enough, self._paused = True, False
            case _:
                raise Cancelled("The job was cancelled.")


def _is_indivisible(frame: FrameType | None) -> bool:
    """Whether a module is being imported or numba compiles: aborted, either would be unusable in this process.

    numba keeps generators of what it has registered; one that is aborted has ended.
    """
    while frame is not None and not INDIVISIBLE.search(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None


class _Lines(io.TextIOBase):
    """A standard stream that sends its lines as events, for output of the model's code."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._pending = channel, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._send(line)
        return len(text)

    def finish(self) -> None:
        """Send the last line, without a line end."""
        self._send(self._pending)
        self._pending = ""

    def _send(self, line: str) -> None:
        if line.strip():
            self._channel.send(LogLine(line.rstrip()))


def serve(pipe: Connection, handler: Handler) -> None:
    """The worker's loop: receive a job, run it, send its terminal event. Returns when the pipe is closed."""
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
        # Worker boundary: unpickling values of a plug-in that is not loaded may raise any exception.
        except Exception as error:  # noqa: BLE001
            with contextlib.suppress(BrokenPipeError):
                channel.send(_failed_by_bug(error))
            continue
        if job is None or isinstance(job, Command):
            continue  # a command to an ended job
        channel.begin()
        with contextlib.suppress(BrokenPipeError):
            channel.send(Started())
            _send_end(channel, run_one(job, channel, handler))


def _send_end(channel: Channel, event: Event) -> None:
    try:
        channel.send(event)
    except UNSENDABLE as error:
        channel.send(Failed(f"The job's result cannot be pickled ({error}).", "Correct the plug-in that created it."))


def run_one(job: Any, channel: Channel, handler: Handler) -> Event:
    """Run a job and return its terminal event."""
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
        return Failed("The job ran out of memory.", "Close other programs or use a smaller model.")
    # Worker boundary: the user's model code may raise any exception; the worker continues.
    except BaseException as error:  # noqa: BLE001
        return _failed_by_bug(error)


def _failed_by_bug(error: BaseException) -> Failed:
    from espalier.passes.plugins.plugins import plugin_fault

    text, log = "".join(traceback.format_exception(error)), "See the log for the traceback."
    if fault := plugin_fault(error):
        return Failed(fault.message, f"{fault.hint} {log}", None, text)
    return Failed(f"{type(error).__name__}: {str(error).strip()[:500]}", log, None, text)
