"""Where the canvas looks: pan, zoom, the first look, cards, and what is remembered. Offscreen."""

from __future__ import annotations

import json

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import LAYER, drag, settle, spot, wheel

pytestmark = pytest.mark.gui


def test_drag_pans_and_escape_undoes(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Dragging moves the picture with the pointer; a cancelled drag puts it back."""
    x, y = canvas.camera.x, canvas.camera.y
    drag(canvas, QPoint(300, 300), QPoint(340, 330), Qt.KeyboardModifier.NoModifier)
    assert (canvas.camera.x - x) * canvas.camera.scale == pytest.approx(-40)
    assert (canvas.camera.y - y) * canvas.camera.scale == pytest.approx(-30)
    x, y = canvas.camera.x, canvas.camera.y
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(300, 300))
    qtbot.mouseMove(canvas, QPoint(380, 380))
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    assert (canvas.camera.x, canvas.camera.y) == (x, y)


def test_wheel_zooms_at_the_pointer_and_touchpad_pans(canvas: GraphCanvas) -> None:
    """The canvas point under the pointer stays there."""
    at, none = QPointF(200, 150), Qt.KeyboardModifier.NoModifier
    before, scale = canvas.camera.to_canvas(200, 150), canvas.camera.scale
    wheel(canvas, at, QPoint(), QPoint(0, 120), none)
    assert canvas.camera.scale > scale and canvas.camera.to_canvas(200, 150) == pytest.approx(before)
    scale, x = canvas.camera.scale, canvas.camera.x
    wheel(canvas, at, QPoint(10, 0), QPoint(20, 0), none)
    assert canvas.camera.scale == scale and canvas.camera.x == pytest.approx(x - 10 / scale)
    wheel(canvas, at, QPoint(0, 20), QPoint(0, 40), Qt.KeyboardModifier.ControlModifier)
    assert canvas.camera.scale > scale


def test_view_state_round_trip(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """What is remembered as JSON brings another canvas to the same view."""
    canvas.set_open(LAYER, False)
    canvas.set_horizontal(True)
    canvas.set_mode("bits")
    settle(qtbot, canvas)
    canvas.zoom_by(0.7)
    canvas.select(["head"])
    state = json.loads(json.dumps(canvas.view_state()))
    other = GraphCanvas()
    qtbot.addWidget(other)
    other.resize(900, 600)
    other.show()
    other.set_graph(canvas.graph)
    other.restore(state)
    settle(qtbot, other)
    found = other.view_state()
    assert found.pop("centre") == pytest.approx(state.pop("centre"))
    assert found == state


def test_a_remembered_view_keeps_its_middle_while_the_window_finds_its_size(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Docks come to their places after a project was opened; what was looked at must not slide away each time."""
    canvas.zoom_by(0.7)
    state = canvas.view_state()
    canvas.restore(state)
    settle(qtbot, canvas)
    for height in (250, 500):
        canvas.resize(900, height)
        assert canvas.view_state()["centre"] == pytest.approx(state["centre"])
    canvas.camera.pan(0, 40)
    canvas.moved()
    here = canvas.view_state()["centre"]
    canvas.resize(900, 300)
    assert canvas.view_state()["centre"] == pytest.approx(here) != pytest.approx(state["centre"])


def test_first_look_follows_the_size_until_the_view_is_moved(qtbot: QtBot) -> None:
    """A graph that arrives before the window has its size is still seen from its beginning."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.set_graph(transformer(60))
    canvas.resize(900, 600)
    canvas.show()
    settle(qtbot, canvas)
    assert canvas.rect().contains(spot(canvas, "input_ids"))
    canvas.zoom_by(0.5)
    scale = canvas.camera.scale
    canvas.resize(800, 500)
    assert canvas.camera.scale == scale


def test_hover_shows_the_shape(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Over an edge its shape is known; leaving takes the mark away."""
    assert canvas.scene
    layout = canvas.scene.layout
    points = layout.points[layout.starts[0] : layout.starts[1]]
    canvas.camera.scale = 1.0
    canvas.centre(*points[:2].mean(axis=0).tolist())
    settle(qtbot, canvas)
    canvas.hover(QPointF(*canvas.camera.to_screen(*points[:2].mean(axis=0).tolist())))
    assert canvas.marks.hover_edge is not None
    assert canvas.scene.shape(canvas.marks.hover_edge) == "batch × seq × 128"
    QApplication.sendEvent(canvas, QEvent(QEvent.Type.Leave))
    assert canvas.marks.hover_edge is None


def test_fit_twice_shows_the_beginning(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """First all of it; where that is too small to read, then its beginning, and all again."""
    canvas.fit()
    small = canvas.camera.scale
    assert canvas.scene and small < 0.6 and canvas.seen().contains(QRectF(*canvas.scene.area))
    canvas.fit()
    assert canvas.camera.scale >= 0.6 and canvas.rect().contains(spot(canvas, "input_ids"))
    canvas.fit()
    assert canvas.camera.scale == small
