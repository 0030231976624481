"""A progress bar that never paints by itself: Qt's own repaints at once at each step, and all that waits with it."""

from __future__ import annotations

from PySide6.QtWidgets import QProgressBar


class Bar(QProgressBar):
    """A thin bar without text."""

    def __init__(self) -> None:
        super().__init__(textVisible=False)

    def show_done(self, done: int, total: int) -> None:
        """So much of a whole, painted in the next frame; a whole of 0: nobody knows how much."""
        if (self.minimum(), self.maximum(), self.value()) == (0, total, done):
            return
        self.setUpdatesEnabled(False)
        self.setRange(0, total)
        if total:
            self.setValue(done)
        self.setUpdatesEnabled(True)
