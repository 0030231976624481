"""Boxes that are dragged: lifted from the scene, painted above it with their edges, and put down elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainter

from espalier.app.canvas.arranging import pin_of, pinned
from espalier.app.canvas.box_index import Indices
from espalier.app.canvas.boxes import Item
from espalier.app.canvas.camera import Area
from espalier.app.canvas.gestures import SLACK, Gesture, GestureTarget
from espalier.app.canvas.movement import Movement, Rects, rect_of, tags_of
from espalier.app.canvas.primitives import draw_arrowheads, pen, route_path
from espalier.app.canvas.scene import Lifted, Scene
from espalier.app.canvas.scene_painter import ScenePainter
from espalier.app.theme import EDGE_WIDTH
from espalier.model.document.arrangement import Pin


@dataclass(slots=True)
class Moving:
    """Items of a scene that are being dragged by `shift` (dx, dy) in canvas units."""

    scene: Scene
    items: Sequence[Item]
    shift: tuple[float, float] = (0.0, 0.0)
    boxes: dict[str, Indices] = field(init=False)
    edges: list[int] = field(init=False)
    _movement: Movement = field(init=False)
    _corners: Rects = field(init=False)  # of all moved and pinned items, before

    def __post_init__(self) -> None:
        base = self.scene.base or self.scene.layout
        others = {i: xy for i, xy in pinned(base, self.scene.arrangement).items() if i not in self.items}
        self._movement = Movement(self.scene.edge_index(), [*self.items, *others])
        own = [rect_of(self.scene.layout, item)[:2] for item in self.items]
        self._corners = np.array([*own, *others.values()]).reshape(-1, 2)
        self.edges = self._movement.changed(range(len(self.items)))
        self.boxes = {kind: np.array([i.place for i in self.items if i.kind == kind], np.int64)
                      for kind in ("node", "group", "fold")}  # fmt: skip
        tags = [tags_of(self.scene.layout, item) for item in self.items]
        self.boxes["stub"] = np.concatenate([np.zeros(0, np.int64), *tags])

    def corners(self) -> Rects:
        """Where the items are now."""
        return self._corners[: len(self.items)] + self.shift

    def routes(self) -> dict[int, Rects]:
        """The routes of the edges that follow."""
        corners = self._corners.copy()
        corners[: len(self.items)] += self.shift
        return self._movement.routes(corners, self.edges)

    def lifted(self) -> Lifted:
        """What the scene does not paint meanwhile."""
        layout = self.scene.layout
        counts = (len(layout.nodes), len(layout.groups), len(layout.folds), len(layout.stubs), len(layout.starts) - 1)
        masks = [np.zeros(n, bool) for n in counts]
        chosen = (*(self.boxes[k] for k in ("node", "group", "fold", "stub")), self.edges)
        for mask, numbers in zip(masks, chosen, strict=True):
            mask[numbers] = True
        return Lifted(*masks)

    def areas(self) -> list[Area]:
        """The areas that the items and their edges leave."""
        layout = self.scene.layout
        boxes = [tuple(rect_of(layout, item).tolist()) for item in self.items]
        edges = self.scene.edge_box[self.edges]
        edges = np.hstack([edges[:, :2], edges[:, 2:] - edges[:, :2]]).tolist()
        return [*boxes, *(tuple(row) for row in edges)]

    def pins(self) -> tuple[Pin, ...]:
        """The pins that keep the items where they are now."""
        base = self.scene.base or self.scene.layout
        return tuple(pin_of(base, i, x, y) for i, (x, y) in zip(self.items, self.corners().tolist(), strict=True))


class MoveTarget(GestureTarget, Protocol):
    """A canvas whose boxes can be dragged."""

    def lift(self, items: Sequence[Item]) -> None:
        """Take boxes out of the scene."""
        ...

    def drag(self, dx: float, dy: float) -> None:
        """Show the lifted boxes elsewhere."""
        ...

    def put_down(self, keep: bool) -> None:
        """Leave the boxes where they are shown, or put them back."""
        ...


class Move(Gesture):
    """Drags boxes; without a movement it is a click."""

    target: MoveTarget

    def __init__(self, target: MoveTarget, start: QPointF, items: Sequence[Item]) -> None:
        super().__init__(target, start)
        self.items, self.lifted = items, False

    def move(self, spot: QPointF) -> None:
        """Drag, once the pointer has moved by SLACK."""
        way = spot - self.start
        if not self.lifted:
            if way.manhattanLength() < SLACK:
                return
            self.lifted = True
            self.target.lift(self.items)
        scale = self.target.camera.scale
        self.target.drag(way.x() / scale, way.y() / scale)

    def end(self, spot: QPointF) -> None:
        """Put the boxes down; click if the pointer has not moved."""
        if self.lifted:
            self.move(spot)
            self.target.put_down(True)
        else:
            self.target.click(self.start, False)

    def cancel(self) -> None:
        """Put the boxes back."""
        if self.lifted:
            self.target.put_down(False)


def paint_moving(painter: QPainter, scene: Scene, kit: ScenePainter, moving: Moving, scale: float) -> None:
    """Paint the boxes that are dragged and the edges that follow; the painter maps canvas units."""
    horizontal = scene.layout.horizontal
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(pen(kit.palette.edge, EDGE_WIDTH))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    routes = moving.routes()
    for route in routes.values():
        painter.drawPath(route_path(route, horizontal))
    tips = [route[-1] for edge, route in routes.items() if scene.layout.arrows[edge]]
    draw_arrowheads(painter, np.array(tips).reshape(-1, 2), horizontal)
    painter.save()
    painter.translate(*moving.shift)
    kit.paint_boxes(painter, scene, moving.boxes, scale)
    painter.restore()
