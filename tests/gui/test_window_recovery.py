"""Autosave and recovery: a copy while something is unsaved, an offer after a crash, nothing left otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox, QPushButton

from app import recovery
from app.recovery import Recovery, leftovers
from app.session import Session
from app.window import Window
from model.errors import EspalierError
from model.recipe import Recipe, Step
from passes.analysis.divergence import DivergenceOptions
from passes.base import NoOptions
from passes.jobs import Failed, JobInfo, OpenJob, OpenResult, SaveJob, Started, Stopped
from passes.transform.remove_dropout import remove_dropout
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui
DEAD = 2**22 + 1  # above the largest process id of Linux


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recovery, "data_folder", lambda name: tmp_path)
    return tmp_path


def open_small(session: Session, runner: FakeRunner) -> None:
    session.open("demo:small")
    runner.finish(OpenResult(small_project(), {}, (), {}))


def edit(session: Session) -> None:
    session.run_pass("remove_dropout", NoOptions())


def test_a_copy_is_written_once_for_each_state(session: Session, runner: list[FakeRunner], folder: Path) -> None:
    kept = Recovery(session)
    open_small(session, runner[0])
    kept.keep()
    assert not runner[0].waiting
    edit(session)
    kept.keep()
    kept.keep()
    job = runner[0].waiting[0].job
    assert len(runner[0].waiting) == 1 and isinstance(job, SaveJob) and job.path == kept.file.resolve()
    assert json.loads(kept.note.read_text())["title"] == "Small"
    assert session.document and session.document.dirty and session.document.path is None
    session.undo()
    assert not kept.note.exists()


def left_behind(folder: Path, pid: int) -> Path:
    file = folder / f"{pid}-1.espalier"
    file.write_bytes(b"")
    note = {"pid": pid, "title": "a.espalier", "path": str(folder / "a.espalier"), "when": "today"}
    file.with_suffix(".json").write_text(json.dumps(note))
    return file


def test_only_copies_of_dead_runs_are_offered(folder: Path) -> None:
    import os

    left_behind(folder, os.getpid())
    file = left_behind(folder, DEAD)
    assert [found.file for found in leftovers()] == [file]
    recovery.discard(leftovers()[0])
    assert not leftovers() and not file.exists()


def test_damaged_notes_are_passed_over_and_orphans_deleted(folder: Path) -> None:
    (folder / "x.json").write_text("{")
    orphan = folder / f"{DEAD}-2.espalier"
    orphan.write_bytes(b"")
    assert leftovers() == [] and not orphan.exists()


def test_recovered_work_is_unsaved_work_on_the_original(
    session: Session, runner: list[FakeRunner], folder: Path
) -> None:
    kept, file = Recovery(session), left_behind(folder, DEAD)
    kept.recover(leftovers()[0])
    project = small_project()
    graph, _ = remove_dropout(project.graph, NoOptions(), None)  # type: ignore[arg-type]
    recipe = Recipe((Step("remove_dropout", NoOptions()),))
    runner[0].finish(OpenResult(replace(project, recipe=recipe, graph=graph), {}, (), {}))
    assert session.document and session.document.dirty
    assert session.document.path == folder / "a.espalier"
    assert file.exists() and not leftovers()  # mapped from, but no longer offered
    session.close()
    assert not file.exists()


def test_recovered_studies_are_unsaved_though_no_step_is(
    session: Session, runner: list[FakeRunner], folder: Path
) -> None:
    kept, file = Recovery(session), left_behind(folder, DEAD)
    kept.recover(leftovers()[0])
    runner[0].finish(OpenResult(replace(small_project(), extras={"studies/a.journal": b"trials"}), {}, (), {}))
    assert session.document and session.document.dirty
    kept.look()
    assert file.with_suffix(".json").exists(), "what was recovered is not offered again"


def test_a_model_that_is_opened_again_offers_what_a_dead_window_held_of_it(
    window: Window, runner: list[FakeRunner], folder: Path
) -> None:
    """Also where it is named on the command line, and no welcome page is seen; of other models nothing is said."""
    file = left_behind(folder, DEAD)
    open_small(window.session, runner[-1])
    assert not window.banner.text
    note = {"pid": DEAD, "title": "Small", "path": "", "when": "today"}
    file.with_suffix(".json").write_text(json.dumps(note))
    for source, offered in (("/elsewhere/small.py:Small", False), (small_project().source.spec, True), ("", True)):
        file.with_suffix(".json").write_text(json.dumps({**note, "source": source}))
        open_small(window.session, runner[-1])
        assert ("A window with Small ended before it was saved" in window.banner.text) == offered
    buttons = {b.text(): b for b in window.banner.findChildren(QPushButton)}
    buttons["Recover"].click()
    job = runner[-1].waiting[-1].job
    assert isinstance(job, OpenJob) and job.spec == str(file)
    older = left_behind(folder, DEAD + 1)
    older.with_suffix(".json").write_text(json.dumps({**note, "pid": DEAD + 1}))
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    assert not window.banner.text  # of one that was recovered no older copy is offered


def test_a_copy_that_is_offered_can_be_discarded(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = left_behind(folder, DEAD)
    file.with_suffix(".json").write_text(json.dumps({"pid": DEAD, "title": "Small", "path": "", "when": "today"}))
    open_small(window.session, runner[-1])
    next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Discard it").click()
    assert not window.banner.text and not file.exists() and not leftovers()


def test_a_copy_that_another_window_took_is_left_alone(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    import os

    for button, told in (("Recover", "The copy of Small is gone."), ("Discard it", "")):
        file = left_behind(folder, DEAD)
        note = {"pid": DEAD, "title": "Small", "path": "", "when": "today"}
        file.with_suffix(".json").write_text(json.dumps(note))
        open_small(window.session, runner[-1])
        file.with_suffix(".json").write_text(json.dumps({**note, "pid": os.getppid()}))
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == button).click()
        assert file.exists() and not runner[-1].waiting and told in window.banner.text


def test_an_offer_comes_back_after_another_message(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = left_behind(folder, DEAD)
    file.with_suffix(".json").write_text(json.dumps({"pid": DEAD, "title": "Small", "path": "", "when": "today"}))
    open_small(window.session, runner[-1])
    banner = window.banner

    def press(title: str) -> None:
        [b for b in banner.findChildren(QPushButton) if b.text() == title][-1].click()

    banner.tell("m.onnx is written.")
    assert banner.text == "m.onnx is written."
    press("Dismiss")
    assert "A window with Small ended" in banner.text
    banner.error(EspalierError("The width is 99.", "Choose 2 to 16."))
    window.session.run_pass("remove_dropout", NoOptions())  # the next edit solves it
    assert "A window with Small ended" in banner.text
    press("Dismiss")
    assert not banner.text and file.exists()
    banner.tell("m.onnx is written.")
    press("Dismiss")
    assert not banner.text, "what was dismissed itself stays away"
    open_small(window.session, runner[-1])
    banner.tell("m.onnx is written.")
    open_small(window.session, runner[-1])
    press("Discard it")
    assert not banner.text and not file.exists()


OFFERED = "A window with Small ended"
GONE = Failed("The worker process ended unexpectedly.", "Run the job again.")


def offered(window: Window, runner: list[FakeRunner], folder: Path) -> Path:
    """A model whose dead window's copy is offered."""
    window.live.enabled = False
    file = left_behind(folder, DEAD)
    file.with_suffix(".json").write_text(json.dumps({"pid": DEAD, "title": "Small", "path": "", "when": "today"}))
    open_small(window.session, runner[-1])
    for info in list(runner[-1].waiting):
        runner[-1].tell(info, Stopped())
    assert OFFERED in window.banner.text
    return file


def silent_job(window: Window, runner: list[FakeRunner]) -> JobInfo:
    """One whose asker tells of its error itself, as "Look at the data" does."""
    wish = DivergenceOptions()
    return window.session.analyse("Look at the data", Step("divergence", wish), lambda _: None, failed=lambda _: None)


@pytest.mark.parametrize("told", ["", "m.onnx is written."])
def test_a_job_that_fails_silently_takes_no_message_away(
    window: Window, runner: list[FakeRunner], folder: Path, told: str
) -> None:
    offered(window, runner, folder)
    if told:
        window.banner.tell(told)
    text = window.banner.text
    for end in (GONE, Stopped()):
        info = silent_job(window, runner)
        runner[-1].tell(info, Started())
        assert window.banner.text == text
        runner[-1].tell(info, end)


def test_an_error_that_is_shown_is_only_of_its_own_job(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    offered(window, runner, folder)
    window.session.run_pass("remove_dropout", NoOptions())  # instant, so of no job
    own = window.session.submit("Own", OpenJob("x", folder), lambda _: None)
    runner[-1].tell(own, GONE)
    assert GONE.message in window.banner.text
    runner[-1].tell(silent_job(window, runner), GONE)  # in the same words
    runner[-1].tell(silent_job(window, runner), Started())
    assert GONE.message in window.banner.text
    again = window.session.submit("Own", OpenJob("x", folder), lambda _: None)
    runner[-1].tell(again, Started())
    assert OFFERED in window.banner.text


@pytest.mark.parametrize("end", [GONE, Stopped()])
def test_an_offer_stays_where_another_model_does_not_come(
    window: Window, runner: list[FakeRunner], folder: Path, end: Failed | Stopped
) -> None:
    offered(window, runner, folder)
    window.begin_opening("demo:other")
    info = runner[-1].waiting[-1]
    runner[-1].tell(info, Started())
    runner[-1].tell(info, end)
    if end is GONE:
        assert GONE.message in window.banner.text
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Dismiss" and b.isEnabled()).click()
    assert OFFERED in window.banner.text


def test_an_offer_stays_where_changes_are_not_given_up(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = offered(window, runner, folder)
    edit(window.session)
    assert window.session.document and window.session.document.dirty

    def recover(answer: QMessageBox.StandardButton) -> None:
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Recover").click()
        box = window.findChildren(QMessageBox)[-1]
        box.button(answer).click()

    recover(QMessageBox.StandardButton.Cancel)
    assert OFFERED in window.banner.text and not runner[-1].waiting
    recover(QMessageBox.StandardButton.Discard)
    job = runner[-1].waiting[-1].job
    assert isinstance(job, OpenJob) and job.spec == str(file) and not window.banner.text
