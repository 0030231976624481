"""The table of all nodes: its columns, its filter, and the selection that it shares with the canvas."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from pytestqt.qtbot import QtBot

from espalier.app.features.nodes.panel import NodesPanel
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.edits.test_menu import stack

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> NodesPanel:
    """The panel with the three blocks."""
    open_small(window, runner, stack().project)
    window.show_dock("nodes")
    found = window.docks.panels["nodes"]
    assert isinstance(found, NodesPanel)
    found.refresh()
    return found


def shown(panel: NodesPanel) -> list[str]:
    """The nodes of the rows."""
    return [str(r["node"]) for r in panel.table.rows.shown]


def typed(panel: NodesPanel, qtbot: QtBot, text: str) -> list[str]:
    """The nodes that are left for a text."""
    panel.field.setText(text)
    qtbot.waitUntil(lambda: not panel._pause.isActive())
    return shown(panel)


@pytest.mark.slow
def test_rows_are_the_nodes_and_their_facts(panel: NodesPanel, window: Window) -> None:
    graph = window.session.open_document.graph
    rows = {r["node"]: r for r in panel.table.rows.shown}
    assert list(rows) == list(graph.nodes)
    up = rows["0_up"]
    assert (up["op"], up["parameters"], up["output"]) == ("linear", 12 * 40 + 40, "batch × seq × 40")
    assert up["macs"] == 2 * 5 * 12 * 40, "of the example: 2 samples of 5 tokens"
    assert "weight" in up and "note" not in up, "columns that say nothing are left out"


@pytest.mark.slow
def test_choices_come_as_they_are_made(panel: NodesPanel, window: Window) -> None:
    window.session.set_format(("0_up",), "weight", Integer(4, 2))
    rows = {r["node"]: r for r in panel.table.rows.shown}
    assert rows["0_up"]["weight"] == Integer(4, 2).label and rows["1_up"]["weight"] is None


@pytest.mark.slow
def test_the_filter_takes_texts_patterns_and_expressions(panel: NodesPanel, qtbot: QtBot) -> None:
    assert typed(panel, qtbot, "gelu") == ["0_act", "1_act", "2_act", "3"]
    assert typed(panel, qtbot, "op == 'linear' and features_out > 12") == ["0_up", "1_up", "2_up"]
    assert typed(panel, qtbot, "/^1_/") == ["1_norm", "1_up", "1_act", "1_down"]
    assert panel._counts.text() == f"4 of {len(panel._rows)} nodes"
    assert (
        typed(panel, qtbot, "bits > ") == []
        and "not a valid expression" in panel.message.toolTip() + panel.message.text()
    )
    assert len(typed(panel, qtbot, "")) == len(panel._rows)


@pytest.mark.slow
def test_another_document_begins_without_a_filter(
    panel: NodesPanel, window: Window, qtbot: QtBot, runner: list[FakeRunner]
) -> None:
    typed(panel, qtbot, "gelu")
    panel.colour.put("parameters")
    open_small(window, runner, stack().project)
    qtbot.waitUntil(lambda: len(shown(panel)) == len(window.session.open_document.graph))
    assert panel.field.text() == panel.colour.get() == ""


@pytest.mark.slow
def test_the_selection_is_shared(panel: NodesPanel, window: Window, qtbot: QtBot) -> None:
    typed(panel, qtbot, "gelu")
    panel.select_all()
    assert window.session.selection == ("0_act", "1_act", "2_act", "3") == window.canvas.selection()
    window.session.select(("1_act",))
    rows = {i.row() for i in panel.table.selectionModel().selectedRows()}
    assert [shown(panel)[i] for i in rows] == ["1_act"]
    flags = QItemSelectionModel.SelectionFlag
    model = panel.table.selectionModel()
    model.select(panel.table.rows.index(0, 0), flags.ClearAndSelect | flags.Rows)
    assert window.session.selection == ("0_act",)
    panel.table.sortByColumn(panel.table.rows.columns.index("node"), Qt.SortOrder.DescendingOrder)
    assert shown(panel)[0] == "3" and window.session.selection == ("0_act",)


@pytest.mark.slow
def test_a_column_colours_the_graph_and_rows_are_saved(panel: NodesPanel, window: Window, tmp_path: Path) -> None:
    panel.colour.put("macs")
    panel.colour.edited.emit()
    overlay = window.canvas.overlay
    assert overlay is not None and overlay.title == "MACs" and overlay.values["0_up"] == 4800.0
    panel.save(tmp_path / "nodes.csv")
    rows = list(csv.DictReader((tmp_path / "nodes.csv").read_text().splitlines()))
    assert [r["node"] for r in rows] == shown(panel) and rows[1]["op"]
    panel.colour.put("")
    panel.colour.edited.emit()
    assert window.canvas.overlay is None


def test_nothing_is_counted_while_nobody_looks(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner, stack().project)
    window.show_dock("jobs")
    panel = window.docks.panels["nodes"]
    assert isinstance(panel, NodesPanel) and not panel.isVisible() and not panel._rows


def test_the_find_field_selects_by_expression(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner, stack().project)
    first, *rest = window.quick_find.entries("op == 'gelu'")
    assert first.title == "Select 4 nodes" and len(rest) == 4
    first.run()
    assert window.session.selection == ("0_act", "1_act", "2_act", "3")
    assert [e.title for e in window.quick_find.entries("/^9_/")] == []
    (wrong,) = window.quick_find.entries("bits <")
    assert "not a valid expression" in wrong.title and wrong.detail
    titles = [e.title for e in window.quick_find.entries("act")]
    assert any(t.startswith("Select ") for t in titles)


def test_bars_show_a_second_column(panel: NodesPanel, window: Window) -> None:
    panel.bars.put("parameters")
    panel.bars.edited.emit()
    scene = window.canvas.scene
    assert scene is not None and scene.sizes is not None
    tree, sizes = scene.layout.tree, scene.sizes
    assert sizes.largest == 12 * 40 + 40 and sizes.title == "parameters"
    shares = {name: float(sizes.shares[i]) for i, name in enumerate(tree.ids)}
    assert shares["0_up"] == 1.0 and shares["0_down"] == pytest.approx((40 * 12 + 12) / 520)
    place = list(scene.layout.nodes).index(tree.index["0_down"])
    full, filled = sizes.rects(scene.layout.nodes[[place]], scene.layout.node_rects[[place]])
    assert filled[0, 2] == pytest.approx(full[0, 2] * 492 / 520)
    window.canvas.bars.plain_wanted.emit()
    assert scene.sizes is None and panel.bars.get() == ""
