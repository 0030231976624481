"""Arranging by hand on the canvas: boxes that are dragged and pinned, frames that are clicked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, Signal

from espalier.app.canvas.boxes import Item
from espalier.app.canvas.gestures import Gesture
from espalier.app.canvas.movement import Rects, rect_of
from espalier.app.canvas.moving import Move, Moving
from espalier.app.canvas.overlay import numbers_of
from espalier.app.canvas.scene import Hit
from espalier.app.canvas.sprites import NAMES_FROM
from espalier.app.canvas.transfer_view import TransferView
from espalier.model.document.arrangement import Arrangement


class ArrangedView(TransferView):
    """A view whose boxes can be moved, where `may_move` is set."""

    boxes_moved = Signal(object)  # the pins of the moved boxes, a tuple

    may_move = False

    def gesture_at(self, spot: QPointF) -> Gesture | None:
        """A wire, or else boxes to drag, where their names can be read."""
        gesture = super().gesture_at(spot)
        if gesture is None and self.may_move and self.scene is not None and self.camera.scale >= NAMES_FROM:
            hit = self.hit(spot)
            items = self.items_at(hit) if hit is not None else []
            return Move(self, spot, items) if items else None
        return gesture

    def items_at(self, hit: Hit) -> list[Item]:
        """The boxes that move with the one at a hit: it alone, or the selection that it belongs to."""
        assert self.scene is not None
        if hit.kind == "frame":
            return self.items_of(self.members(hit))
        if hit.kind == "stub" or (hit.kind == "group" and self.scene.layout.group_open[hit.place]):
            return []
        item = Item("fold" if hit.kind == "fold" else "group" if hit.kind == "group" else "node", hit.place)
        chosen = self.items_of(self.selection())
        return chosen if item in chosen else [item]

    def items_of(self, ids: Sequence[str]) -> list[Item]:
        """The boxes that show these nodes and no others."""
        if self.scene is None:
            return []
        scene, layout = self.scene, self.scene.layout
        chosen = np.zeros(len(scene.cover), bool)
        chosen[numbers_of(scene, ids)] = True
        places = np.flatnonzero(chosen[layout.nodes]).tolist()
        hiding = scene.cover[chosen]
        whole = [k for k in np.unique(hiding[hiding >= 0]).tolist() if chosen[scene.cover == k].all()]
        count = len(layout.groups)
        hidden = [Item("group", k) if k < count else Item("fold", k - count) for k in whole]
        return [*(Item("node", k) for k in places), *hidden]

    def rects(self, items: Sequence[Item]) -> Rects:
        """The rectangles of boxes."""
        assert self.scene is not None
        return np.array([rect_of(self.scene.layout, item) for item in items]).reshape(-1, 4)

    # ---- called by the gesture

    def lift(self, items: Sequence[Item]) -> None:
        """Take boxes out of the scene."""
        if self.scene is not None:
            self.marks.moving = moving = Moving(self.scene, items)
            self.marks.hover = self.marks.hover_edge = self.marks.handle = None
            self.scene.lifted = moving.lifted()
            self.repaint_areas(moving.areas())

    def drag(self, dx: float, dy: float) -> None:
        """Show the lifted boxes elsewhere."""
        if self.marks.moving is not None:
            self.marks.moving.shift = (dx, dy)
            self.update()

    def put_down(self, keep: bool) -> None:
        """Leave the boxes where they are shown, or put them back."""
        moving, self.marks.moving = self.marks.moving, None
        if moving is None:
            return
        moving.scene.lifted = None
        self.repaint_areas(moving.areas())
        self.update()
        if keep:
            self.boxes_moved.emit(moving.pins())

    # ---- frames

    @property
    def chosen_frame(self) -> int:
        """The place in the arrangement of the frame whose title was clicked, -1 for none."""
        return self._chosen_frame

    _chosen_frame = -1

    def set_arrangement(self, arrangement: Arrangement) -> None:
        """Show other pins and frames; a chosen frame that is gone is chosen no more."""
        if len(arrangement.frames) < len(self.arrangement.frames):
            self._chosen_frame = -1
        super().set_arrangement(arrangement)

    def mark(self, numbers: np.ndarray | None = None) -> None:
        """Update the marks of the selection and of the chosen frame."""
        super().mark(numbers)
        self.mark_frame()

    def choose_frame(self, number: int) -> None:
        """Mark a frame of the arrangement as chosen; -1: none."""
        self._chosen_frame = number
        self.mark_frame()

    def mark_frame(self) -> None:
        """Outline the chosen frame where the scene has it."""
        frames = self.scene.layout.own_frames if self.scene is not None else ()
        self.marks.frame = next((f.rect for f in frames if f.number == self._chosen_frame), None)
        self.update()

    def click(self, spot: QPointF, add: bool) -> None:
        """Select what is at a pixel; on the title of a frame, the frame and its nodes."""
        super().click(spot, add)
        hit = self.hit(spot)
        if hit is not None and hit.kind == "frame" and not add and self.scene is not None:
            self.choose_frame(self.scene.layout.own_frames[hit.place].number)
