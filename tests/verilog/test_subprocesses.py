"""Subprocesses are killed with their children on errors, timeouts and the end of this process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espalier.model.errors import SimulateError
from espalier.verilog.proof.subprocesses import run_polled
from tests.patience import until, wall

ROOT = Path(__file__).resolve().parents[2]


def test_tells_the_exit_code_and_the_output(tmp_path: Path) -> None:
    assert run_polled(["sh", "-c", "echo $WORD; exit 3"], tmp_path, {"WORD": "heard"}, 300) == (3, "heard\n")


def test_what_the_tick_raises_ends_it_and_its_children(tmp_path: Path) -> None:
    """The shell writes the number of the sleep that it starts."""

    def tick(log: Path) -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip():
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_polled(["sh", "-c", "sleep 600 & echo $! > pid; wait"], tmp_path, {}, 600, tick)
    child = int((tmp_path / "pid").read_text())
    until(lambda: not _runs(child))


HOLD = """
import sys
from pathlib import Path
from espalier.verilog.proof.subprocesses import run_polled
run_polled(["sh", "-c", "trap '' TERM HUP INT; sleep 600 & echo $$ $! > pids; wait"], Path(sys.argv[1]), {}, 600)
"""


def test_ends_with_who_started_it(tmp_path: Path) -> None:
    """Killed, it cannot end what it started: that ends by itself."""
    pids = tmp_path / "pids"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT) as parent:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        parent.kill()
    began = time.monotonic()
    until(lambda: not any(_runs(int(p)) for p in pids.read_text().split()))
    assert time.monotonic() - began < wall(5)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_takes_no_longer_than_told(tmp_path: Path) -> None:
    with pytest.raises(SimulateError, match="took longer"):
        run_polled(["sleep", "600"], tmp_path, {}, 0.3)
