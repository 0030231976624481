"""Texts of passes in the table of a report: shown in the language of the user, kept in English for all else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.tables.panel import summary_text
from espalier.app.translation import install
from espalier.app.widgets.table import Table
from espalier.passes.base import Report

pytestmark = pytest.mark.gui
TEXTS = {"zeta reason": "A-Grund", "alpha reason": "Z-Grund", "linear": "LINEAR", "held": "enthalten"}
ROWS = (
    {"node": "linear", "note": "zeta reason", "onnx": "held", "format": "float", "n": 2},
    {"node": "held", "note": "alpha reason", "onnx": "", "format": "float", "n": 1},
)


@pytest.fixture
def table(qtbot: QtBot) -> Iterator[Table]:
    install(lambda text, number: TEXTS.get(text, ""))
    made = Table()
    qtbot.addWidget(made)
    made.show_rows(ROWS)
    yield made
    install(None)


def cells(table: Table, role: Qt.ItemDataRole = Qt.ItemDataRole.DisplayRole) -> list[list[object]]:
    rows, columns = table.rows.rowCount(), table.rows.columnCount()
    return [[table.rows.index(r, c).data(role) for c in range(columns)] for r in range(rows)]


def test_texts_are_shown_translated_and_names_are_not(table: Table) -> None:
    assert cells(table) == [["linear", "A-Grund", "enthalten", "float", "2"], ["held", "Z-Grund", "", "float", "1"]]
    assert cells(table, Qt.ItemDataRole.ToolTipRole)[0][:3] == ["linear", "A-Grund", "enthalten"]


def test_sorting_filtering_copying_and_saving_take_the_english_texts(table: Table, tmp_path: Path) -> None:
    table.sortByColumn(1, Qt.SortOrder.AscendingOrder)
    assert [r["note"] for r in table.rows.shown] == ["alpha reason", "zeta reason"]
    table.rows.set_filter("zeta")
    assert [r["node"] for r in table.rows.shown] == ["linear"]
    table.rows.set_filter("")
    table.copy()
    assert QGuiApplication.clipboard().text().splitlines()[1] == "held\talpha reason\t\tfloat\t1"
    table.save(tmp_path / "a.csv")
    assert "zeta reason" in (tmp_path / "a.csv").read_text() and "Grund" not in (tmp_path / "a.csv").read_text()


def test_what_users_write_is_not_translated(table: Table) -> None:
    table.rows.written = ("note",)
    assert [row[1] for row in cells(table)] == ["zeta reason", "alpha reason"]
    assert cells(table, Qt.ItemDataRole.ToolTipRole)[0][1] == "zeta reason"


@pytest.mark.usefixtures("table")
def test_figures_of_a_summary_are_translated() -> None:
    report = Report("export_targets", (), {"onnx": "held", "node": "held", "warning": "zeta reason"})
    assert summary_text(report) == "onnx enthalten · node held · warning A-Grund"
