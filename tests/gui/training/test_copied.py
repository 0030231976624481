"""What the window tells of its copies, so that checkpoints stay until the result of a training is in one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from espalier.app.session.session import Session
from espalier.model.document.project import Saved
from espalier.passes.jobs.kinds import Done, Failed, OpenResult
from espalier.passes.training.checkpoint_folders import is_copied
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("copy", [False, True])
def test_only_a_copy_that_was_written_counts(
    copy: bool, session: Session, runner: list[FakeRunner], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.open("demo:small")
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    folder, now = session.open_document.store.folder, time.monotonic()
    for event, whole in ((Failed("Full.", "Make room."), False), (Done(Saved()), True)):
        monkeypatch.setattr(time, "monotonic", lambda: now + 10)
        info = session.save_as(tmp_path / "a.espalier", copy=copy)
        monkeypatch.setattr(time, "monotonic", lambda: now + 20)
        runner[0].tell(info, event)
        assert is_copied(folder, now) is whole
    assert not is_copied(folder, now + 11), "what came while it was written is not in it"


def test_what_was_not_saved_at_the_end_is_not_wanted(session: Session, runner: list[FakeRunner]) -> None:
    session.open("demo:small")
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    folder, seen = session.open_document.store.folder, list[bool]()
    runner[0].close = lambda: seen.append(folder.exists() and is_copied(folder, time.monotonic()))  # type: ignore[method-assign]
    session.shutdown()
    assert seen == [True], "its worker ends after that"
