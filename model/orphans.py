"""Ends a child process when its parent has ended in any way.

The operating system does so if it can: a thread of this process would have to wait while a library holds the
interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import threading
import time

POLL = 0.5  # seconds between two checks of the parent, without a notification by the system


def end_with_parent(pipe: int | None = None) -> None:
    """Kill this process when its parent has ended; to be called first in a child process.

    `pipe`: a descriptor whose other end only the parent holds, such as standard input; not needed in processes of
    multiprocessing.
    """
    parent = multiprocessing.parent_process()
    if pipe is None and parent is not None:
        pipe = parent.sentinel
    if sys.platform == "win32":
        return
    if pipe is None:
        _end_with_parent_id()
    else:
        _end_with_pipe(pipe)


def python_command(script: str, *arguments: str) -> list[str]:
    """The command of a Python process that runs `script` with `arguments`, for threads that wait for it.

    It imports nothing of the working folder and ends with this process, also in calls of libraries.
    """
    begin = f"import runpy\nrunpy.run_path({__file__!r})['end_with_parent']()\n"
    return [sys.executable, "-P", "-c", begin + script, *arguments]


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if sys.platform != "win32":
    import fcntl

    def _end_with_pipe(pipe: int) -> None:
        """Kill this process when the other end of a pipe is closed."""
        if hasattr(fcntl, "F_SETSIG"):  # Linux: the signal does not need the interpreter
            fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
            if select.select([pipe], [], [], 0)[0]:  # already closed
                _end()
        else:
            threading.Thread(target=_wait, args=(pipe,), name="orphans", daemon=True).start()

    def _wait(pipe: int) -> None:
        select.select([pipe], [], [])
        _end()

    def _end_with_parent_id() -> None:
        """Kill this process when its parent's id changes; on Linux also when the thread that started it ends."""
        before = os.getppid()
        if sys.platform == "linux":
            import ctypes

            set_death_signal = 1  # PR_SET_PDEATHSIG
            ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
            if os.getppid() != before:
                _end()
        else:
            threading.Thread(target=_poll, args=(before,), name="orphans", daemon=True).start()

    def _poll(before: int) -> None:
        while os.getppid() == before:
            time.sleep(POLL)
        _end()
