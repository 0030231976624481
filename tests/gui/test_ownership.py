"""One file, two windows or another program: nobody's edit is lost without a choice."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from espalier.app import file_claims
from espalier.app.file_claims import claim, holder, want
from espalier.app.jobs.saver import Saver
from espalier.app.locks import hold
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.ownership import recipe_differences
from espalier.app.shell.window import Window
from espalier.app.widgets.style import Appearance
from espalier.model.document.project import Project, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.leftovers import PART, PREFIX
from espalier.model.store.open_files import Version
from espalier.model.store.weights import WeightStore
from espalier.passes.base import NoOptions
from espalier.passes.jobs.kinds import Done, Failed, JobEvent, JobInfo, OpenResult, SaveJob, Started
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@pytest.fixture
def other(qtbot: QtBot, qapp: QApplication, window: Window, settings: Settings) -> Iterator[Window]:
    """A second window, as of another process: its locks are its own."""
    made = Window(Session(), settings, Appearance(qapp, "light"))
    made.show()
    made.build_panels()
    yield made
    made.close_now()
    made.session.deleteLater()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.espalier"
    save_project(bare(), WeightStore(tmp_path), path)
    return path


def bare() -> Project:
    """The small project without weights, which no store would have."""
    project = small_project()
    weights = {n: replace(w, key=None) for n, w in project.base.weights.items()}
    base = replace(project.base, weights=weights)
    return replace(project, base=base, graph=base)


def open_file(window: Window, runner: FakeRunner, file: Path) -> None:
    window.begin_opening(str(file))
    project = load_project(file, WeightStore(file.parent))
    runner.finish(OpenResult(project, {}, (), {}, version=Version.of(file)))


def edit(window: Window) -> None:
    window.session.run_pass("remove_dropout", NoOptions())


def press(window: Window, title: str) -> None:
    [b for b in window.banner.findChildren(QPushButton) if b.text() == title][-1].click()


def save(window: Window, runner: FakeRunner) -> JobInfo | None:
    """Ctrl+S, and what the saving thread does."""
    window.actions_table.actions["save"].trigger()
    info = next((j for j in runner.waiting if isinstance(j.job, SaveJob) and not j.job.copy), None)
    if info is None:
        return None
    heard: list[JobEvent] = []
    saver = Saver(heard.append)
    saver.submit(JobInfo(0, info.title, info.job), info.job)  # type: ignore[arg-type]
    saver.close()
    runner.tell(info, Started())
    runner.tell(info, heard[-1].event)
    return info


@pytest.mark.slow
def test_a_second_window_is_read_only_until_it_takes_over(
    window: Window, other: Window, runner: list[FakeRunner], file: Path, qtbot: QtBot
) -> None:
    open_file(window, runner[0], file)
    open_file(other, runner[1], file)
    assert not window.ownership.read_only and other.ownership.read_only
    assert "p.espalier is open in another Espalier window" in other.banner.text
    assert other.windowTitle().count("read-only") == 1 and "read-only" not in window.windowTitle()
    edit(other)
    assert save(other, runner[1]) is None, "a read-only window saved"
    edit(window)
    press(other, "Take over")
    qtbot.waitUntil(lambda: not other.ownership.read_only)
    assert window.ownership.read_only and "took over p.espalier" in window.banner.text
    assert save(window, runner[0]) is None and window.session.document and window.session.document.dirty
    assert save(other, runner[1]) is not None and load_project(file, WeightStore(file.parent)).recipe.steps
    window.ownership.check_file()
    press(window, "Dismiss")
    window.ownership.take_over()
    qtbot.waitUntil(lambda: not window.ownership.read_only)
    assert other.ownership.read_only
    assert "was changed by another program" in window.banner.text, "taken back, but the file is another by now"


@pytest.mark.slow
def test_a_window_that_closes_lets_the_file_go(
    window: Window, other: Window, runner: list[FakeRunner], file: Path
) -> None:
    open_file(window, runner[0], file)
    window.session.close()
    open_file(other, runner[1], file)
    assert not other.ownership.read_only and not other.banner.text
    assert not window.ownership.may_write(file) and "Choose another name" in window.banner.text


@pytest.mark.slow
def test_the_wish_of_a_dead_window_is_not_granted(window: Window, runner: list[FakeRunner], file: Path) -> None:
    open_file(window, runner[0], file)
    wish = want(file)
    assert wish
    wish.release()
    window.ownership.check_file()
    assert not window.ownership.read_only and not wish.path.exists()


@pytest.mark.slow
def test_a_take_over_that_is_asked_for_twice_is_one(
    window: Window, other: Window, runner: list[FakeRunner], file: Path, qtbot: QtBot
) -> None:
    """Whoever presses again does not let go of what the other window is to see."""
    open_file(window, runner[0], file)
    open_file(other, runner[1], file)
    other.ownership.take_over()
    other.ownership.take_over()
    assert file_claims.is_wanted(file)
    qtbot.waitUntil(lambda: not other.ownership.read_only)


@pytest.mark.slow
def test_the_lock_tells_whose_it_is(window: Window, other: Window, runner: list[FakeRunner], file: Path) -> None:
    open_file(window, runner[0], file)
    open_file(other, runner[1], file)
    who = f"{getpass.getuser()} on {platform.node()}, since "
    assert holder(file).startswith(who) and f"in another Espalier window ({who}" in other.banner.text
    held = hold(window.ownership._claim.path)  # type: ignore[union-attr]
    assert held is None
    for damage in ("", "{}", '{"user": "a", "host": "b", "since": 1e300}', "[" * 100_000):
        window.ownership._claim.path.write_text(damage)  # type: ignore[union-attr]
        assert holder(file) == "" and not other.ownership.may_write(file)


def test_no_note_outlives_its_window_and_a_killed_one_tells_where_it_wrote(
    window: Window, runner: list[FakeRunner], file: Path, tmp_path: Path
) -> None:
    """A first save into a new folder that is killed leaves a half-written file, where no other save might come."""
    notes = tmp_path / "state" / "locks"
    open_file(window, runner[0], file)
    assert len(list(notes.iterdir())) == 1
    new = tmp_path / "new" / "q.espalier"
    new.parent.mkdir()
    assert window.ownership.may_write(new), "which a save asks first"
    half = new.parent / f"{PREFIX}0123456789abcdef{PART}"
    half.write_bytes(b"half")
    other = claim(tmp_path / "elsewhere" / "r.espalier")
    file_claims.clean_up()
    assert not half.exists() and len(list(notes.iterdir())) == 2 and other and other.path.exists()
    window.session.close()
    assert [n.name for n in notes.iterdir()] == [other.path.name]
    (notes / "foreign.lock").write_text("{")
    (notes / "folder.lock").mkdir()
    file_claims.clean_up()
    assert not (notes / "foreign.lock").exists()


def test_a_window_that_does_not_answer_keeps_the_file(
    window: Window, runner: list[FakeRunner], file: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from espalier.app.shell import ownership

    monkeypatch.setattr(ownership, "TAKE_OVER_TIMEOUT", 150)
    held = claim(file)
    open_file(window, runner[0], file)
    press(window, "Take over")
    qtbot.waitUntil(lambda: "does not answer" in window.banner.text)
    assert held and window.ownership.read_only and not held.path.with_suffix(".wanted").exists()


def test_a_change_from_outside_is_told_and_never_overwritten_unasked(
    window: Window, runner: list[FakeRunner], file: Path
) -> None:
    open_file(window, runner[0], file)
    theirs = replace(bare(), recipe=Recipe((Step("remove_dropout", NoOptions(), seed=7),)))
    save_project(theirs, WeightStore(file.parent), file)
    edit(window)
    info = save(window, runner[0])
    assert info and info.state == "failed" and load_project(file, WeightStore(file.parent)).recipe == theirs.recipe
    window.ownership.check_file()
    assert "p.espalier was changed by another program since it was opened" in window.banner.text
    document = window.session.document
    assert document and document.dirty
    press(window, "Compare")
    job = runner[0].waiting[-1]
    runner[0].tell(job, Started())
    runner[0].tell(job, Done(OpenResult(theirs, {}, (), {})))
    assert "on disk. " in window.banner.text and window.session.compared.name == "on disk"
    press(window, "Overwrite with mine")
    info = next(j for j in runner[0].waiting if isinstance(j.job, SaveJob))
    assert isinstance(info.job, SaveJob) and info.job.anyway and info.job.over


def test_reloading_takes_what_is_on_the_disk(window: Window, runner: list[FakeRunner], file: Path) -> None:
    open_file(window, runner[0], file)
    save_project(replace(bare(), view={"a": 1}), WeightStore(file.parent), file)
    window.ownership.check_file()
    press(window, "Reload")
    assert runner[0].waiting[-1].job.spec == str(file)  # type: ignore[union-attr]


def test_a_file_that_is_gone_is_told_once_and_saved_again(window: Window, runner: list[FakeRunner], file: Path) -> None:
    open_file(window, runner[0], file)
    file.unlink()
    window.ownership.check_file()
    assert "no longer exists" in window.banner.text
    press(window, "Dismiss")
    window.ownership.check_file()
    assert not window.banner.text
    edit(window)
    assert save(window, runner[0]) and load_project(file, WeightStore(file.parent)).recipe.steps
    assert window.session.document and not window.session.document.dirty


def test_own_saves_are_no_changes_from_outside(window: Window, runner: list[FakeRunner], file: Path) -> None:
    open_file(window, runner[0], file)
    for _ in range(2):
        edit(window) if not window.session.recipe.steps else window.session.undo()
        assert save(window, runner[0])
        window.ownership.check_file()
        assert not window.banner.text and window.session.document and not window.session.document.dirty


def test_a_failed_save_leaves_the_work_unsaved(
    window: Window, runner: list[FakeRunner], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file(window, runner[0], file)
    edit(window)
    window.actions_table.actions["save"].trigger()
    info = next(j for j in runner[0].waiting if isinstance(j.job, SaveJob))
    runner[0].tell(info, Failed("p.espalier could not be written (No space left on device).", "Free some space."))
    assert window.session.document and window.session.document.dirty and "No space" in window.banner.text


def test_what_recipes_do_not_share_is_said() -> None:
    one, two = (Recipe((Step(n, NoOptions()),)) for n in ("remove_dropout", "not_there"))
    assert recipe_differences(one, one) == "Both have the same steps."
    text = recipe_differences(one, two)
    assert text == "Remove dropout here, not_there (not available) on disk."
    more = Recipe((*one.steps, *two.steps))
    assert (
        recipe_differences(one, more)
        == "The first 1 step is equal; then no step here, not_there (not available) on disk."
    )
