"""Subprocesses of simulators and synthesisers: polled while they run, and killed with their children on errors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from espalier.model.errors import SimulateError

Tick = Callable[[Path], None]
POLL = 0.1  # most seconds between two polls
# A background shell kills the whole process group when its standard input closes, which happens however this process
# ends. It is started by the same command as the program, so that the program never runs without it.
TETHER = 'exec 3<&0 </dev/null; (read _ <&3; kill -KILL 0) & exec "$@" 3<&-'


def ignore(log: Path) -> None:
    """Default `tick`: do nothing."""


def run_polled(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float, tick: Tick = ignore
) -> tuple[int, str]:
    """Run a program in `folder`; returns its exit code and output. Raises SimulateError after `seconds`.

    `tick` is called with the log file at every poll; an exception that it raises kills the program.
    """
    name = Path(command[0]).name
    log = folder / f"{name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(["sh", "-c", TETHER, "sh", *command], cwd=folder, stdin=subprocess.PIPE,
                                   env={**os.environ, **environment}, stdout=file, stderr=file,
                                   start_new_session=True)  # fmt: skip
        deadline = time.monotonic() + seconds
        wait = 0.002  # short at first, for short runs
        try:
            while process.poll() is None:
                tick(log)
                if time.monotonic() > deadline:
                    raise SimulateError(f"{name} took longer than {seconds:.0f} s.", "Use a smaller design.")
                time.sleep(wait)
                wait = min(wait * 1.5, POLL)
        finally:
            _end(process)
    return process.returncode, log.read_text(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group; the background shell in it keeps its id from being reused."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
