"""What the tests of the canvas do again and again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.canvas.fold_card import slots
from espalier.app.canvas.view import GraphCanvas
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision

LAYER = "model.layers.0"
LINEAR = "model_layers_0_attention_query"


def settle(qtbot: QtBot, canvas: GraphCanvas) -> None:
    """Wait for layout and painting: until a repaint leaves no tile over, which a busy machine makes it do."""

    def settled() -> bool:
        if canvas._layout_worker.busy or canvas._rest_timer.isActive() or canvas._repaint_timer.isActive():
            return False
        canvas.repaint()
        return not canvas._repaint_timer.isActive()

    canvas.repaint()
    qtbot.waitUntil(settled, timeout=15_000)


def spot(canvas: GraphCanvas, node: str) -> QPoint:
    """The pixel in the middle of a node."""
    assert canvas.scene
    rect = canvas.scene.rect_of(canvas.scene.layout.tree.index[node])
    assert rect
    x, y = canvas.camera.to_screen(rect[0] + rect[2] / 2, rect[1] + rect[3] / 2)
    return QPoint(round(x), round(y))


def head(canvas: GraphCanvas, path: str, dx: float = 40.0) -> QPoint:
    """A pixel on the head of a group."""
    assert canvas.scene
    tree = canvas.scene.layout.tree
    x, y, _, _ = canvas.scene.layout.group_rects[canvas.scene.group_place[tree.group_of(path)]]
    a, b = canvas.camera.to_screen(x + dx, y + 15)
    return QPoint(round(a), round(b))


def drag(canvas: GraphCanvas, start: QPoint, end: QPoint, modifier: Qt.KeyboardModifier) -> None:
    """Press, move, release."""
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    for kind, at, button in (
        (QEvent.Type.MouseButtonPress, start, left),
        (QEvent.Type.MouseMove, (start + end) / 2, none),
        (QEvent.Type.MouseMove, end, none),
        (QEvent.Type.MouseButtonRelease, end, left),
    ):
        place = QPointF(at)
        QApplication.sendEvent(canvas, QMouseEvent(kind, place, canvas.mapToGlobal(place), button, left, modifier))


def pixels(image: QImage) -> np.ndarray:
    """The picture as an array of rows."""
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), image.width()).copy()


def with_precision(graph: Graph, node: str) -> Graph:
    """The graph with int 4/2 weights in one node."""
    return graph.replace(replace(graph[node], precision={"weight": Precision(Integer(4, 2))}))


def wheel(canvas: GraphCanvas, at: QPointF, pixels: QPoint, angle: QPoint, modifier: Qt.KeyboardModifier) -> None:
    """One turn of the wheel, or a stroke on a touchpad."""
    event = QWheelEvent(
        at,
        canvas.mapToGlobal(at),
        pixels,
        angle,
        Qt.MouseButton.NoButton,
        modifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, event)


def draw_on(canvas: GraphCanvas, picture: QImage) -> None:
    """Paint the canvas's tiles onto a picture of another pixel ratio."""
    from PySide6.QtCore import QSizeF
    from PySide6.QtGui import QPainter

    painter = QPainter(picture)
    assert canvas.scene
    canvas.tiles.show(painter, canvas.scene, canvas.camera, QSizeF(canvas.size()), False)
    painter.end()


def on_card(canvas: GraphCanvas, place: int, x: float, y: float) -> QPoint:
    """A pixel on the card of a fold, from its corner in canvas units."""
    assert canvas.scene
    left, top = canvas.scene.layout.fold_rects[place, :2].tolist()
    a, b = canvas.camera.to_screen(left + x, top + y)
    return QPoint(round(a), round(b))


def on_bar(canvas: GraphCanvas, place: int, bar: int) -> QPoint:
    """A pixel on a bar of a fold."""
    assert canvas.scene
    x, y, w, h = slots(len(canvas.scene.layout.folds[place].members))[bar].tolist()
    return on_card(canvas, place, x + w / 2, y + h / 2)
