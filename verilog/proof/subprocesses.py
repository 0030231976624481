"""Programs that are started: watched while they run, and ended with all that they started when nobody wants them."""

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
LOOK = 0.1  # seconds between two looks
# Beside the program stands a shell that kills the whole group when our end of its standard input closes, which it
# does however we end. In one command with the program, so that there is no moment without it.
TETHER = 'exec 3<&0 </dev/null; (read _ <&3; kill -KILL 0) & exec "$@" 3<&-'


def quiet(log: Path) -> None:
    """Nobody listens."""


def watched(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float, tick: Tick = quiet
) -> tuple[int, str]:
    """(exit code, output) of a program run in `folder`; `tick` sees its log meanwhile, and what it raises ends it.

    Raises SimulateError after `seconds`.
    """
    name = Path(command[0]).name
    log = folder / f"{name}.log"
    with log.open("w") as held:
        process = subprocess.Popen(["sh", "-c", TETHER, "sh", *command], cwd=folder, stdin=subprocess.PIPE,
                                   env={**os.environ, **environment}, stdout=held, stderr=held,
                                   start_new_session=True)  # fmt: skip
        deadline = time.monotonic() + seconds
        wait = 0.002  # short at first: many runs are
        try:
            while process.poll() is None:
                tick(log)
                if time.monotonic() > deadline:
                    raise SimulateError(f"{name} took longer than {seconds:.0f} s.", "Take a smaller design.")
                time.sleep(wait)
                wait = min(wait * 1.5, LOOK)
        finally:
            _end(process)
    return process.returncode, log.read_text(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program and its children: the shell beside it keeps the group's number ours."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
