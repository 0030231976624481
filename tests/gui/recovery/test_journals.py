"""Autosave and recovery: journals and copies, of this window and of dead ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from espalier.app.locks import hold, take
from espalier.app.session import edit_journal, recovery
from espalier.app.session.edit_journal import ENDING, EditJournal, Subject, read
from espalier.app.session.recovery import Recovery, unsaved_projects, version_of
from espalier.app.session.session import Session
from espalier.app.shell.window import Window
from espalier.model.document.arrangement import Pin
from espalier.model.document.project import Saved, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.store.open_files import Version
from espalier.passes.base import NoOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import Done, Failed, JobInfo, OpenJob, OpenResult, ReplayJob, SaveJob, Stopped
from espalier.passes.transform.remove_dropout import remove_dropout
from tests.gui.conftest import FakeRunner, small_project
from tests.gui.recovery.dead_windows import NOTE, edit, left_behind, open_small

pytestmark = pytest.mark.gui


@pytest.fixture
def kept(session: Session, folder: Path) -> Iterator[Recovery]:
    made = Recovery(session)
    yield made
    made.end()


def test_a_copy_is_written_once_for_each_state(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    open_small(session, runner[0])
    kept.write_copy()
    assert not runner[0].waiting
    edit(session)
    kept.write_copy()
    kept.write_copy()
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
    begun = time.time()
    edit(session)
    session.set_recipe(session.recipe.append(Step("prune", PruneOptions(0.5))), "Prune half")
    qtbot.waitUntil(lambda: (held := read(kept.journal.path)) is not None and bool(held.waiting), timeout=1000)
    held = read(kept.journal.path)
    assert held and [s.pass_name for s in held.recipe.steps] == ["remove_dropout", "prune"]
    assert held.waiting == ("Prune half",) and begun - 1 <= held.when <= time.time()
    assert take(kept.journal.path) is None and not unsaved_projects(), "a window that lives is not a dead one"
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
    kept.write_copy()
    runner[0].tell(runner[0].waiting[0], Failed("Full.", "Free some space."))
    kept.write_copy()
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
        kept._write_edit()
    assert len(told) == 1 and "cannot be stored for recovery (No space" in told[0].message and told[0].hint
    assert "No space" in kept.journal.failed and session.document and session.document.dirty
    kept.write_copy()
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
        kept._write_edit()
    assert len(told) == 1 and "cannot be stored for recovery (No space" in told[0].message
    kept._write_edit()
    held = read(kept.journal.path)
    assert held is not None and held.recipe == session.recipe and not kept.journal.failed, "room again, no journal"


def test_only_what_dead_windows_left_is_offered(folder: Path) -> None:
    alive = hold(left_behind(folder).with_suffix(ENDING))
    file = left_behind(folder, 2)
    assert alive and [found.file for found in unsaved_projects()] == [file]
    assert (
        unsaved_projects()[0].summary.startswith("1 edit, the last at ") and unsaved_projects()[0].title == "a.espalier"
    )
    recovery.discard(unsaved_projects()[0])
    assert not unsaved_projects() and not file.exists()
    alive.release()
    assert len(unsaved_projects()) == 1


def test_damaged_journals_are_passed_over_and_orphans_deleted(folder: Path) -> None:
    (folder / "x.journal").write_text("{")
    orphan = folder / "2.espalier"
    orphan.write_bytes(b"")
    assert unsaved_projects() == [] and not orphan.exists()
    file = left_behind(folder)
    whole = file.with_suffix(ENDING).read_bytes()
    late = b'{"edit": "x", "when": %s, "waiting": [], "recipe": {"steps": []}}\n'
    for damage, count in ((b"{}\n[1]\n" + b"[" * 100_000 + b"\n\xff\n", 4), (b'{"edit": "x", "when": 2, "waiting"', 1),
                          (late % b"1e300", 1), (late % (b"9" * 400), 1), (late % b"NaN", 1)):  # fmt: skip
        file.with_suffix(ENDING).write_bytes(whole + damage)
        (left,) = unsaved_projects()
        words = f"; {count} line{'s' if count > 1 else ''} of its journal could not be read"
        assert left.edits.label == "Remove dropout" and left.edits.damaged == count and left.summary.endswith(words)
    (folder / "folder.journal").mkdir()
    (folder / "link.journal").symlink_to(file)
    assert len(unsaved_projects()) == 1


def test_what_a_damaged_journal_leaves_is_offered(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    """Of what cannot be read at all, too, it is said that it was there."""
    file = left_behind(folder)
    begin, edits = file.with_suffix(ENDING).read_bytes().splitlines()
    file.with_suffix(ENDING).write_bytes(b"begun\n" + edits + b"\n")
    (left,) = unsaved_projects()
    assert left.edits.count == 1 and left.opens and "unknown name" in left.title
    file.with_suffix(ENDING).write_bytes(begin + b"\nedited\n")
    (left,) = unsaved_projects()
    assert (
        left.opens and left.title == "a.espalier" and left.summary.startswith("a copy of the project without the edits")
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
    (left,) = unsaved_projects()
    assert not left.opens and left.summary == "nothing, because 2.journal is damaged"
    window.pages.refresh()
    links = [b.text() for b in page.findChildren(QPushButton) if not b.isHidden()]
    assert "Discard" in links and recovery.discard(left) and not lost.exists()


def test_what_another_window_goes_on_with_is_not_discarded(
    window: Window, runner: list[FakeRunner], folder: Path
) -> None:
    """It was offered here too, before the other window recovered it."""
    file = left_behind(folder)
    (left,) = unsaved_projects()
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
        (left,) = unsaved_projects()
        assert kept.recover(left) and not unsaved_projects(), "it is not this window's"
        runner[0].tell(runner[0].waiting[-1], end)
        assert unsaved_projects() == [left]
    session.open("demo:other")
    assert kept.recover(left)
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    assert session.opened_spec == "demo:other" and not kept.recovered and not unsaved_projects()
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    assert kept.recovered and session.document and session.document.path == folder / "a.espalier"


def test_recovered_work_is_unsaved_work_on_the_original(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    project, recipe = small_project(), Recipe((Step("remove_dropout", NoOptions()),))
    file = left_behind(folder, recipe=recipe)
    assert kept.recover(unsaved_projects()[0])
    graph, _ = remove_dropout(project.graph, NoOptions(), None)  # type: ignore[arg-type]
    runner[0].finish(OpenResult(replace(project, recipe=recipe, graph=graph), {}, (), {}))
    assert session.document and session.document.dirty
    assert session.document.path == folder / "a.espalier"
    assert file.exists() and not unsaved_projects()  # mapped from, but no longer offered
    assert kept.source == str(folder / "a.espalier"), "the copy, which is deleted, is no source to open again"
    session.close()
    assert not file.exists()


def test_edits_with_formats_of_a_plugin_are_read_once_that_is_loaded(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """The list is made before plug-ins are loaded; their formats were unknown, and so the journal seemed damaged."""
    project, recipe = small_project(), Recipe((Step("remove_dropout", NoOptions()),))
    left_behind(folder, recipe=recipe)
    (known,) = unsaved_projects()
    assert known.edits.count
    assert kept.recover(replace(known, edits=replace(known.edits, recipe=Recipe(), count=0, damaged=1)))
    runner[0].finish(OpenResult(project, {}, (), {}))
    assert session.recipe == recipe


def test_recovered_studies_are_unsaved_though_no_step_is(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    file = left_behind(folder)
    assert kept.recover(unsaved_projects()[0])
    runner[0].finish(OpenResult(replace(small_project(), extras={"studies/a.journal": b"trials"}), {}, (), {}))
    assert session.document and session.document.dirty
    kept.update()
    assert file.with_suffix(ENDING).exists(), "what was recovered is not offered again"


def test_what_is_recovered_is_gone_on_with_in_its_own_journal(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """So that another death leaves one journal, never none or two; a newer copy takes the place of the older."""
    file = left_behind(folder)
    journal = file.with_suffix(ENDING)
    journal.write_bytes(journal.read_bytes() + b'{"edit": "cut o')
    assert kept.recover(unsaved_projects()[0])
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    edit(session)
    kept.write_copy()
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
    kept.write_copy()
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
    kept.write_copy()
    copy = next(j.job for j in runner[0].waiting if isinstance(j.job, SaveJob) and j.job.copy)
    assert copy.placing is None, "a copy for recovery is not the document's file"


def test_a_journal_whose_window_died_before_its_first_edit_is_deleted(folder: Path) -> None:
    for text in ("", f"{json.dumps({'begin': NOTE})}\n"):
        (folder / "1.journal").write_text(text)
        assert not unsaved_projects() and not list(folder.iterdir())


def test_edits_after_the_last_copy_are_done_again(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery
) -> None:
    """Also where there is no copy yet: what was opened is opened again."""
    recipe = Recipe((Step("remove_dropout", NoOptions()),))
    for copied in (True, False):
        file = left_behind(folder, recipe=recipe)
        if not copied:
            file.unlink()
        assert kept.recover(unsaved_projects()[0])
        job = runner[0].waiting[-1].job
        assert isinstance(job, OpenJob) and (Path(job.spec).samefile(file) if copied else job.spec == "a.espalier")
        runner[0].finish(OpenResult(small_project(), {}, (), {}))
        assert session.document and session.document.recipe == recipe and session.document.dirty
        kept.end()
        assert not unsaved_projects()


def test_an_edit_that_waited_for_the_worker_counts_once(folder: Path) -> None:
    journal = EditJournal(folder)
    journal.begin(Subject("small", "", "", "", ""))
    pruned = Recipe((Step("prune", PruneOptions(0.5)),))
    journal.edit("Prune half", Recipe(), ("Prune half",))
    journal.edit("results", pruned, ())
    journal.edit("Prune more", pruned.append(Step("prune", PruneOptions(0.7))), ())
    left = read(journal.path)
    journal.delete()
    assert left and left.count == 2 and left.label == "Prune more"


@pytest.mark.parametrize("copied", [True, False])
def test_pins_and_frames_after_the_last_copy_are_recovered(
    session: Session, runner: list[FakeRunner], folder: Path, kept: Recovery, copied: bool
) -> None:
    """Each of them is an edit of the journal; the copy, of which there may be none, is older."""
    open_small(session, runner[0])
    for place in (1.0, 2.0):
        session.arrange(session.open_document.arrangement.with_pins([Pin("node", "fc1", place, 3.0)]), f"Move {place}")
    arrangement = session.open_document.arrangement
    left = folder / "9.journal"
    left.write_bytes(kept.journal.path.read_bytes())
    if copied:
        left.with_suffix(".espalier").write_bytes(b"")
    kept.end()
    (unsaved,) = unsaved_projects()
    assert unsaved.summary.startswith("2 edits, the last at") and unsaved.summary.endswith("Move 2.0")
    assert kept.recover(unsaved)
    runner[0].finish(OpenResult(small_project(), {}, (), {}))
    assert session.open_document.arrangement == arrangement and session.open_document.dirty
    held = read(left)
    assert held and held.arrangement == arrangement and held.count == 2, "what was recovered is not offered again"
