"""What the pointer is doing, one object per gesture: it starts, moves, and ends or is cancelled."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QPointF, QRectF

from espalier.app.canvas.camera import Camera


class Board(Protocol):
    """What a gesture may do to the canvas."""

    camera: Camera

    def click(self, spot: QPointF, add: bool) -> None:
        """Select what is at `spot`, or nothing."""
        ...

    def show_band(self, band: QRectF | None) -> None:
        """Show or take away the rubber band."""
        ...

    def select_band(self, band: QRectF, add: bool) -> None:
        """Select what the rubber band encloses."""
        ...

    def moved(self) -> None:
        """Show what the camera sees now."""
        ...


SLACK = 4.0  # pixels a hand may tremble within a click


class Gesture:
    """Does nothing; the base of the others."""

    def __init__(self, board: Board, start: QPointF) -> None:
        self.board, self.start = board, start

    def move(self, spot: QPointF) -> None:
        """The pointer went to `spot`."""

    def end(self, spot: QPointF) -> None:
        """The button was released at `spot`."""

    def cancel(self) -> None:
        """Leave everything as it was at the start."""


class Pan(Gesture):
    """Drags the picture; without a real movement it is a click."""

    def __init__(self, board: Board, start: QPointF, add: bool = False) -> None:
        super().__init__(board, start)
        self.add, self.moved = add, False
        self.last = start
        self.home = (board.camera.x, board.camera.y)

    def move(self, spot: QPointF) -> None:
        """Follow the pointer once it has left the slack."""
        if not self.moved and (spot - self.start).manhattanLength() < SLACK:
            return
        self.moved = True
        delta = spot - self.last
        self.last = spot
        self.board.camera.pan(delta.x(), delta.y())
        self.board.moved()

    def end(self, spot: QPointF) -> None:
        """A click if nothing moved."""
        if not self.moved:
            self.board.click(self.start, self.add)

    def cancel(self) -> None:
        """Back to where the picture was."""
        self.board.camera.x, self.board.camera.y = self.home
        self.moved = True
        self.board.moved()


class RubberBand(Gesture):
    """Selects what a rectangle encloses."""

    def __init__(self, board: Board, start: QPointF, add: bool = False) -> None:
        super().__init__(board, start)
        self.add = add

    def move(self, spot: QPointF) -> None:
        """Stretch the band."""
        self.board.show_band(QRectF(self.start, spot).normalized())

    def end(self, spot: QPointF) -> None:
        """Select, or click when the band is too small to be meant."""
        self.board.show_band(None)
        band = QRectF(self.start, spot).normalized()
        if band.width() + band.height() < SLACK:
            self.board.click(self.start, self.add)
        else:
            self.board.select_band(band, self.add)

    def cancel(self) -> None:
        """Take the band away."""
        self.board.show_band(None)
