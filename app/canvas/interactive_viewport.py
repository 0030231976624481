"""Mouse, wheel and keyboard input of the canvas, translated into gestures and calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.canvas import keyboard_navigation
from espalier.app.canvas.fold_card import OPEN_ALL
from espalier.app.canvas.gestures import Gesture, Pan, RubberBand
from espalier.app.canvas.scene import Hit, bar_area
from espalier.app.canvas.scene_painter import DETAIL_FROM
from espalier.app.canvas.tips import tip
from espalier.app.canvas.viewport import Viewport
from espalier.app.canvas.wires import DrawWire, Wire, grabbed, handle_near, wire_from
from espalier.app.theme import Palette

_ADD = Qt.KeyboardModifier.ControlModifier
_BAND = Qt.KeyboardModifier.ShiftModifier
STEP = 1.25


class InteractiveViewport(Viewport):
    """A viewport with input handling; subclasses implement selection and groups."""

    DIRECTIONS: ClassVar[dict[Qt.Key, keyboard_navigation.Direction]] = {
        Qt.Key.Key_Left: "left",
        Qt.Key.Key_Right: "right",
        Qt.Key.Key_Up: "up",
        Qt.Key.Key_Down: "down",
    }

    def __init__(self, parent: QWidget | None, palette: Palette) -> None:
        super().__init__(parent, palette)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self._gesture: Gesture | None = None
        self.wire_takers: Callable[[str], Collection[str]] | None = None  # which nodes can take a node's result

    # ---- to be implemented

    def selection(self) -> tuple[str, ...]:
        """Ids of the selected nodes."""
        raise NotImplementedError

    def select(self, ids: Iterable[str], reveal: bool = False) -> None:
        """Select nodes."""
        raise NotImplementedError

    def select_numbers(self, numbers: np.ndarray, add: bool) -> None:
        """Select nodes by their number in the hierarchy; `add`: keep the present selection."""
        raise NotImplementedError

    def members(self, hit: Hit) -> list[str]:
        """Ids of the nodes that a hit stands for."""
        raise NotImplementedError

    def toggle(self, place: int) -> None:
        """Expand or collapse the group at an index of the layout."""
        raise NotImplementedError

    def unfold(self, hit: Hit) -> None:
        """Expand the group of a bar of a fold, or all its groups, or collapse those of its chain."""
        raise NotImplementedError

    def activate(self, node: str) -> None:
        """Called when a node is double-clicked or activated by Return."""
        raise NotImplementedError

    # ---- called by gestures

    def hit(self, spot: QPointF) -> Hit | None:
        """The object at a pixel."""
        return self.scene.hit(*self.camera.to_canvas(spot.x(), spot.y())) if self.scene else None

    def click(self, spot: QPointF, add: bool) -> None:
        """Select the object at a pixel; on a triangle, expand or collapse its group."""
        hit = self.hit(spot)
        if hit and hit.triangle and not add:
            self.toggle(hit.place)
            return
        if hit and (hit.bar >= 0 or hit.link) and not add:
            self.unfold(hit)
            return
        header = hit is not None and (hit.kind != "group" or self.on_header(hit, spot))
        nodes = self.members(hit) if hit and header else []
        if not add:
            self.select(nodes, reveal=hit is not None and hit.kind == "stub")
        elif nodes:
            selection = self.selection()
            removed = set(nodes) if set(nodes) <= set(selection) else set()
            self.select([i for i in selection if i not in removed] + ([] if removed else nodes))

    def on_header(self, hit: Hit, spot: QPointF) -> bool:
        """Whether a hit on a group is on a collapsed one or on the header of an expanded one."""
        assert self.scene is not None
        if not self.scene.layout.group_open[hit.place]:
            return True
        y = self.camera.to_canvas(spot.x(), spot.y())[1]
        return bool(y - self.scene.layout.group_rects[hit.place, 1] <= 34)

    def show_band(self, band: QRectF | None) -> None:
        """Show or hide the rubber band."""
        self.marks.band = band
        self.update()

    def select_band(self, band: QRectF, add: bool) -> None:
        """Select the nodes that a band touches, and all nodes of collapsed groups that it touches."""
        if self.scene is None:
            return
        x, y = self.camera.to_canvas(band.x(), band.y())
        area = (x, y, band.width() / self.camera.scale, band.height() / self.camera.scale)
        self.select_numbers(self.scene.shown_in(area), add)

    # ---- events

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        add = bool(event.modifiers() & _ADD)
        spot = event.position()
        self.cancel_gesture()
        if event.button() == Qt.MouseButton.LeftButton:
            kind = RubberBand if event.modifiers() & _BAND else Pan
            self._gesture = self.gesture_at(spot) if kind is Pan and not add else None
            self._gesture = self._gesture or kind(self, spot, add)
        elif event.button() == Qt.MouseButton.MiddleButton:
            self._gesture = Pan(self, spot)

    def gesture_at(self, spot: QPointF) -> Gesture | None:
        """The gesture that begins where the pointer is pressed: a wire from the node whose handle is there."""
        place = grabbed(self.scene, self.camera, spot) if self.scene is not None and self.wire_takers else -1
        if self.scene is None or self.wire_takers is None or place < 0:
            return None
        source = self.scene.layout.tree.ids[int(self.scene.layout.nodes[place])]
        return DrawWire(self, spot, wire_from(self.scene, place, self.wire_takers(source)))

    def cancel_gesture(self) -> None:
        """End what the pointer is doing, as if it had not begun."""
        gesture, self._gesture = self._gesture, None
        if gesture is not None:
            gesture.cancel()

    def show_wire(self, wire: Wire | None) -> None:
        """Show or take away the wire that is being drawn."""
        self.marks.wire = wire
        self.update()

    def connect_wire(self, source: str, target: str, spot: QPointF) -> None:
        """A wire was dropped on a node."""
        raise NotImplementedError

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._gesture is not None:
            self._gesture.move(event.position())
        else:
            self.hover(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        gesture, self._gesture = self._gesture, None
        if gesture is not None:
            gesture.end(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        hit = self.hit(event.position())
        if hit is None or event.button() != Qt.MouseButton.LeftButton:
            return
        if hit.kind == "node":
            self.activate(self.members(hit)[0])
        elif hit.kind == "group" and not hit.triangle and self.on_header(hit, event.position()):
            self.toggle(hit.place)
        elif hit.kind == "fold" and hit.bar < 0 and not hit.link:
            self.unfold(replace(hit, link=OPEN_ALL))

    def hover(self, spot: QPointF) -> None:
        """Highlight the object under the pointer; an edge shows its shape."""
        if self.scene is None:
            return
        hit = self.hit(spot)
        rect = edge = None
        if hit and hit.bar >= 0:
            rect = bar_area(self.scene.layout, hit.place, hit.bar)
        shared = self.scene.sources_at(hit) if hit else ()
        if hit and hit.kind == "node":
            rect = tuple(self.scene.layout.node_rects[hit.place].tolist())
        elif len(shared) == 1:
            rect = self.scene.rect_of(shared[0])
        elif self.camera.scale >= DETAIL_FROM and (
            hit is None or (hit.kind == "group" and self.scene.layout.group_open[hit.place])
        ):
            edge = self.scene.edge_at(*self.camera.to_canvas(spot.x(), spot.y()), 5 / self.camera.scale)
        ends = self.scene.ends_of(shared)
        handle, grab = handle_near(self.scene, self.camera, spot, hit) if self.wire_takers else (None, False)
        if grab:  # what the pointer would grab is not hidden by the edge's shape
            edge = None
        changed = (rect, edge, handle) != (self.marks.hover, self.marks.hover_edge, self.marks.handle)
        changed |= not np.array_equal(ends, self.marks.hover_stubs)
        self.marks.hover, self.marks.hover_edge, self.marks.spot = rect, edge, spot
        self.marks.hover_stubs, self.marks.handle = ends, handle
        link = hit is not None and (hit.bar >= 0 or bool(hit.link))
        shape = Qt.CursorShape.PointingHandCursor if link else Qt.CursorShape.ArrowCursor
        self.setCursor(Qt.CursorShape.CrossCursor if grab else shape)
        if changed:
            self.update()

    def leaveEvent(self, event: QEvent) -> None:
        self.marks.hover = self.marks.hover_edge = self.marks.handle = None
        self.marks.hover_stubs = self.marks.hover_stubs[:0]
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        pixels, turned = event.pixelDelta(), event.angleDelta()
        if not pixels.isNull() and not event.modifiers() & _ADD:
            self.camera.pan(pixels.x(), pixels.y())
            self.moved()
        else:
            amount = pixels.y() / 200 if not pixels.isNull() else turned.y() / 480
            self.zoom_at(2.0**amount, event.position())
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in self.DIRECTIONS:
            self._navigate(self.DIRECTIONS[key], bool(event.modifiers() & _BAND))
        elif key == Qt.Key.Key_Escape:
            self._escape()
        elif key == Qt.Key.Key_A and event.modifiers() & _ADD:
            self.select_numbers(np.arange(len(self.scene.cover) if self.scene else 0), False)
        elif key == Qt.Key.Key_F and not event.modifiers():
            self.fit()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Minus):
            self.zoom_by(1 / STEP if key == Qt.Key.Key_Minus else STEP)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.selection():
            self.activate(self.selection()[-1])
        else:
            super().keyPressEvent(event)

    def _escape(self) -> None:
        gesture, self._gesture = self._gesture, None
        if gesture is not None:
            gesture.cancel()
        else:
            self.select(())

    def _navigate(self, direction: keyboard_navigation.Direction, add: bool) -> None:
        if self.scene is None:
            return
        selection = self.selection()
        nodes = keyboard_navigation.step(self.scene, selection[-1] if selection else None, direction)
        if nodes:
            self.select([*(i for i in selection if i not in set(nodes)), *nodes] if add else nodes)
            self.bring(self.scene.layout.tree.index[nodes[0]])

    def event(self, event: QEvent) -> bool:
        """Show tool tips, which Qt requests by an event."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.note_at(QPointF(event.pos())), self)
            return True
        return super().event(event)

    def note_at(self, spot: QPointF) -> str:
        """The tool tip of a pixel: a node's name, adapter and problem, or the sources of a shared tensor."""
        hit = self.hit(spot)
        return tip(self.scene, hit) if self.scene is not None and hit is not None else ""
