"""Where the canvas looks: pan, zoom, the first look, cards, and what is remembered. Offscreen."""

from __future__ import annotations

import json

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import LAYER, LINEAR, drag, settle, spot, wheel

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
    canvas.close_group(LAYER)
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
    here = canvas.camera.y
    canvas.resize(900, 300)
    assert canvas.camera.y == here, "once it was moved by hand it stays"


def test_cards(canvas: GraphCanvas, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breadcrumb and direction are pressed; the overview moves the view; all have names for screen readers."""
    overlay_cards = canvas.card_overlay
    assert all(card.accessibleName() for card in overlay_cards.cards)
    canvas.reveal(LINEAR)
    canvas.show_path()
    texts = [p[0] for p in overlay_cards.breadcrumb.pieces]
    assert texts[0] == "model"
    scale = canvas.camera.scale
    overlay_cards.breadcrumb.pressed.emit(0)
    assert canvas.camera.scale < scale
    overlay_cards.colour_by.pressed.emit(3)
    settle(qtbot, canvas)
    assert canvas.horizontal
    x = canvas.camera.x
    qtbot.mouseClick(overlay_cards.minimap, Qt.MouseButton.LeftButton, pos=QPoint(140, 49))
    assert canvas.camera.x != x


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


def test_first_look_keeps_clear_of_the_cards(qtbot: QtBot) -> None:
    """At any size: the graph begins below the upper cards; the overview covers no node, or gives way."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.show()
    for horizontal in (False, True):
        for width, height in ((1400, 800), (900, 600), (600, 400), (420, 300), (240, 160)):
            canvas.resize(width, height)
            canvas.set_graph(None)
            canvas.set_graph(transformer(400))
            canvas.set_horizontal(horizontal)
            settle(qtbot, canvas)
            assert canvas.scene
            overlay_cards, rects = canvas.card_overlay, canvas.scene.layout.node_rects
            boxes = [QRectF(*canvas.camera.to_screen(x, y), w * canvas.camera.scale, h * canvas.camera.scale)
                     for x, y, w, h in rects.tolist()]  # fmt: skip
            seen = [b for b in boxes if b.intersects(QRectF(canvas.rect()))]
            assert seen and canvas.camera.scale >= 0.6
            if not horizontal:
                assert all(b.top() >= overlay_cards.colour_by.geometry().bottom() for b in seen)
                if overlay_cards.minimap.isVisible():
                    assert not any(b.intersects(QRectF(overlay_cards.minimap.geometry())) for b in seen)
            shown = [c.geometry() for c in overlay_cards.cards if c.isVisible()]
            assert not any(a.intersects(b) for k, a in enumerate(shown) for b in shown[k + 1 :])
            assert all(canvas.rect().contains(g) for g in shown)


def test_overview_gives_way_when_all_is_seen(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """It is there while something is out of view; its shape is that of the graph."""
    settle(qtbot, canvas)
    assert canvas.card_overlay.minimap.isVisible() and canvas.scene
    tall = canvas.card_overlay.minimap.size()
    assert tall.height() > 2 * tall.width()
    canvas.fit()
    settle(qtbot, canvas)
    assert not canvas.card_overlay.minimap.isVisible()
    canvas.zoom_by(4)
    settle(qtbot, canvas)
    assert canvas.card_overlay.minimap.isVisible()
    canvas.set_horizontal(True)
    settle(qtbot, canvas)
    assert canvas.card_overlay.minimap.width() > canvas.card_overlay.minimap.height()


def test_fit_twice_shows_the_beginning(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """First all of it; where that is too small to read, then its beginning, and all again."""
    canvas.fit()
    small = canvas.camera.scale
    assert canvas.scene and small < 0.6 and canvas.seen().contains(QRectF(*canvas.scene.area))
    canvas.fit()
    assert canvas.camera.scale >= 0.6 and canvas.rect().contains(spot(canvas, "input_ids"))
    canvas.fit()
    assert canvas.camera.scale == small


def test_the_trail_keeps_its_end(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """In a narrow window the breadcrumb drops its beginning, and its links still lead where they say."""
    canvas.open_all()
    settle(qtbot, canvas)
    canvas.select([LINEAR])
    crumbs = canvas.card_overlay.breadcrumb
    texts = [p[0] for p in crumbs.pieces if p[2]]
    assert texts == ["model", "model", "layers.0", "attention"]
    canvas.resize(490, 600)
    texts = [p[0] for p in crumbs.pieces if p[2]]
    assert crumbs.isVisible() and crumbs.pieces[0][0] == "… › " and 1 <= len(texts) < 4 and texts[-1] == "attention"
    with qtbot.waitSignal(canvas.card_overlay.group_wanted) as told:
        crumbs.pressed.emit(len(crumbs.pieces) - 1)
    assert canvas.scene and canvas.scene.layout.tree.groups[told.args[0]].label == "attention"
