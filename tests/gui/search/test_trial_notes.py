"""Notes on trials: typed below the table, shown there and in tips, kept with the project, written to CSV files."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from espalier.app.features.search.commands.search_files import to_csv
from espalier.app.features.search.panel import SearchPanel
from espalier.app.figures.study.labels import trial_text
from espalier.app.shell.window import Window
from espalier.passes.jobs.kinds import Done
from espalier.passes.search.record import load, member_of
from tests.gui.conftest import FakeRunner, open_small, small_project
from tests.gui.search.searching import begin, feed, search_panel, trial

pytestmark = pytest.mark.gui
TEXT = "good on rare classes; try 3 bits"


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """A study of two trials that has ended."""
    made = search_panel(window, runner)
    info = begin(made, runner)
    feed(runner, info, [trial(0, 0.9), trial(1)])
    runner[-1].tell(info, Done("as asked"))
    made.trials.settle()
    return made


def write(panel: SearchPanel, number: int, text: str) -> None:
    """Choose a trial, type a note and press Return."""
    assert panel.study is not None
    panel.trials.choose(panel.study.trials[number])
    panel.trials.note.selectAll()
    QTest.keyClick(panel.trials.note, Qt.Key.Key_Delete)
    QTest.keyClicks(panel.trials.note, text)
    QTest.keyClick(panel.trials.note, Qt.Key.Key_Return)
    panel.trials.settle()


def kept(window: Window, name: str) -> dict[int, str]:
    assert window.session.document is not None
    return {t.number: t.note for t in load(window.session.document.project.extras[member_of(name)]).trials}


@pytest.mark.slow
def test_a_note_is_shown_kept_and_exported(panel: SearchPanel, window: Window, tmp_path: Path) -> None:
    assert panel.study is not None
    rows = panel.trials.table.rows
    assert "note" not in [c.key for c in rows.columns]
    write(panel, 1, TEXT)
    column = [c.key for c in rows.columns].index("note")
    assert rows.data(rows.index(1, column)) == TEXT and rows.data(rows.index(0, column)) == ""
    tip = rows.data(rows.index(1, 0), Qt.ItemDataRole.ToolTipRole)
    assert str(tip).endswith(f"Note: {TEXT}")
    assert f"Note: {TEXT}" in trial_text(panel.study.trials[1], panel.study.spec.goals, {})
    assert kept(window, panel.study.name) == {0: "", 1: TEXT}
    assert window.session.document is not None and window.session.document.dirty
    panel.export(tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open() as handle:
        assert [r["note"] for r in csv.DictReader(handle)] == ["", TEXT]
    assert [r["note"] for r in csv.DictReader(to_csv(list(panel.study.trials.values())).splitlines())] == ["", TEXT]


@pytest.mark.slow
def test_a_note_is_changed_and_removed(panel: SearchPanel, window: Window) -> None:
    assert panel.study is not None
    write(panel, 1, TEXT)
    write(panel, 1, "  other ")
    assert kept(window, panel.study.name)[1] == "other"
    write(panel, 1, "")
    assert kept(window, panel.study.name)[1] == ""


@pytest.mark.slow
def test_escape_discards_what_was_typed(panel: SearchPanel) -> None:
    assert panel.study is not None
    panel.trials.choose(panel.study.trials[0])
    QTest.keyClicks(panel.trials.note, "never mind")
    panel.trials.leave()
    panel.trials.note.editingFinished.emit()
    panel.trials.choose(panel.study.trials[0])
    assert panel.study.trials[0].note == "" and panel.trials.note.text() == ""


@pytest.mark.slow
def test_another_trial_chosen_in_a_chart_keeps_what_was_typed(panel: SearchPanel) -> None:
    assert panel.study is not None
    panel.trials.choose(panel.study.trials[0])
    QTest.keyClicks(panel.trials.note, "first")
    panel.trials.choose(panel.study.trials[1])
    assert panel.study.trials[0].note == "first" and panel.trials.note.text() == ""


def test_news_of_a_trial_keep_its_note(panel: SearchPanel, window: Window) -> None:
    """The storage tells all trials again when a search goes on: it holds no notes."""
    assert panel.study is not None
    write(panel, 1, TEXT)
    panel.study.take(replace(trial(1), note=""))
    assert panel.study.trials[1].note == TEXT


@pytest.mark.slow
def test_notes_come_back_with_the_project(panel: SearchPanel, window: Window, runner: list[FakeRunner]) -> None:
    assert panel.study is not None and window.session.document is not None
    write(panel, 0, TEXT)
    extras = dict(window.session.document.project.extras)
    name = panel.study.name
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    assert panel.searches.studies[name].trials[0].note == TEXT


def test_the_menu_goes_to_the_field(panel: SearchPanel, window: Window) -> None:
    panel.trials.leave()
    window.actions_table.run("search_note")
    assert "No trial is chosen." in window.banner.text
    assert panel.study is not None
    panel.trials.choose(panel.study.trials[0])
    window.activateWindow()
    window.actions_table.run("search_note")
    assert window.focusWidget() is panel.trials.note
