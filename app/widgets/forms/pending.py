"""An edit that is being typed: of 16 the 1 is not meant."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeySequence, QShortcutEvent

PAUSE = 400  # milliseconds after a key until a number counts as written
_ENDS = (QEvent.Type.Shortcut, QEvent.Type.MouseButtonPress, QEvent.Type.Close)  # what is done next is done with it


class Pending(QObject):
    """Makes an edit after a pause, or before the next shortcut (Escape is none), click or closing."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._make: Callable[[], None] | None = None
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self.settle)

    def wait(self, make: Callable[[], None]) -> None:
        """Make this edit in place of what still waited."""
        self._make = make
        self._pause.start()
        self._app().installEventFilter(self)

    def settle(self) -> None:
        """Make it now."""
        make = self._make
        self.forget()
        if make:
            make()

    def forget(self) -> None:
        """It is not meant."""
        self._pause.stop()
        self._make = None
        self._app().removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        escape = isinstance(event, QShortcutEvent) and event.key() == QKeySequence(Qt.Key.Key_Escape)
        if event.type() in _ENDS and not escape:
            self.settle()
        return False

    @staticmethod
    def _app() -> QCoreApplication:
        app = QCoreApplication.instance()
        assert app is not None
        return app
