"""The heat map of SQNR: rows stream in, cells and columns apply formats, keys and files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from espalier.app.features.sqnr.panel import FIRST, USAGE, SqnrPanel
from espalier.app.shell.window import Window
from espalier.app.theme import ROW, SEQUENTIAL
from espalier.app.widgets.sqnr_table import NAMES, sqnr_text, text_colour, two_lines
from espalier.model.formats.base import Format
from espalier.passes.analysis.format_sqnr import WeightSqnr, tried_nodes, usual_formats
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, Failed, PartialResult
from tests.gui.bert import KEY, QUERY, open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SqnrPanel:
    """The dock of a window with the traced model, in front."""
    open_bert(window.session, runner)
    window.docks.bring("sqnr")
    found = window.docks.panels["sqnr"]
    assert isinstance(found, SqnrPanel)
    return found


def held(window_or_panel: SqnrPanel, node: str) -> Format | None:
    document = window_or_panel._session.document
    assert document is not None
    chosen = document.graph.nodes[node].precision.get("weight")
    return chosen.format if chosen else None


def fill(panel: SqnrPanel, runner: list[FakeRunner]) -> list[str]:
    """Measure as the worker would: the SQNR of row i and column j is 10·i + j; returns the nodes."""
    panel.measure()
    info = runner[-1].waiting[0]
    assert isinstance(info.job, AnalyseJob) and info.job.step.pass_name == "format_sqnr"
    formats = usual_formats()
    nodes = [n.id for n in tried_nodes(info.job.graph)]
    for i, node in enumerate(nodes):
        values = tuple(float(10 * i + j) for j in range(len(formats)))
        runner[-1].tell(info, PartialResult(WeightSqnr(node, 1024, formats, values)))
        assert panel.table.heat.rowCount() == i + 1
    runner[-1].finish(Report("format_sqnr"))
    return nodes


def click(panel: SqnrPanel, row: int, column: int) -> None:
    cell = panel.table.visualRect(panel.table.heat.index(row, column)).center()
    QTest.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=cell)


@pytest.mark.slow
def test_nothing_is_measured_before_it_is_asked_for(panel: SqnrPanel, runner: list[FakeRunner]) -> None:
    assert panel.start.isVisible() and panel.start.text().endswith(f"under {len(usual_formats())} formats")
    nodes = fill(panel, runner)
    assert f"{len(nodes)} weights" in panel._counts.text() and panel.again.text() == "Measure again"


@pytest.mark.slow
def test_it_tells_what_goes_on_and_what_a_click_does(panel: SqnrPanel, runner: list[FakeRunner]) -> None:
    panel.measure()
    assert panel.words.toolTip() == FIRST
    runner[-1].finish(Report("format_sqnr"))
    fill(panel, runner)
    assert panel.words.toolTip() == USAGE
    widest = max(panel.table.fontMetrics().horizontalAdvance(n) for n in panel.table.heat.names.values())
    assert min(widest, NAMES) <= panel.table.verticalHeader().width() <= NAMES


@pytest.mark.slow
def test_a_click_applies_one_cell_as_one_undo_step(panel: SqnrPanel, runner: list[FakeRunner], window: Window) -> None:
    nodes = fill(panel, runner)
    row = nodes.index(KEY)
    panel.table.scrollTo(panel.table.heat.index(row, 1))
    click(panel, row, 1)
    assert held(panel, KEY) == usual_formats()[1] and held(panel, QUERY) is None
    assert window.session.selection == (KEY,), "the inspector shows what came of it"
    assert panel.table.heat.marked(panel.table.heat.index(row, 1))
    window.session.undo()
    assert held(panel, KEY) is None and not panel.table.heat.marked(panel.table.heat.index(row, 1))


def test_keys_move_and_apply(panel: SqnrPanel, runner: list[FakeRunner], window: Window) -> None:
    nodes = fill(panel, runner)
    table = panel.table
    table.setFocus()
    table.setCurrentIndex(table.heat.index(0, 0))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Return):
        QTest.keyClick(table, key)
    assert held(panel, nodes[1]) == usual_formats()[1] and held(panel, nodes[0]) is None
    QTest.keyClick(table, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert {held(panel, n) for n in nodes} == {usual_formats()[1]}
    window.session.undo()
    assert held(panel, nodes[0]) is None and held(panel, nodes[1]) == usual_formats()[1], "a column is one undo step"
    assert "Ctrl+Enter to all" in panel.words.toolTip()


def test_the_head_of_a_column_applies_and_sorts(panel: SqnrPanel, runner: list[FakeRunner]) -> None:
    nodes = fill(panel, runner)
    panel.table.header_pressed.emit(3)
    use, *sorts = [a for a in panel.menu.actions() if not a.isSeparator()]
    sorts[0].trigger()
    assert panel.table.heat.row(0).node == nodes[-1], "best first"
    assert str(panel.table.heat.headerData(3, Qt.Orientation.Horizontal)).endswith("↓")
    sorts[1].trigger()
    assert panel.table.heat.row(0).node == nodes[0]
    panel.menu.close()
    use.trigger()
    assert all(held(panel, n) == usual_formats()[3] for n in nodes)


def test_copy_and_save(panel: SqnrPanel, runner: list[FakeRunner], window: Window, tmp_path: Path) -> None:
    nodes = fill(panel, runner)
    panel.table.copy()
    head, first, *_ = QGuiApplication.clipboard().text().splitlines()
    assert head.split("\t")[:3] == ["node", "elements", "int 8 fitted"]
    assert first.split("\t")[:4] == [nodes[0], "1024", "0.0", "1.0"]
    for place in ("sqnr.csv", "nowhere/sqnr.csv"):
        panel.tools[1].click()
        dialog = next(d for d in window.findChildren(QFileDialog) if d.isVisible())
        dialog.fileSelected.emit(str(tmp_path / place))
        dialog.reject()
        assert ("could not be written" in window.banner.text) == (place != "sqnr.csv")
    assert len((tmp_path / "sqnr.csv").read_text().splitlines()) == len(nodes) + 1


def test_the_first_measurement_gets_room_for_rows(panel: SqnrPanel, runner: list[FakeRunner], window: Window) -> None:
    window.resize(1400, 1000)
    window.show_dock("sqnr")
    panel.measure()
    QApplication.processEvents()
    assert panel.table.viewport().height() >= 8 * ROW


def test_a_failure_leads_back_to_the_beginning(panel: SqnrPanel, runner: list[FakeRunner]) -> None:
    panel.measure()
    assert panel.again.text() == "Stop"
    runner[-1].tell(runner[-1].waiting[0], Failed("It broke."))
    assert panel.start.isVisible()


def test_a_stopped_measurement_keeps_its_rows(panel: SqnrPanel, runner: list[FakeRunner]) -> None:
    panel.measure()
    formats = usual_formats()
    part = WeightSqnr(KEY, 4, formats, tuple(math.inf for _ in formats))
    runner[-1].tell(runner[-1].waiting[0], PartialResult(part))
    panel.again.click()
    assert not runner[-1].waiting and panel.table.heat.rowCount() == 1
    assert panel.table.heat.index(0, 0).data() == "exact"


def test_words_and_colours() -> None:
    assert [sqnr_text(v) for v in (42.13, -3.21, math.inf, None)] == ["42.1", "−3.2", "exact", "no signal"]
    assert two_lines("int 8 fitted") == "int 8\nfitted" and two_lines("mxint8/32") == "mxint8/32\n"
    assert text_colour(SEQUENTIAL[0]) == "#FFFFFF" and text_colour(SEQUENTIAL[-1]) == "#000000"


def test_it_can_be_drawn(panel: SqnrPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    fill(panel, runner)
    panel.table.setCurrentIndex(panel.table.heat.index(1, 1))
    picture = panel.grab().toImage()
    cell = panel.table.viewport().mapTo(panel, panel.table.visualRect(panel.table.heat.index(4, 0)).topLeft())
    assert picture.pixelColor(cell.x() + 4, cell.y() + 4).name() != picture.pixelColor(2, 2).name()
