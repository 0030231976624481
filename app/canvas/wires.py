"""Wires that a person draws: from the output of a node to a node that can take it. Also: whose an edge is."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath

from espalier.app.canvas.camera import Area, Camera
from espalier.app.canvas.gestures import Gesture, GestureTarget
from espalier.app.canvas.primitives import pen
from espalier.app.canvas.scene import Hit, Scene
from espalier.app.canvas.sprites import NAMES_FROM
from espalier.app.theme import RADIUS, Palette

HANDLE = 5.0  # radius in canvas units
REACH = 9.0  # pixels around a handle that grab it
NOTE_WIDTH, NOTE_LINES = 80, 12  # characters and lines of a note in a tool tip


@dataclass(frozen=True, slots=True)
class Edge:
    """Whose an edge is, by node id. `user` is empty where the edge ends at a closed group or is shared by several."""

    source: str
    output: int
    user: str


@dataclass(slots=True)
class Wire:
    """A wire that is being drawn: from a node, in canvas units, to the pointer. `ends`: places of what can take it."""

    source: str
    start: tuple[float, float]
    ends: np.ndarray
    spot: tuple[float, float]
    target: int = -1  # the place below the pointer, if it is one of `ends`


class WireTarget(GestureTarget, Protocol):
    """A canvas on which wires can be drawn."""

    scene: Scene | None

    def show_wire(self, wire: Wire | None) -> None:
        """Show or take away the wire."""
        ...

    def connect_wire(self, source: str, target: str, spot: QPointF) -> None:
        """The wire was dropped on a node that can take it."""
        ...


class DrawWire(Gesture):
    """Draws a wire from a node; ends where it is released over a node that can take it."""

    target: WireTarget

    def __init__(self, target: WireTarget, start: QPointF, wire: Wire) -> None:
        super().__init__(target, start)
        self.wire = wire
        target.show_wire(wire)

    def move(self, spot: QPointF) -> None:
        """Follow the pointer."""
        scene = self.target.scene
        if scene is None:
            return
        self.wire.spot = self.target.camera.to_canvas(spot.x(), spot.y())
        hit = scene.hit(*self.wire.spot)
        held = hit is not None and hit.kind == "node" and bool(np.isin(hit.place, self.wire.ends))
        self.wire.target = hit.place if hit is not None and held else -1
        self.target.show_wire(self.wire)

    def end(self, spot: QPointF) -> None:
        """Connect, or nothing."""
        self.move(spot)
        self.target.show_wire(None)
        scene, place = self.target.scene, self.wire.target
        if scene is not None and place >= 0:
            self.target.connect_wire(self.wire.source, scene.layout.tree.ids[int(scene.layout.nodes[place])], spot)

    def cancel(self) -> None:
        """Take the wire away."""
        self.target.show_wire(None)


def handle_of(rect: Area, horizontal: bool) -> tuple[float, float]:
    """Where a wire begins: the middle of the side that results leave a node by."""
    x, y, w, h = rect
    return (x + w, y + h / 2) if horizontal else (x + w / 2, y + h)


def grabbed(scene: Scene, camera: Camera, spot: QPointF) -> int:
    """The place of the node whose handle is at a pixel, -1 for none; handles are there where names can be read."""
    if camera.scale < NAMES_FROM:
        return -1
    x, y = camera.to_canvas(spot.x(), spot.y())
    reach = REACH / camera.scale
    for place in scene.nodes_in((x - reach, y - reach, 2 * reach, 2 * reach)).tolist():
        hx, hy = handle_of(tuple(scene.layout.node_rects[place].tolist()), scene.layout.horizontal)
        if (hx - x) ** 2 + (hy - y) ** 2 <= reach**2:
            return int(place)
    return -1


def handle_near(
    scene: Scene, camera: Camera, spot: QPointF, hit: Hit | None
) -> tuple[tuple[float, float] | None, bool]:
    """The handle to show while the pointer is at a pixel, and whether pressing there grabs it."""
    place = grabbed(scene, camera, spot)
    grabs = place >= 0
    if not grabs and hit is not None and hit.kind == "node" and camera.scale >= NAMES_FROM:
        place = hit.place
    if place < 0:
        return None, False
    return handle_of(tuple(scene.layout.node_rects[place].tolist()), scene.layout.horizontal), grabs


def wire_from(scene: Scene, place: int, takers: Collection[str]) -> Wire:
    """A wire from the node at a place, which the nodes `takers` can take."""
    layout = scene.layout
    start = handle_of(tuple(layout.node_rects[place].tolist()), layout.horizontal)
    index = layout.tree.index
    numbers = np.array(sorted(index[i] for i in takers if i in index), np.int64)
    return Wire(layout.tree.ids[int(layout.nodes[place])], start, np.flatnonzero(np.isin(layout.nodes, numbers)), start)


def edge_of(scene: Scene, number: int) -> Edge:
    """Whose an edge of the layout is."""
    layout = scene.layout
    source, output = layout.tensors[number].tolist()
    user = ""
    if layout.arrows[number]:
        x, y = layout.points[layout.starts[number + 1] - 1].tolist()
        along = (1.0, 0.0) if layout.horizontal else (0.0, 1.0)
        found = scene.nodes_in((x + along[0], y + along[1], 0.0, 0.0))
        user = layout.tree.ids[int(layout.nodes[found[0]])] if len(found) else ""
    return Edge(layout.tree.ids[source], output, user)


def wrapped(note: str) -> str:
    """A note as a tool tip shows it: its first lines, none wider than the screen."""
    lines = [part for line in note.splitlines() for part in textwrap.wrap(line, NOTE_WIDTH) or [""]]
    return "\n".join([*lines[:NOTE_LINES], "…"] if len(lines) > NOTE_LINES else lines)


def paint_wire(painter: QPainter, scene: Scene, wire: Wire, palette: Palette) -> None:
    """The wire, and the nodes that can take it; the painter maps canvas units."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for place in wire.ends.tolist():
        painter.setPen(pen(palette.accent if place == wire.target else palette.good, 2.4))
        rect = QRectF(*scene.layout.node_rects[place].tolist()).adjusted(-2, -2, 2, 2)
        painter.drawRoundedRect(rect, RADIUS + 2, RADIUS + 2)
    (x0, y0), (x1, y1) = wire.start, wire.spot
    path = QPainterPath(QPointF(x0, y0))
    if scene.layout.horizontal:
        path.cubicTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1)
    else:
        path.cubicTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1)
    painter.setPen(pen(palette.accent, 2.0))
    painter.drawPath(path)
    paint_handle(painter, wire.spot, palette)


def paint_handle(painter: QPainter, spot: tuple[float, float], palette: Palette) -> None:
    """The round end of a wire."""
    painter.setPen(pen(palette.accent, 1.4))
    painter.setBrush(QColor(palette.panel))
    painter.drawEllipse(QPointF(*spot), HANDLE, HANDLE)
    painter.setBrush(Qt.BrushStyle.NoBrush)
