"""A slice of the kills that `python -m tests.attack.window_kills` has many of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.gui, pytest.mark.slow]


def test_slice() -> None:
    """A window that is killed, and the one that recovers what it left; how fast is not judged here."""
    words = [sys.executable, "-m", "tests.attack.window_kills", "--kills", "2", "--seed", "3", "--lag", "20"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.startswith("window: 2 kills, ")
