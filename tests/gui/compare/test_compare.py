"""The panel Compare: sides, differences, linked canvases, and the table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.compare.actions import is_shown
from espalier.app.features.compare.canvases import TITLE_HEIGHT
from espalier.app.features.compare.tables import shared_widths
from espalier.app.shell.presenting import SCALE
from espalier.app.shell.window import Window
from espalier.model.document.arrangement import UNARRANGED, Arrangement, Pin
from espalier.model.document.recipe import Recipe
from espalier.model.formats.base import parse_format
from espalier.passes.score import static_score
from tests.gui.compare.steps import choice, laid_out, shown

pytestmark = pytest.mark.gui


def test_opened_and_now_are_compared_first(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    assert [panel.selectors.boxes[p].currentText() for p in ("a", "b")] == [
        "Opened, before the first step", "Now, after 2 steps",
    ]  # fmt: skip
    rows = {(r["node"], r["what"]): (r["A"], r["B"]) for r in panel.table.rows.shown}
    assert rows["fc1", "weight format"] == ("float", "int8 channel")
    assert rows["drop", "removed"] == ("dropout", "–")
    assert rows["fc2", "inputs"] == ("drop", "fc1")
    sizes = [static_score(g).size_bytes for g in (edited.session.open_document.project.base, edited.canvas.graph)]
    score = next(r for r in panel.comparing.result.scores if r.name == "size_bytes")
    assert [score.a, score.b] == sizes and score.verdict == "better"


def test_the_panel_covers_the_graph_and_leaves_it_as_it_was(edited: Window, qtbot: QtBot) -> None:
    docks = {n: (d.isVisible(), d.height()) for n, d in edited.docks.docks.items()}
    panel = shown(edited, qtbot)
    assert panel.isVisible() and not edited.canvas.isVisible() and not edited.docks.docks["recipe"].isVisible()
    panel.table.setFocus()
    qtbot.keyClick(panel.table, Qt.Key.Key_Escape)
    assert edited.canvas.isVisible() and not panel.isVisible() and not is_shown(edited.host)
    qtbot.waitUntil(lambda: edited.docks.docks["recipe"].isVisible())
    qtbot.wait(20)
    assert {n: (d.isVisible(), d.height()) for n, d in edited.docks.docks.items() if docks[n][0]} == {
        n: v for n, v in docks.items() if v[0]
    }
    shown(edited, qtbot)
    edited.host.go_to("fc1")
    assert edited.canvas.isVisible(), "what shows a node shows the graph"


def test_a_row_selects_its_node_in_both_graphs(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    rows = [r["what"] for r in panel.table.rows.shown]
    panel.table.setCurrentIndex(panel.table.rows.index(rows.index("weight format"), 0))
    assert [c.selection() for c in pair.canvases] == [("fc1",), ("fc1",)]
    panel.table.setCurrentIndex(panel.table.rows.index(rows.index("removed"), 0))
    assert [c.selection() for c in pair.canvases] == [("drop",), ()], "a removed node has no partner"
    pair.canvases[0].select(("fc2",))
    assert pair.canvases[1].selection() == ("fc2",)
    assert panel.table.group_at(panel.table.currentIndex().row()).nodes == ("fc2",)
    before = panel.table.currentIndex().row()
    edited.actions_table.run("compare_next")
    assert panel.table.currentIndex().row() == (before + 1) % len(rows)
    assert panel.slider.position.text() == f"{panel.table.currentIndex().row() + 1} of {len(rows)}"


@pytest.mark.slow
def test_the_row_that_the_focus_makes_current_is_marked(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    assert panel.table.currentIndex().row() < 0
    edited.actions_table.run("compare")
    shown(edited, qtbot)
    qtbot.waitUntil(lambda: panel.table.currentIndex().row() == 0)
    assert [i.row() for i in panel.table.selectionModel().selectedRows()] == [0]
    assert panel.slider.position.text().startswith("1 of")


def test_columns_shrink_from_the_widest() -> None:
    assert shared_widths([100, 60, 40], 300) == [200, 60, 40], "what is left over goes to the first"
    assert shared_widths([120, 60, 300, 280], 500) == [120, 60, 160, 160]
    assert shared_widths([300, 60, 300], 260) == [100, 60, 100]
    assert shared_widths([], 100) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 900])
def test_long_values_leave_room_for_the_names_of_nodes(edited: Window, qtbot: QtBot, width: int) -> None:
    panel = shown(edited, qtbot)
    edited.session.set_format(["fc2"], "data_in", parse_format("mxint(width=8, exponent_width=8, block_size=32)"))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    table = panel.table
    table.setParent(None)
    qtbot.addWidget(table)
    table.resize(width, 200)
    table.show()
    assert table.columnWidth(0) >= min(table.sizeHintForColumn(0), width // 6)
    assert table.horizontalHeader().length() <= max(
        table.viewport().width(), 6 * table.horizontalHeader().minimumSectionSize()
    )


@pytest.mark.slow
def test_changed_nodes_are_outlined(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    for canvas, names in zip(pair.canvases, ({"fc1", "fc2", "drop"}, {"fc1", "fc2"}), strict=True):
        layout = canvas.scene.layout
        assert {layout.tree.ids[layout.nodes[i]] for i in canvas.marks.changed_nodes} == names
    image = pair.canvases[1].grab().toImage()
    orange = sum(image.pixelColor(x, y).name() == "#d55e00" for x in range(0, image.width(), 2)
                 for y in range(0, image.height(), 2))  # fmt: skip
    assert orange > 50, "two outlines"


@pytest.mark.slow
def test_cameras_are_linked(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    a, b = laid_out(panel, qtbot).canvases
    rect = [c.scene.rect_of(c.scene.layout.tree.index["fc1"]) for c in (a, b)]
    a.zoom_by(1.3)
    a.centre(rect[0][0], rect[0][1])
    assert b.camera.scale == a.camera.scale
    assert b.camera.to_screen(*rect[1][:2]) == pytest.approx(a.camera.to_screen(*rect[0][:2])), "fc1 at one place"
    panel.slider._link.click()
    before = b.camera.x, b.camera.y
    a.centre(rect[0][0] + 500, rect[0][1])
    assert (b.camera.x, b.camera.y) == before


@pytest.mark.slow
def test_equal_states_are_drawn(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    edited.session.undo()
    edited.session.undo()
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    assert panel.comparing.result.headline.startswith("Nothing differs")
    assert all(c.graph is not None for c in laid_out(panel, qtbot).canvases)
    assert pair.titles[0].text().startswith("A · Opened")
    assert len(panel.scores.table.rows.shown) > 3


@pytest.mark.slow
def test_one_picture_shows_a_left_of_the_edge_and_b_right_of_it(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    panel.set_mode("one picture")
    panel.slider._edge.setValue(300)
    edge, y = round(0.3 * pair.width()), TITLE_HEIGHT + 60
    assert pair.canvases[0].geometry() == pair.canvases[1].geometry()
    assert pair.childAt(QPoint(edge - 10, y)) is pair.canvases[0]
    assert pair.childAt(QPoint(edge + 10, y)) is pair.canvases[1]
    panel.set_mode("side by side")
    assert pair.canvases[1].mask().isEmpty() and pair.canvases[1].x() >= pair.canvases[0].width()


@pytest.mark.slow
def test_using_b_is_one_edit(edited: Window, qtbot: QtBot) -> None:
    session = edited.session
    panel = shown(edited, qtbot)
    whole = session.recipe
    assert not panel.selectors.use.isEnabled(), "B is what the document is already"
    panel.comparing.choose("b", choice(edited, "step", "1"))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    panel.selectors.use.click()
    assert session.recipe == Recipe(whole.steps[:1]) and "drop" in session.document.graph.nodes
    session.undo()
    assert session.recipe == whole


@pytest.mark.slow
def test_the_table_is_filtered_copied_and_saved(edited: Window, qtbot: QtBot, tmp_path: Path) -> None:
    panel = shown(edited, qtbot)
    panel.filter.setText("int8")
    assert [r["node"] for r in panel.table.rows.shown] == ["fc1"]
    panel.copy_as("CSV")
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert {(r["node"], r["what"]) for r in rows} >= {("fc1", "weight format"), ("drop", "removed")}
    panel.copy_as("Text")
    assert "int8 channel" in QGuiApplication.clipboard().text()
    panel.save(tmp_path / "d.html")
    assert "<table>" in (tmp_path / "d.html").read_text()
    with pytest.raises(Exception, match="no known ending"):
        panel.save(tmp_path / "d.docx")


@pytest.mark.slow
def test_the_theme_reaches_both_canvases(edited: Window, qtbot: QtBot) -> None:
    pair = laid_out(shown(edited, qtbot), qtbot)
    edited.appearance.set_mode("dark")
    qtbot.waitUntil(lambda: all(c.tokens.dark for c in pair.canvases))
    edited.appearance.set_mode("light")
    qtbot.waitUntil(lambda: not any(c.tokens.dark for c in pair.canvases))


def test_pins_and_frames_are_shown(edited: Window, qtbot: QtBot) -> None:
    session = edited.session
    session.arrange(Arrangement((Pin("node", "fc1", 400.0, 30.0, "down"),)), "Move fc1")
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    for canvas in pair.canvases:
        assert canvas.arrangement == session.open_document.arrangement != UNARRANGED
    session.undo()
    assert all(c.arrangement == UNARRANGED for c in pair.canvases), "they follow the document"
    drawn = panel._whole(panel.comparing.result)
    assert drawn.arrangements == (UNARRANGED, UNARRANGED)


def test_the_panel_is_presented(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    presenting, table = edited.services.presenting, edited.actions_table
    table.refresh()
    assert table.actions["present"].text() == "Present Compare" and table.actions["present"].isEnabled()
    table.run("present")
    assert presenting.active and panel.isVisible() and is_shown(edited.host) and panel.window() is not edited
    assert panel.width() >= edited.width() / SCALE - 1, "as large as its parts allow"
    view = panel.graphicsProxyWidget()
    assert view is not None and 1 < view.scale() <= SCALE and abs(panel.width() * view.scale() - edited.width()) <= 2
    table.run("present")
    assert not presenting.active and panel.window() is edited and panel.isVisible() and is_shown(edited.host)
    table.run("present")
    panel.selectors.leave.click()
    assert not presenting.active and edited.canvas.isVisible() and not is_shown(edited.host)
    again = shown(edited, qtbot)
    assert again is panel and panel.isVisible() and panel.window() is edited
