"""Mouse gestures of the canvas, one object each: started, moved, and ended or cancelled."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QPointF, QRectF

from espalier.app.canvas.camera import Camera


class GestureTarget(Protocol):
    """The methods of the canvas that gestures call."""

    camera: Camera

    def click(self, spot: QPointF, add: bool) -> None:
        """Select the object at `spot`; clear the selection if there is none."""
        ...

    def show_band(self, band: QRectF | None) -> None:
        """Show or hide the rubber band."""
        ...

    def select_band(self, band: QRectF, add: bool) -> None:
        """Select the objects that the rubber band touches."""
        ...

    def moved(self) -> None:
        """Repaint after the camera has moved."""
        ...


SLACK = 4.0  # pixels that the pointer may move within a click


class Gesture:
    """Base class; does nothing."""

    def __init__(self, target: GestureTarget, start: QPointF) -> None:
        self.target, self.start = target, start

    def move(self, spot: QPointF) -> None:
        """The pointer moved to `spot`."""

    def end(self, spot: QPointF) -> None:
        """The button was released at `spot`."""

    def cancel(self) -> None:
        """Restore the state at the start."""


class Pan(Gesture):
    """Pans the view; without a movement it is a click."""

    def __init__(self, target: GestureTarget, start: QPointF, add: bool = False) -> None:
        super().__init__(target, start)
        self.add, self.moved = add, False
        self.last = start
        self.home = (target.camera.x, target.camera.y)

    def move(self, spot: QPointF) -> None:
        """Pan, once the pointer has moved by more than SLACK."""
        if not self.moved and (spot - self.start).manhattanLength() < SLACK:
            return
        self.moved = True
        delta = spot - self.last
        self.last = spot
        self.target.camera.pan(delta.x(), delta.y())
        self.target.moved()

    def end(self, spot: QPointF) -> None:
        """Click if the pointer has not moved."""
        if not self.moved:
            self.target.click(self.start, self.add)

    def cancel(self) -> None:
        """Return the camera to its start."""
        self.target.camera.x, self.target.camera.y = self.home
        self.moved = True
        self.target.moved()


class RubberBand(Gesture):
    """Selects the objects that a rectangle touches."""

    def __init__(self, target: GestureTarget, start: QPointF, add: bool = False) -> None:
        super().__init__(target, start)
        self.add = add

    def move(self, spot: QPointF) -> None:
        """Resize the band."""
        self.target.show_band(QRectF(self.start, spot).normalized())

    def end(self, spot: QPointF) -> None:
        """Select; click if the band is smaller than SLACK."""
        self.target.show_band(None)
        band = QRectF(self.start, spot).normalized()
        if band.width() + band.height() < SLACK:
            self.target.click(self.start, self.add)
        else:
            self.target.select_band(band, self.add)

    def cancel(self) -> None:
        """Hide the band."""
        self.target.show_band(None)
