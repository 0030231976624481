"""Autosave and recovery: a copy while something is unsaved, an offer after a crash, nothing left otherwise."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from espalier.app.locks import hold, take
from espalier.app.session import edit_journal, recovery
from espalier.app.session.edit_journal import ENDING, read
from espalier.app.session.recovery import Recovery, leftovers, version_of
from espalier.app.session.session import Session
from espalier.app.shell.window import Window
from espalier.model.document.project import Saved, recipe_to_json, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.store.open_files import Version
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.base import NoOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import Done, Failed, JobInfo, OpenJob, OpenResult, ReplayJob, SaveJob, Started, Stopped
from espalier.passes.transform.remove_dropout import remove_dropout
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recovery, "data_folder", lambda name: tmp_path)
    return tmp_path


@pytest.fixture
def kept(session: Session, folder: Path) -> Iterator[Recovery]:
    made = Recovery(session)
    yield made
    made.end()


def open_small(session: Session, runner: FakeRunner) -> None:
    session.open("demo:small")
    runner.finish(OpenResult(small_project(), {}, (), {}))


def edit(session: Session) -> None:
    session.run_pass("remove_dropout", NoOptions())


def test_a_copy_is_written_once_for_each_state(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    open_small(session, runner[0])
    kept.keep()
    assert not runner[0].waiting
    edit(session)
    kept.keep()
    kept.keep()
    job = runner[0].waiting[0].job
    assert len(runner[0].waiting) == 1 and isinstance(job, SaveJob) and job.path == kept.file.resolve()
    held = read(kept.journal.path)
    assert held is not None and held.subject.title == "Small" and held.recipe == session.recipe
    assert session.document and session.document.dirty and session.document.path is None
    session.undo()
    assert not kept.journal.path.exists() and not runner[0].waiting


def test_each_edit_is_in_the_journal_at_once(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery, qtbot: QtBot
) -> None:
    """Also one that waits for the worker, until it fails."""
    open_small(session, runner[0])
    edit(session)
    session.set_recipe(session.recipe.append(Step("prune", PruneOptions(0.5))), "Prune half")
    qtbot.waitUntil(lambda: (held := read(kept.journal.path)) is not None and bool(held.waiting), timeout=1000)
    held = read(kept.journal.path)
    assert held and [s.pass_name for s in held.recipe.steps] == ["remove_dropout", "prune"]
    assert held.waiting == ("Prune half",) and time.time() - held.when < 5
    assert take(kept.journal.path) is None and not leftovers(), "a window that lives is not a dead one"
    job = next(j for j in runner[0].waiting if isinstance(j.job, ReplayJob))
    runner[0].tell(job, Failed("No.", "Do."))
    qtbot.waitUntil(lambda: (held := read(kept.journal.path)) is not None and not held.waiting, timeout=1000)
    held = read(kept.journal.path)
    assert held and [s.pass_name for s in held.recipe.steps] == ["remove_dropout"]


def test_a_copy_is_written_again_after_it_failed(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    open_small(session, runner[0])
    edit(session)
    kept.keep()
    runner[0].tell(runner[0].waiting[0], Failed("Full.", "Free some space."))
    kept.keep()
    assert isinstance(runner[0].waiting[0].job, SaveJob)


def test_a_full_disk_does_not_stop_the_work(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_small(session, runner[0])

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    told: list[EspalierError] = []
    session.problem.connect(told.append)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        edit(session)
        kept._note()
    assert len(told) == 1 and "cannot be kept for recovery (No space" in told[0].message and told[0].hint
    assert "No space" in kept.journal.failed and session.document and session.document.dirty
    kept.keep()
    held = read(kept.journal.path)
    assert held is not None and held.recipe == session.recipe and not kept.journal.failed, "room again, no line"


def test_a_folder_that_takes_no_journal_is_told(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only a line that cannot be added: the file that could not be made, too."""
    told: list[EspalierError] = []
    session.problem.connect(told.append)
    open_small(session, runner[0])

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(edit_journal, "hold", full)
        edit(session)
        kept._note()
    assert len(told) == 1 and "cannot be kept for recovery (No space" in told[0].message
    kept._note()
    held = read(kept.journal.path)
    assert held is not None and held.recipe == session.recipe and not kept.journal.failed, "room again, no journal"


EMPTY = Recipe()
NOTE = {"title": "a.espalier", "path": "", "source": "", "opened": "a.espalier", "version": ""}


def left_behind(folder: Path, number: int = 1, recipe: Recipe = EMPTY, **subject: str) -> Path:
    """A copy and a journal of a window that is gone; returns the copy."""
    file = folder / f"{number}.espalier"
    file.write_bytes(b"")
    begin = {"begin": {**NOTE, "path": str(folder / "a.espalier"), **subject}}
    line = {"edit": "Remove dropout", "when": 1e9 + number, "waiting": [], "recipe": recipe_to_json(recipe)}
    file.with_suffix(ENDING).write_text(f"{json.dumps(begin)}\n{json.dumps(line)}\n")
    return file


def small_left(folder: Path, number: int = 1, source: str | None = None) -> Path:
    """What is left of the small model, which was never saved."""
    spec = small_project().source.spec if source is None else source
    return left_behind(folder, number, title="Small", path="", source=spec)


def test_only_what_dead_windows_left_is_offered(folder: Path) -> None:
    alive = hold(left_behind(folder).with_suffix(ENDING))
    file = left_behind(folder, 2)
    assert alive and [found.file for found in leftovers()] == [file]
    assert leftovers()[0].holds.startswith("1 edit, the last at ") and leftovers()[0].title == "a.espalier"
    recovery.discard(leftovers()[0])
    assert not leftovers() and not file.exists()
    alive.release()
    assert len(leftovers()) == 1


def test_damaged_journals_are_passed_over_and_orphans_deleted(folder: Path) -> None:
    (folder / "x.journal").write_text("{")
    orphan = folder / "2.espalier"
    orphan.write_bytes(b"")
    assert leftovers() == [] and not orphan.exists()
    file = left_behind(folder)
    whole = file.with_suffix(ENDING).read_bytes()
    late = b'{"edit": "x", "when": %s, "waiting": [], "recipe": {"steps": []}}\n'
    for damage, count in ((b"{}\n[1]\n" + b"[" * 100_000 + b"\n\xff\n", 4), (b'{"edit": "x", "when": 2, "waiting"', 1),
                          (late % b"1e300", 1), (late % (b"9" * 400), 1), (late % b"NaN", 1)):  # fmt: skip
        file.with_suffix(ENDING).write_bytes(whole + damage)
        (left,) = leftovers()
        words = f"; {count} line{'s' if count > 1 else ''} of its journal could not be read"
        assert left.edits.label == "Remove dropout" and left.edits.damaged == count and left.holds.endswith(words)
    (folder / "folder.journal").mkdir()
    (folder / "link.journal").symlink_to(file)
    assert len(leftovers()) == 1


def test_what_a_damaged_journal_leaves_is_offered(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    """Of what cannot be read at all, too, it is said that it was there."""
    file = left_behind(folder)
    begin, edits = file.with_suffix(ENDING).read_bytes().splitlines()
    file.with_suffix(ENDING).write_bytes(b"begun\n" + edits + b"\n")
    (left,) = leftovers()
    assert left.edits.count == 1 and left.opens and "name is lost" in left.title
    file.with_suffix(ENDING).write_bytes(begin + b"\nedited\n")
    (left,) = leftovers()
    assert (
        left.opens and left.title == "a.espalier" and left.holds.startswith("a copy of the project without the edits")
    )
    window.pages.refresh()
    page = window.pages.welcome
    assert "a copy of the project without" in "".join(label.text() for label in page.findChildren(QLabel))
    assert window.recovery.recover(left)
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    assert window.session.document and window.session.document.recipe == small_project().recipe
    assert window.session.document.dirty and window.session.document.path == folder / "a.espalier"
    window.session.close()
    lost = left_behind(folder, 2).with_suffix(ENDING)
    lost.write_bytes(b"begun\nedited\n")
    lost.with_suffix(".espalier").unlink()
    (left,) = leftovers()
    assert not left.opens and left.holds == "nothing, as 2.journal is damaged"
    window.pages.refresh()
    links = [b.text() for b in page.findChildren(QPushButton) if not b.isHidden()]
    assert "Discard" in links and recovery.discard(left) and not lost.exists()


def test_what_another_window_goes_on_with_is_not_discarded(
    window: Window, runner: list[FakeRunner], folder: Path
) -> None:
    """It was offered here too, before the other window recovered it."""
    file = left_behind(folder)
    (left,) = leftovers()
    window.pages.refresh()
    other = hold(left.journal)
    window.pages.welcome.discard_wanted.emit(left)
    assert other and file.exists() and left.journal.exists() and not recovery.discard(left)
    other.release()
    assert recovery.discard(left) and not file.exists()


def test_what_could_not_be_opened_is_recovered_later(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """Here or in another window: a drive that was away may be back."""
    for end in (Failed("There is no file.", "Put it back."), Stopped()):
        left_behind(folder)
        (left,) = leftovers()
        assert kept.recover(left) and not leftovers(), "it is not this window's"
        runner[0].tell(runner[0].waiting[-1], end)
        assert leftovers() == [left]
    session.open("demo:other")
    assert kept.recover(left)
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    assert session.named == "demo:other" and not kept.recovered and not leftovers()
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    assert kept.recovered and session.document and session.document.path == folder / "a.espalier"


def test_recovered_work_is_unsaved_work_on_the_original(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    project, recipe = small_project(), Recipe((Step("remove_dropout", NoOptions()),))
    file = left_behind(folder, recipe=recipe)
    assert kept.recover(leftovers()[0])
    graph, _ = remove_dropout(project.graph, NoOptions(), None)  # type: ignore[arg-type]
    runner[0].finish(OpenResult(replace(project, recipe=recipe, graph=graph), {}, (), {}))
    assert session.document and session.document.dirty
    assert session.document.path == folder / "a.espalier"
    assert file.exists() and not leftovers()  # mapped from, but no longer offered
    session.close()
    assert not file.exists()


def test_recovered_studies_are_unsaved_though_no_step_is(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    file = left_behind(folder)
    assert kept.recover(leftovers()[0])
    runner[0].finish(OpenResult(replace(small_project(), extras={"studies/a.journal": b"trials"}), {}, (), {}))
    assert session.document and session.document.dirty
    kept.look()
    assert file.with_suffix(ENDING).exists(), "what was recovered is not offered again"


def test_what_is_recovered_is_gone_on_with_in_its_own_journal(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """So that another death leaves one journal, never none or two; a newer copy takes the place of the older."""
    file = left_behind(folder)
    journal = file.with_suffix(ENDING)
    journal.write_bytes(journal.read_bytes() + b'{"edit": "cut o')
    assert kept.recover(leftovers()[0])
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    edit(session)
    kept.keep()
    held, job = read(journal), runner[0].waiting[-1].job
    assert held and held.recipe == session.recipe and held.count == 2
    assert list(folder.glob(f"*{ENDING}")) == [journal] and isinstance(job, SaveJob) and job.path == file.resolve()
    kept.end()
    assert not list(folder.iterdir())


def test_what_waits_while_a_save_ends_goes_on_from_what_was_saved(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """Else the window that recovers it would say that another program had changed the file."""
    open_small(session, runner[0])
    edit(session)
    kept.keep()
    runner[0].tell(runner[0].waiting[0], Stopped())
    session.set_recipe(session.recipe.append(Step("prune", PruneOptions(0.5))), "Prune half")
    save = session.save_as(folder / "a.espalier")
    (folder / "a.espalier").write_bytes(b"")
    version = Version.of(folder / "a.espalier")
    runner[0].tell(save, Done(Saved(version)))
    held = read(kept.journal.path)
    assert version and held and held.recipe == session.recipe and held.waiting == ("Prune half",) and held.count == 1
    assert version_of(held) == version and held.subject.path == str(folder / "a.espalier")


def test_a_save_that_its_window_did_not_live_to_hear_of_is_its_own(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """Killed after the new file had its name: that is no change by another program."""
    path = folder / "a.espalier"

    def save(**more: Any) -> tuple[JobInfo, Saved]:
        info = session.save_as(path, **more)
        job = info.job
        assert isinstance(job, SaveJob)
        return info, save_project(job.project, job.store, job.path, over=job.over, placing=job.placing)

    open_small(session, runner[0])
    info, first = save()
    runner[0].tell(info, Done(first))
    edit(session)
    save(over=first.version)  # and no Done: the window is dead
    held = read(kept.journal.path)
    assert held and held.recipe == session.recipe and first.version != Version.of(path) == version_of(held)
    path.write_bytes(path.read_bytes())
    assert version_of(held) == first.version, "what another program wrote is told"
    kept.keep()
    copy = next(j.job for j in runner[0].waiting if isinstance(j.job, SaveJob) and j.job.copy)
    assert copy.placing is None, "a copy for recovery is not the document's file"


def test_a_journal_whose_window_died_before_its_first_edit_is_deleted(folder: Path) -> None:
    for text in ("", f"{json.dumps({'begin': NOTE})}\n"):
        (folder / "1.journal").write_text(text)
        assert not leftovers() and not list(folder.iterdir())


def test_edits_after_the_last_copy_are_done_again(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """Also where there is no copy yet: what was opened is opened again."""
    recipe = Recipe((Step("remove_dropout", NoOptions()),))
    for copied in (True, False):
        file = left_behind(folder, recipe=recipe)
        if not copied:
            file.unlink()
        assert kept.recover(leftovers()[0])
        job = runner[0].waiting[-1].job
        assert isinstance(job, OpenJob) and (Path(job.spec).samefile(file) if copied else job.spec == "a.espalier")
        runner[0].finish(OpenResult(small_project(), {}, (), {}))
        assert session.document and session.document.recipe == recipe and session.document.dirty
        kept.end()
        assert not leftovers()


def test_a_model_that_is_opened_again_offers_what_a_dead_window_held_of_it(
    window: Window, runner: list[FakeRunner], folder: Path
) -> None:
    """Also where it is named on the command line, and no welcome page is seen; of other models nothing is said."""
    file = left_behind(folder)
    open_small(window.session, runner[-1])
    assert not window.banner.text
    for source, offered in (("/elsewhere/small.py:Small", False), (small_project().source.spec, True)):
        small_left(folder, source=source)
        open_small(window.session, runner[-1])
        assert ("A window with Small ended before it was saved" in window.banner.text) == offered
    buttons = {b.text(): b for b in window.banner.findChildren(QPushButton)}
    buttons["Recover"].click()
    job = runner[-1].waiting[-1].job
    assert isinstance(job, OpenJob) and Path(job.spec).samefile(file)
    small_left(folder, 0)
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    assert not window.banner.text  # of one that was recovered no older copy is offered


def test_a_copy_that_is_offered_can_be_discarded(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = small_left(folder)
    open_small(window.session, runner[-1])
    next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Discard it").click()
    assert not window.banner.text and not file.exists() and not leftovers()


def test_a_copy_that_another_window_took_is_left_alone(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    for button, told in (("Recover", "The unsaved work on Small is gone."), ("Discard it", "")):
        file = small_left(folder)
        open_small(window.session, runner[-1])
        other = hold(file.with_suffix(ENDING))
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == button).click()
        assert other and file.exists() and not runner[-1].waiting and told in window.banner.text
        other.release()


def test_an_offer_comes_back_after_another_message(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = small_left(folder)
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
    file = small_left(folder)
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
    own = window.session.submit("Exclusive", OpenJob("x", folder), lambda _: None)
    runner[-1].tell(own, GONE)
    assert GONE.message in window.banner.text
    runner[-1].tell(silent_job(window, runner), GONE)  # in the same words
    runner[-1].tell(silent_job(window, runner), Started())
    assert GONE.message in window.banner.text
    again = window.session.submit("Exclusive", OpenJob("x", folder), lambda _: None)
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
    assert isinstance(job, OpenJob) and Path(job.spec).samefile(file) and not window.banner.text
