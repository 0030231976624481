"""Free memory of the window's process goes back to the system when a document was opened or closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from espalier.passes.jobs import heap

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 3000  # milliseconds


class FreeMemory(QObject):
    """Gives back what a document left behind, once the window has come to rest after it was opened or closed."""

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(heap.give_back)
        session.opened.connect(self._pause.start)
