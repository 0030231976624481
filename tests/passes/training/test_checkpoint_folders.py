"""Checkpoints of a training that has ended, until the window has its result in a copy."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from espalier.passes.jobs import worker
from espalier.passes.training.checkpoint_folders import ARRIVING, COPIED, is_copied, note_copied


def test_checkpoints_stay_until_a_copy_that_was_begun_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: the copy may fail, on a full disk."""
    open_, closed = tmp_path / "open", tmp_path / "closed"
    kept, others = tmp_path / "a", tmp_path / "b"
    for folder in (open_, closed, kept, others):
        folder.mkdir()
    monkeypatch.setattr(worker._STATE, "trained", [(kept, open_, 100.0), (others, closed, 100.0)])
    worker._clear_trained()
    note_copied(open_, 99.0)
    worker._clear_trained()
    note_copied(open_, 100.0 + ARRIVING / 2)  # begun before the window had the result
    worker._clear_trained()
    assert kept.exists() and others.exists() and len(worker._STATE.trained) == 2
    shutil.rmtree(closed)  # with its document
    worker._clear_trained()
    assert kept.exists() and not others.exists()
    note_copied(open_, 101.0)
    worker._clear_trained()
    assert not kept.exists() and not worker._STATE.trained


def test_a_note_that_is_damaged_is_none(tmp_path: Path) -> None:
    (tmp_path / COPIED).write_text("x")
    assert not is_copied(tmp_path, 1.0)
    note_copied(tmp_path, math.inf)
    assert is_copied(tmp_path, 1.0)
    note_copied(tmp_path / "gone", 1.0)
    assert is_copied(tmp_path / "gone", 1.0), "nobody wants it any more"
