"""Delays an edit while a number is being typed, so that the 1 of 16 is not applied."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeySequence, QShortcutEvent

PAUSE = 400  # milliseconds from the last key to the edit
_ENDS = (QEvent.Type.Shortcut, QEvent.Type.MouseButtonPress, QEvent.Type.Close)  # events that apply the edit first


class DelayedEdit(QObject):
    """Applies an edit after a pause, or before the next shortcut except Escape, click or close event."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._apply: Callable[[], None] | None = None
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self.settle)

    def wait(self, apply: Callable[[], None]) -> None:
        """Delay this edit; it replaces the delayed one."""
        self._apply = apply
        self._pause.start()
        self._app().installEventFilter(self)

    def settle(self) -> None:
        """Apply the edit now."""
        apply = self._apply
        self.forget()
        if apply:
            apply()

    def forget(self) -> None:
        """Discard the edit."""
        self._pause.stop()
        self._apply = None
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
