"""A process that ends with the one that started it, however that one dies: the child's side.

The kernel does it where it can: a thread of ours would wait for as long as a library holds Python.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import threading
import time

LOOK = 0.5  # seconds between two looks at the parent, where nothing tells of its end


def end_with_parent(pipe: int | None = None) -> None:
    """Kill this process when its parent has gone; called first of all in a process that another started.

    `pipe`: a descriptor whose other end the parent alone holds open, such as that of standard input; not needed in
    processes of multiprocessing.
    """
    parent = multiprocessing.parent_process()
    if pipe is None and parent is not None:
        pipe = parent.sentinel
    if sys.platform == "win32":
        return
    if pipe is None:
        _end_with_starter()
    else:
        _end_at(pipe)


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if sys.platform != "win32":
    import fcntl

    def _end_at(pipe: int) -> None:
        """When the other end of a pipe is closed."""
        if hasattr(fcntl, "F_SETSIG"):  # Linux: whoever holds the interpreter then
            fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
            if select.select([pipe], [], [], 0)[0]:  # it was closed before
                _end()
        else:
            threading.Thread(target=_wait, args=(pipe,), name="orphans", daemon=True).start()

    def _wait(pipe: int) -> None:
        select.select([pipe], [], [])
        _end()

    def _end_with_starter() -> None:
        """When the parent is another; on Linux also when the thread that started this process ends."""
        before = os.getppid()
        if sys.platform == "linux":
            import ctypes

            set_death_signal = 1  # PR_SET_PDEATHSIG
            ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
            if os.getppid() != before:
                _end()
        else:
            threading.Thread(target=_look, args=(before,), name="orphans", daemon=True).start()

    def _look(before: int) -> None:
        while os.getppid() == before:
            time.sleep(LOOK)
        _end()
