"""Pipes and devices in the place of files: no command waits for one, or reads it without end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

import pytest

from espalier.app.cli import main

SECONDS = 60
COMMANDS = (
    "report F.espalier", "run demo:digits-mlp F.toml", "run demo:digits-mlp F.json", "search demo:digits-mlp F.toml",
    "sweep demo:digits-mlp F.toml", "evaluate demo:digits-mlp --data F.csv", "trace F.pt2", "trace F.py",
    "trace F.py:make", "trace F.safetensors", "kernels --compare F.json", "worker --storage journal:F --study a",
    "worker --storage sqlite:///F --study a", "report demo:digits-mlp --plugin F.py",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_waits_for_a_pipe(
    command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = [word.replace("F", str(tmp_path / "f")) for word in command.split()]
    path = Path(next(w for w in words if str(tmp_path) in w).rpartition("journal:")[2].removeprefix("sqlite:///"))
    path = path.with_name(path.name.partition(":")[0])
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")

    def over(_: int, __: FrameType | None) -> None:
        raise TimeoutError(command)

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(SECONDS)
    try:
        assert main(words) == 2
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    told = capsys.readouterr().err
    assert "Traceback" not in told and len(told.splitlines()) <= 4
