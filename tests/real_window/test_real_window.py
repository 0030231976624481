"""The window on a real X server with a window manager: pointer and keys of xdotool, no offscreen platform."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow]

TOOLS = ("Xvfb", "openbox", "xdotool")


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """A display of its own with a window manager."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"no {', '.join(missing)} (Debian: apt-get install xvfb openbox xdotool)")
    read, write = os.pipe()
    command = ("Xvfb", "-displayfd", str(write), "-screen", "0", "1280x800x24", "-nolisten", "tcp")
    server = subprocess.Popen(command, pass_fds=(write,), stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as numbers:
        name = f":{numbers.readline().strip()}"
    manager = subprocess.Popen(("openbox", "--sm-disable"), env=os.environ | {"DISPLAY": name},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    time.sleep(0.5)
    yield name
    for process in (manager, server):
        process.terminate()
        process.wait(20)


def play(part: str, folder: Path, display: str) -> tuple[int, Any]:
    """The exit code of a part and what it says."""
    own = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
    run = subprocess.run(
        [sys.executable, "-m", "tests.real_window.story", part, str(folder)],
        env=os.environ | own | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"},
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    if "could not connect to display" in run.stderr or "no Qt platform plugin could be initialized" in run.stderr:
        pytest.skip("Qt lacks a library for X11 (Debian: libxcb-cursor0, libxcb-icccm4, libxcb-keysyms1)")
    if run.returncode not in (0, -signal.SIGKILL):
        pytest.fail(f"{part}: {run.stdout[-500:]}{run.stderr[-3000:]}")
    lines = run.stdout.strip().splitlines()
    return run.returncode, json.loads(lines[-1]) if lines else None


def test_keys_edit_undo_and_redo(display: str, tmp_path: Path) -> None:
    code, seen = play("edit", tmp_path, display)
    assert code == 0 and seen == {"selected": ["0_act"], "after m": ["edit_graph"], "after redo": ["edit_graph"]}


def test_a_wire_is_drawn_with_the_pointer(display: str, tmp_path: Path) -> None:
    _, seen = play("wire", tmp_path, display)
    assert seen["before"] != seen["after"] == "0_norm" and seen["steps"] == ["edit_graph"]


def test_a_key_compares_with_the_opened_model(display: str, tmp_path: Path) -> None:
    _, seen = play("compare", tmp_path, display)
    assert any("0_act" in nodes for nodes in seen["changed"])


def test_what_a_killed_window_lost_is_recovered_by_a_click(display: str, tmp_path: Path) -> None:
    code, _ = play("kill", tmp_path, display)
    assert code == -signal.SIGKILL
    _, seen = play("recover", tmp_path, display)
    assert seen["steps"] == ["edit_graph"] and "ended without saving" in seen["offer"]


def test_two_models_are_open_in_tabs(display: str, tmp_path: Path) -> None:
    _, seen = play("tabs", tmp_path, display)
    assert [name.rstrip("*") for name in seen["tabs"]] == ["make (net.py)", "Digits (MLP)"] and seen["steps"] == []
    assert seen["tabs"][0].endswith("*") and not seen["tabs"][1].endswith("*")
