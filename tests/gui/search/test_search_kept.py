"""Studies are kept with the project, and lose nothing when a window dies."""

from __future__ import annotations

import csv
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.search.state import files
from espalier.app.features.search.state.searches import seconds_each
from espalier.app.features.search.state.study import Study
from espalier.app.features.search.state.texts import time_text
from espalier.app.shell.window import Window
from espalier.model.document.document import Document
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.store.weights import WeightStore
from espalier.passes.jobs.kinds import Done, Failed, PartialResult, SaveJob
from espalier.passes.jobs.search import serve_search
from espalier.passes.search import project_studies
from espalier.passes.search.record import Record, damage, dump, load, member_of, records
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import SearchSpec, Vary
from tests.gui.conftest import FakeRunner, open_small, small_project
from tests.gui.search.searching import WIDTHS, begin, feed, quiet, search_panel, trial
from tests.patience import PATIENCE

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """The panel on a model that knows its data."""
    return search_panel(window, runner)


def test_a_record_survives_its_text() -> None:
    spec = SearchSpec(study="a/b", space=(Vary(values="integer"),))
    held = Record(spec, Recipe(), Space((Choice("c", "format", ("float",)),)), (trial(0), trial(1)), "k", {"loss": 1.0})
    data = dump(held)
    assert load(data) == held and load(data[:-40]).trials == held.trials[:1]  # a line that was cut off
    assert records({member_of("a/b"): data, "studies/bad.trials.jsonl": b"{", "other": b""}) == {"a/b": held}
    with pytest.raises(OptionsError, match="cannot be read"):
        load(b"{}\n")


def test_studies_are_kept_with_the_project(panel: SearchPanel, runner: list[FakeRunner], window: Window) -> None:
    info = begin(panel, runner)
    document = window.session.document
    assert document
    project_studies.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n{"op_co')
    feed(runner, info, [trial(0, 0.9), trial(1)])
    runner[-1].tell(info, Done(2))
    assert document.dirty and window.isWindowModified()
    extras = document.project.extras
    assert extras["studies/formats 1.journal"] == b'{"op_code":0}\n'  # whole lines alone
    assert load(extras[member_of("formats 1")]).trials == (trial(0, 0.9), trial(1))
    quiet(runner)
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    quiet(runner)
    assert panel.study and panel.study.leader and panel.study.leader.number == 0
    assert panel.trials.table.rows.shown == [0, 1] and window.session.document and not window.session.document.dirty
    path = project_studies.path_for(window.session.document.store.folder, "formats 1")
    assert path.read_bytes() == b'{"op_code":0}\n'
    panel.act("remove")
    assert not panel.searches.studies and not path.exists() and not window.session.document.project.extras


@pytest.mark.slow
def test_a_chart_is_saved_by_the_dialog_of_all_files(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path, qtbot: QtBot
) -> None:
    """And the window reports what cannot be written."""
    info = begin(panel, runner)
    feed(runner, info, [trial(n, 0.9 - n / 10) for n in range(4)])
    tile = panel.board.tiles[0]
    for place, told in (("chart.csv", ""), ("no folder/chart.png", "chart.png could not be written")):
        qtbot.waitUntil(tile._save.isEnabled)
        tile._save.click()
        dialog = next(d for d in window.findChildren(QFileDialog) if d.isVisible())
        assert dialog.windowTitle() == "Save the chart" and dialog.acceptMode() == QFileDialog.AcceptMode.AcceptSave
        dialog.fileSelected.emit(str(tmp_path / place))
        dialog.reject()
        assert told in window.banner.text and bool(told) == bool(window.banner.text)
    assert (tmp_path / "chart.csv").exists()


@pytest.mark.slow
def test_what_cannot_be_read_of_a_study_is_told(panel: SearchPanel, runner: list[FakeRunner], window: Window) -> None:
    """A line that was cut off is no damage: its window died while it wrote."""
    held = Record(SearchSpec(study="s"), Recipe(), Space(()), (trial(0), trial(1)), "k")
    head, first, second, _ = dump(held).split(b"\n")
    extras = {"studies/bad.trials.jsonl": b"{", member_of("cut"): b"\n".join((head, first, second[:-9]))}
    extras[member_of("s")] = b"\n".join((head, first[:-9], b"[]", second, b""))
    told = "Of this project the study 'bad', 2 trials of the study 's' cannot be read."
    extras |= {f"studies/{'x' * 300}.journal": b"{}\n", f"studies/{'é' * 60}.journal": b"{}\n"}
    assert damage(extras, records(extras)) == told and not damage(extras, dict.fromkeys(("bad", "s", "cut"), held))
    quiet(runner)
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    assert told in window.banner.text
    quiet(runner)
    info = begin(panel, runner)
    words = "Record 3 of s.journal is damaged and was skipped; all others were read."
    feed(runner, info, [])
    runner[-1].tell(info, PartialResult(words))
    assert words in window.banner.text


def test_the_worker_tells_what_of_a_journal_it_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, heard = SimpleNamespace(damage="2 records are damaged."), list[object]()
    running = SimpleNamespace(study=SimpleNamespace(_storage=storage), trials=lambda: iter([trial(0)]), why="")
    monkeypatch.setattr("espalier.passes.search.study.begin", lambda plan: running)
    job: Any = SimpleNamespace(search=None, storage="", resume=True, graphs=(), by_hand=())
    assert serve_search(job, None, None, heard.append, lambda: None) == ""  # type: ignore[arg-type]
    assert heard == ["2 records are damaged.", trial(0)]


@pytest.mark.slow
def test_what_a_dead_window_had_found_is_found_again(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0)])
    panel.searches.write()
    document = window.session.document
    assert document
    extras = dict(document.project.extras)  # as it was when the project was last saved
    feed(runner, info, [trial(1, 0.95), trial(2)])
    project_studies.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n{"op_code":4}\n')
    quiet(runner)
    files._NOTES.clear()
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    assert panel.study and sorted(panel.study.trials) == [0, 1, 2] and panel.study.leader.number == 1  # type: ignore[union-attr]
    now = window.session.document
    assert now and project_studies.path_for(now.store.folder, "formats 1").read_bytes().count(b"\n") == 2
    panel.searches.write()
    assert now.dirty


@pytest.mark.slow
def test_a_trial_that_ran_at_the_last_save_and_ended_in_a_dead_window_is_found(
    panel: SearchPanel, runner: list[FakeRunner], window: Window
) -> None:
    """Both files hold as many trials then."""
    info = begin(panel, runner)
    feed(runner, info, [trial(0), replace(trial(1), state="running", values=())])
    panel.searches.write()
    document = window.session.document
    assert document
    extras = dict(document.project.extras)
    feed(runner, info, [trial(1, 0.95)])
    project_studies.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n{"op_code":4}\n')
    quiet(runner)
    files._NOTES.clear()
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    assert panel.study and panel.study.trials[1].state == "complete" and not panel.study.trials[1].lost


def test_the_note_of_a_study_goes_with_its_document(
    panel: SearchPanel, runner: list[FakeRunner], window: Window
) -> None:
    """Each is an open file."""
    feed(runner, begin(panel, runner), [trial(0, 0.95)])
    document = window.session.document
    assert document and any(path.is_relative_to(document.store.folder) for path, _ in files._NOTES)
    quiet(runner)
    shutil.rmtree(document.store.folder)
    open_small(window, runner)
    assert not any(path.is_relative_to(document.store.folder) for path, _ in files._NOTES)


@pytest.mark.slow
def test_a_study_that_no_project_has_yet_is_found_again_where_it_was_begun(
    panel: SearchPanel, runner: list[FakeRunner], window: Window
) -> None:
    """Also after a second death, before it could be saved; of another model it is not."""
    info = begin(panel, runner)
    feed(runner, info, [trial(0, 0.95), trial(1)])
    document = window.session.document
    assert document
    project_studies.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n')
    quiet(runner)
    for source, found in (("demo:other", False), ("demo:small", True), ("demo:small", True)):
        files._NOTES.clear()
        project = small_project("demo:small")
        open_small(window, runner, replace(project, source=replace(project.source, spec=source)))
        assert [sorted(s.trials) for s in panel.searches.studies.values()] == [[0, 1]] * found
    panel.searches.write()
    now = window.session.document
    assert (
        now and now.dirty and project_studies.path_for(now.store.folder, "formats 1").read_bytes() == b'{"op_code":0}\n'
    )


@pytest.mark.slow
def test_a_study_is_found_while_the_thread_of_the_start_moves_it(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lock its note; the one that came second took it for that of another window."""
    info = begin(panel, runner)
    feed(runner, info, [trial(0, 0.95), trial(1)])
    document = window.session.document
    assert document
    project_studies.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n')
    quiet(runner)
    for note in files._NOTES.values():
        note.release()
    files._NOTES.clear()
    moving, write = threading.Event(), files.write_bytes

    def slowly(path: Path, data: bytes) -> None:
        moving.set()
        time.sleep(0.3)
        write(path, data)

    monkeypatch.setattr(files, "write_bytes", slowly)
    mover = threading.Thread(target=files.rescue)
    mover.start()
    assert moving.wait(PATIENCE)
    open_small(window, runner, small_project("demo:small"))
    mover.join(PATIENCE)
    assert [sorted(s.trials) for s in panel.searches.studies.values()] == [[0, 1]]


def test_saving_amid_a_search_keeps_every_trial(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    feed(runner, begin(panel, runner), [trial(0), trial(1)])
    window.session.save_as(tmp_path / "a.espalier", copy=True)
    job = runner[-1].waiting[-1].job
    assert isinstance(job, SaveJob)
    assert len(load(job.project.extras[member_of("formats 1")]).trials) == 2


def test_trials_that_train_are_not_timed_by_those_that_do_not() -> None:
    plain = Study("a", SearchSpec(), Recipe(), Space(()), {0: replace(trial(0, 0.9), seconds=0.1)})
    each = seconds_each([plain])
    assert each == {"none": 0.1} and "about" in time_text(30, each.get("none"))
    words = time_text(30, each.get("after"), trains=True)
    assert "about" not in words and "first" in words


def test_what_comes_is_not_copied_at_every_moment(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project is told once that it has what its file lacks; the rest goes into it when it is saved."""
    document, info = window.session.open_document, begin(panel, runner)
    panel.searches.write()
    kept_now: list[str] = []
    monkeypatch.setattr(document, "keep", lambda name, data: kept_now.append(name))
    for number in range(5):
        feed(runner, info, [trial(number, 0.9)])
    assert document.dirty and not panel.searches._write_timer.isActive() and not kept_now
    panel.searches.write()  # as saving does
    assert member_of("formats 1") in kept_now
    window.session.saved.emit()
    feed(runner, info, [trial(5, 0.9)])
    assert panel.searches._write_timer.isActive()


def test_trials_are_copied_and_saved(panel: SearchPanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0), trial(1, state="failed", values=(), error="No, really.")])
    runner[-1].tell(info, Done(2))
    panel.export(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as handle:
        table = list(csv.DictReader(handle))
    assert table[0]["accuracy"] == "0.8" and table[0]["fc1.weight"] == WIDTHS[0] and table[1]["error"] == "No, really."
    panel.trials.table.copy()
    assert QGuiApplication.clipboard().text().splitlines()[1].startswith("0\tcomplete\t0.8")


def test_a_record_is_made_line_by_line_and_read_as_it_was() -> None:
    spec = SearchSpec(study="a")
    study = Study("a", spec, Recipe(()), Space(()))
    study.take(trial(0))
    study.take(trial(1, state="running", values=(), figures={}))
    first = load(study.data())
    assert [t.state for t in first.trials] == ["complete", "running"]
    study.take(trial(2))
    study.take(trial(1, 0.9))
    study.spec = replace(spec, trials=99)
    again = load(study.data())
    assert {t.number: t.state for t in again.trials} == dict.fromkeys((0, 1, 2), "complete")
    assert again.spec.trials == 99 and len(study.data().splitlines()) == 4  # the head, and each trial once


def test_a_study_that_a_save_was_too_early_for_is_found_by_the_new_file(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    """Begun before the project had a file, saved before the first trial came, then killed: 302 trials were lost so."""
    info = begin(panel, runner)
    document = window.session.document
    assert document
    path = tmp_path / "p.espalier"
    document.saved(path, document.present, document.project.extras, None)  # type: ignore[arg-type]
    window.session.saved.emit()
    feed(runner, info, [trial(0, 0.95), trial(1)])
    project_studies.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n')
    files._NOTES.clear()  # as the system takes the locks of a dead process
    again = Document(small_project("demo:small"), WeightStore(tmp_path / "w"), path)
    assert list(files.unsaved(again, set())) == ["formats 1"]
    elsewhere = Document(small_project("demo:small"), WeightStore(tmp_path / "w"), tmp_path / "q.espalier")
    assert not files.unsaved(elsewhere, set())
    (note,) = files.data_folder("studies").glob("*.json")
    with note.open("ab") as file:
        file.write(b'{"record": "half a li')  # killed while it was written
    assert list(files.unsaved(again, set())) == ["formats 1"]


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_a_study_is_found_by_a_file_that_was_written_just_before_the_window_died(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path, fails: bool
) -> None:
    """The file lies there a moment before the window hears of it: 54 trials were lost so."""
    info = begin(panel, runner)
    document = window.session.document
    assert document
    place = project_studies.path_for(document.store.folder, "formats 1")
    path, project = tmp_path / "p.espalier", small_project("demo:small")
    window.session.save_as(path)
    feed(runner, info, [trial(0, 0.95), trial(1)])
    if fails:
        runner[-1].tell(next(j for j in window.session.jobs if isinstance(j.job, SaveJob)), Failed("No.", "Mend it."))
    place.write_bytes(b'{"op_code":0}\n')
    files._NOTES.clear()  # as the system takes the locks of a dead process
    by_file = [] if fails else ["formats 1"]
    for name, found in ((path, by_file), (None, ["formats 1"]), (tmp_path / "q.espalier", [])):
        assert list(files.unsaved(Document(project, WeightStore(tmp_path / "w"), name), set())) == found
