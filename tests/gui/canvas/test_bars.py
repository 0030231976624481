"""The bars above and below the canvas: they take their own room, and keep what matters when narrow. Offscreen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from espalier.app.canvas.bars import ABOVE, BELOW, CanvasFrame
from espalier.app.canvas.colouring import Legend
from espalier.app.canvas.view import GraphCanvas
from espalier.app.widgets.drag_handle import DragHandle
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import LINEAR, settle, spot

pytestmark = pytest.mark.gui


@pytest.fixture
def frame(qtbot: QtBot) -> CanvasFrame:
    """A canvas between its bars, 900 × 700, with a transformer."""
    canvas = GraphCanvas()
    made = CanvasFrame(canvas, canvas.bars)
    qtbot.addWidget(made)
    made.resize(900, 700)
    made.show()
    canvas.set_graph(transformer(60))
    settle(qtbot, canvas)
    return made


def canvas_of(frame: CanvasFrame) -> GraphCanvas:
    """The canvas of a frame."""
    assert isinstance(frame.canvas, GraphCanvas)
    return frame.canvas


def test_bars_take_their_own_room(frame: CanvasFrame, qtbot: QtBot) -> None:
    """At any size and flow nothing lies on the canvas, and the parts of a bar do not overlap or leave it."""
    canvas = canvas_of(frame)
    bars = canvas.bars
    for width, height in ((1400, 800), (900, 600), (600, 400), (420, 300), (240, 260)):
        frame.resize(width, height)
        settle(qtbot, canvas)
        assert canvas.size().height() == height - ABOVE - BELOW and canvas.width() == width
        inside = [c for c in canvas.children() if isinstance(c, QWidget) and c.isVisible()]
        assert all(isinstance(c, DragHandle) for c in inside)
        for bar, parts in ((bars.above, bars.cards[:3]), (bars.below, bars.cards[3:])):
            shown = [c.geometry() for c in parts if c.isVisible()]
            assert all(bar.rect().contains(g) for g in shown), (width, shown)
            assert not any(a.intersects(b) for k, a in enumerate(shown) for b in shown[k + 1 :])
            assert shown


def test_parts_are_pressed(frame: CanvasFrame, qtbot: QtBot) -> None:
    """Breadcrumb, flow, fit and minimap act; all have names for screen readers; the zoom is written."""
    canvas = canvas_of(frame)
    bars = canvas.bars
    assert all(card.accessibleName() for card in bars.cards)
    canvas.reveal(LINEAR)
    settle(qtbot, canvas)
    assert bars.breadcrumb.pieces[0][0] == "model"
    scale = canvas.camera.scale
    bars.breadcrumb.pressed.emit(0)
    assert canvas.camera.scale < scale
    canvas.zoom_by(3)
    bars.zoom.pressed.emit(0)
    assert canvas.seen().contains(QRectF(*canvas.scene.area))  # type: ignore[union-attr]
    settle(qtbot, canvas)
    assert bars.zoom.pieces[1][0].strip().startswith(f"{100 * canvas.camera.scale:.0f}")
    bars.colour_by.pressed.emit(3)
    settle(qtbot, canvas)
    assert canvas.horizontal and bars.colour_by.pieces[3][0] == "right"
    x = canvas.camera.x
    qtbot.mouseClick(bars.minimap, Qt.MouseButton.LeftButton, pos=QPoint(140, 20))
    assert canvas.camera.x != x


def test_shape_operations_have_a_switch(frame: CanvasFrame, qtbot: QtBot) -> None:
    """Their number, then all of them drawn; kept with the view; revealing a hidden one shows them."""
    canvas = canvas_of(frame)
    assert canvas.scene and canvas.graph
    hidden = [canvas.scene.layout.tree.ids[i] for i in canvas.scene.layout.tree.through]
    assert canvas.bars.shapes.isVisible() and canvas.bars.shapes.pieces[0][0].startswith(f"{len(hidden)} shape ops")
    canvas.bars.shapes.pressed.emit(1)
    settle(qtbot, canvas)
    assert not canvas.scene.layout.tree.through and canvas.bars.shapes.pieces[1][0] == "hide"
    assert canvas.view_state()["shapes"]
    canvas.bars.shapes.pressed.emit(1)
    settle(qtbot, canvas)
    assert canvas.scene.layout.tree.through
    canvas.select(hidden[:1], reveal=True)
    settle(qtbot, canvas)
    assert canvas.show_shapes and canvas.rect().contains(spot(canvas, hidden[0]))


def test_the_legend_takes_two_rows_and_tells_the_rest(frame: CanvasFrame) -> None:
    """In a narrow bar its entries wrap; what does not fit is in the tool tip."""
    legend = canvas_of(frame).bars.legend
    swatches = tuple((f"kind {k}", "#112233") for k in range(9))
    legend.set_legend(Legend("kind", swatches), False, True)
    legend.set_room(1200)
    one = legend.height()
    assert not legend.toolTip() and legend.width() <= 1200
    legend.set_room(500)
    assert legend.height() == 2 * one and not legend.toolTip() and legend.width() <= 500
    legend.set_room(200)
    assert legend.toolTip() == "kind: " + ", ".join(f"kind {k}" for k in range(9)) + ", differs"
    assert legend.height() <= BELOW and legend.width() <= 200


def test_the_trail_keeps_its_end(frame: CanvasFrame, qtbot: QtBot) -> None:
    """In a narrow window the breadcrumb drops its beginning, and its links still lead where they say."""
    canvas = canvas_of(frame)
    canvas.open_all()
    settle(qtbot, canvas)
    canvas.select([LINEAR])
    crumbs = canvas.bars.breadcrumb
    texts = [p[0] for p in crumbs.pieces if p[2]]
    assert texts == ["model", "model", "layers.0", "attention"]
    frame.resize(440, 600)
    texts = [p[0] for p in crumbs.pieces if p[2]]
    assert crumbs.isVisible() and crumbs.pieces[0][0] == "… › " and 1 <= len(texts) < 4 and texts[-1] == "attention"
    with qtbot.waitSignal(canvas.bars.group_wanted) as told:
        crumbs.pressed.emit(len(crumbs.pieces) - 1)
    assert canvas.scene and canvas.scene.layout.tree.groups[told.args[0]].label == "attention"
