"""A progress bar that paints with the next frame; QProgressBar repaints at once at each step."""

from __future__ import annotations

from PySide6.QtWidgets import QProgressBar


class Bar(QProgressBar):
    """A thin bar without text."""

    def __init__(self) -> None:
        super().__init__(textVisible=False)

    def show_done(self, done: int, total: int) -> None:
        """Show `done` of `total`; a total of 0 shows a busy bar."""
        if (self.minimum(), self.maximum(), self.value()) == (0, total, done):
            return
        self.setUpdatesEnabled(False)
        self.setRange(0, total)
        if total:
            self.setValue(done)
        self.setUpdatesEnabled(True)
