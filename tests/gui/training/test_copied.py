"""Which copies and ends of a document let the checkpoints of its finished trainings go, whichever worker trained."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from espalier.app.session.session import Session
from espalier.model.document.project import Saved
from espalier.passes.jobs.kinds import Done, Failed, OpenResult
from espalier.passes.training.checkpoint_folders import home, note_finished
from tests.gui.conftest import FakeRunner, small_project
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints in a folder of the test's own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


def opened(session: Session, runner: list[FakeRunner]) -> Path:
    """The working folder of an open document."""
    session.open("demo:small")
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    return session.open_document.store.folder


def trained(workdir: Path, name: str, ended: float) -> Path:
    """Checkpoints of a training that a worker has finished, which may have ended since."""
    (home() / name).mkdir(parents=True)
    note_finished(workdir, home() / name, ended)
    return home() / name


@pytest.mark.parametrize("copy", [False, True])
def test_only_a_copy_that_was_written_counts(
    copy: bool, session: Session, runner: list[FakeRunner], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    qtbot: PatientBot,
) -> None:  # fmt: skip
    folder, now = opened(session, runner), time.monotonic()
    first, meanwhile = trained(folder, "a", now), trained(folder, "b", now + 11)
    for event in (Failed("Full.", "Make room."), Done(Saved())):
        assert first.exists()
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: now + 10)
            info = session.save_as(tmp_path / "a.espalier", copy=copy)
        runner[0].tell(info, event)
    qtbot.waitUntil(lambda: not first.exists() and len(list(folder.glob("finished-*"))) == 1)
    assert meanwhile.exists(), "what came while it was written is not in it"


def test_those_of_a_closed_document_are_not_wanted(
    session: Session, runner: list[FakeRunner], qtbot: PatientBot
) -> None:
    folder = opened(session, runner)
    checkpoints = trained(folder, "a", time.monotonic())
    session.close()
    qtbot.waitUntil(lambda: not checkpoints.exists() and not folder.exists())


def test_what_was_not_saved_at_the_end_is_not_wanted(session: Session, runner: list[FakeRunner]) -> None:
    """Nor what ends while the window does."""
    folder, late = opened(session, runner), list[Path]()
    early = trained(folder, "a", time.monotonic())
    runner[0].close = lambda: late.append(trained(folder, "b", time.monotonic()))  # type: ignore[method-assign]
    session.shutdown()
    assert late and not late[0].exists() and not early.exists() and not folder.exists()
