"""Widgets that defer work while they are hidden, until they are shown or read."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget


class DeferredWork(QWidget):
    """A widget with at most one deferred call."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._deferred: Callable[[], None] | None = None
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self.settle)

    def defer(self, work: Callable[[], None], also: bool = False) -> None:
        """Call `work` after the pending events if visible, otherwise when next shown or read.

        It replaces the deferred call, unless `also` is given: then it is dropped if there is one.
        """
        if not (also and self._deferred):
            self._deferred = work
        if self.isVisible():
            self._timer.start()

    def when_visible(self, work: Callable[[], None]) -> None:
        """Call `work` at once if visible, otherwise when next shown or read."""
        self._deferred = None if (visible := self.isVisible()) else work
        if visible:
            work()

    def settle(self) -> None:
        """Run the deferred call, if any."""
        if work := self._deferred:
            self._deferred = None
            work()

    def forget(self) -> None:
        """Drop the deferred call."""
        self._deferred = None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.settle()
