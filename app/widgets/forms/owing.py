"""Forms that nobody sees do their work later: at the next look at them, or when they are read."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget


class Owing(QWidget):
    """A widget that may owe itself one piece of work."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._owed: Callable[[], None] | None = None
        self._next = QTimer(self, singleShot=True, interval=0)
        self._next.timeout.connect(self.settle)

    def owe(self, work: Callable[[], None], also: bool = False) -> None:
        """Do it in the next turn where the form is in sight, else when it is next looked at or read; `also`: unless
        more is owed."""
        if not (also and self._owed):
            self._owed = work
        if self.isVisible():
            self._next.start()

    def when_seen(self, work: Callable[[], None]) -> None:
        """Do it at once where the form is in sight, else when it is next looked at."""
        self._owed = None if (seen := self.isVisible()) else work
        if seen:
            work()

    def settle(self) -> None:
        """Do what is owed."""
        if work := self._owed:
            self._owed = None
            work()

    def forget(self) -> None:
        """Owe nothing."""
        self._owed = None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.settle()
