"""Commands in forks of one process that has imported all that they need: begun in a tenth of the time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.patience import PATIENCE, until

ROOT = Path(__file__).resolve().parents[3]


class Command:
    """A command in a fork, as `subprocess.Popen` has it."""

    def __init__(self, pid: int, place: Path) -> None:
        self.pid, self._place = pid, place
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        if self.returncode is None and (code := self._place.with_suffix(".code")).exists():
            self.returncode = int(code.read_text())
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; what it said on both streams."""
        until(lambda: self.poll() is not None)
        out, err = (self._place.with_suffix(ending).read_text(errors="replace") for ending in (".out", ".err"))
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Warm:
    """The process that forks."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "roots"), str(ROOT)])}
        environment |= {f"{n}_NUM_THREADS": "1" for n in ("OMP", "NUMBA")}
        words = [sys.executable, "-m", "tests.passes.fleet.warm_parent", str(folder)]
        self._process = subprocess.Popen(words, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, start_new_session=True)  # fmt: skip

    def begin(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> Command:
        """Start a command in a folder, in a group of its own."""
        self._count += 1
        place = self._folder / f"{self._count}"
        wish = {"words": words, "cwd": str(folder), "env": dict(environment), "place": str(place)}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(wish)}\n")
        self._process.stdin.flush()
        return Command(int(self._process.stdout.readline()), place)

    def close(self) -> None:
        """End the process; its commands have ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE)
        self._process.stdout and self._process.stdout.close()
