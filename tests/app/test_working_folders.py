"""What a document leaves when it is closed: no working folder, no open file, nothing in the worker."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path

import psutil
import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.state import files
from espalier.app.session.session import Session
from espalier.model.document.document import Document
from espalier.model.errors import EspalierError
from espalier.model.leftovers import WINDOW, Scratch, clear_scratch
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis import divergence
from espalier.passes.jobs import worker
from espalier.passes.jobs.kinds import OpenJob, OpenResult
from espalier.passes.jobs.serving import Channel
from tests.gui.conftest import small_project
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


@pytest.mark.slow
def test_documents_that_are_closed_leave_nothing(
    qtbot: PatientBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session, told = Session(), list[EspalierError]()
    session.problem.connect(told.append)

    def folders() -> int:
        return sum(1 for _ in tmp_path.glob(f"{WINDOW}*"))

    def opened(spec: str) -> None:
        with qtbot.waitSignal(session.opened):
            session.open(spec)
        qtbot.waitUntil(lambda: folders() == 1 and not session.jobs)

    try:
        opened("demo:digits-mlp")
        first = psutil.Process().num_fds()
        for _ in range(3):
            opened("demo:digits-mlp")
        qtbot.waitUntil(lambda: psutil.Process().num_fds() <= first)
        session.open("demo:none")
        qtbot.waitUntil(lambda: bool(told) and folders() == 1)
        session.close()
        qtbot.waitUntil(lambda: folders() == 0)
    finally:
        session.shutdown()


def test_the_worker_lets_go_of_closed_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_STATE", worker._State())

    ours, theirs = multiprocessing.Pipe()

    def run(name: str) -> OpenResult:
        (tmp_path / name).mkdir()
        return worker._handle_and_clean(OpenJob("demo:digits-mlp", tmp_path / name), Channel(ours))

    run("a")
    run("b")
    assert set(worker._STATE.stores) == {tmp_path / "a", tmp_path / "b"}
    divergence._CACHE["of a closed document"] = None  # type: ignore[assignment]
    for path in (tmp_path / "a").iterdir():
        path.unlink()
    (tmp_path / "a").rmdir()
    run("c")
    assert set(worker._STATE.stores) == {tmp_path / "b", tmp_path / "c"}
    assert not divergence._CACHE, "baselines of closed documents hold their files"
    theirs.close()


def test_one_note_tells_of_a_study_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(files, "_NOTES", {})
    first, second = tmp_path / "a" / "r.json", tmp_path / "b" / "r.json"
    for path in (first, second):
        path.parent.mkdir()
    notes, document = tmp_path / "state" / "studies", Document(small_project(), WeightStore(tmp_path))
    for _ in range(3):
        files.begin_record(first, b"{}", "key", document)
    assert len(list(notes.iterdir())) == len(files._NOTES) == 1
    first.unlink()
    files.begin_record(second, b"{}", "key", document)
    assert len(list(notes.iterdir())) == 1 and list(files._NOTES) == [(second, "key")]


def test_a_folder_that_another_program_clears_before_it_is_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It clears at any moment: also between the making of the folder and its opening."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made, make = list[str](), tempfile.mkdtemp

    def cleared_at_once(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) < 3:
            clear_scratch()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", cleared_at_once)
    held = Scratch()
    assert len(made) == 3 and [f.name for f in tmp_path.iterdir()] == [held.folder.name]
    assert clear_scratch() == 0, "it is held"
    held.close()
    assert not list(tmp_path.iterdir())
