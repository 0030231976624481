"""Checkpoints of a training that has ended, until the window has its result in a copy."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from espalier.passes.training.checkpoint_folders import (
    ARRIVING,
    FINISHED,
    STATE,
    clear_finished,
    home,
    note_finished,
)


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints in a folder of the test's own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


def trained(name: str) -> Path:
    """The folder of a training with a checkpoint."""
    folder = home() / name
    step = folder / "step-00000010"
    step.mkdir(parents=True)
    (step / STATE).write_text(json.dumps({"step": 10, "steps": 10}))
    return folder


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """The working folder of an open document."""
    (tmp_path / "open").mkdir()
    return tmp_path / "open"


def test_checkpoints_stay_until_a_copy_that_was_begun_after_the_end(workdir: Path) -> None:
    """However long that takes: the copy may fail, on a full disk."""
    kept, other = trained("a"), trained("b")
    note_finished(workdir, kept, 100.0)
    note_finished(workdir, other, 50.0)
    clear_finished(workdir, 49.0)
    assert kept.exists() and other.exists()
    clear_finished(workdir, 100.0 + ARRIVING / 2)  # begun before the window had the result
    assert kept.exists() and not other.exists()
    clear_finished(workdir, 101.0)
    assert not kept.exists() and not list(workdir.iterdir())


def test_with_its_document_closed_nobody_wants_them(workdir: Path) -> None:
    kept, late = trained("a"), trained("b")
    note_finished(workdir, kept, 100.0)
    clear_finished(workdir, math.inf)
    assert not kept.exists()
    shutil.rmtree(workdir)
    note_finished(workdir, late, 101.0)
    assert not late.exists()
    clear_finished(workdir, math.inf)


def test_a_note_that_is_damaged_clears_nothing(workdir: Path) -> None:
    kept = trained("a")
    (workdir / f"{FINISHED}a").write_text("x")
    clear_finished(workdir, 1e9)
    assert kept.exists()


def test_the_same_training_that_runs_again_keeps_its_checkpoints(workdir: Path) -> None:
    kept = trained("a")
    note_finished(workdir, kept, 100.0)
    later = (workdir / f"{FINISHED}a").stat().st_mtime + 10
    os.utime(kept / "step-00000010" / STATE, (later, later))
    clear_finished(workdir, 200.0)
    assert kept.exists()
    note_finished(workdir, kept, 300.0)
    os.utime(workdir / f"{FINISHED}a", (later + 10, later + 10))
    clear_finished(workdir, 400.0)
    assert not kept.exists()
