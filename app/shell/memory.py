"""Memory of the window's process goes back to the system: of documents that were closed, and of hidden windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from espalier.app.widgets.hidden_images import release_hidden_images
from espalier.passes.jobs import heap

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 3000  # milliseconds after a document was opened or closed
INTERVAL = 15_000  # milliseconds between two looks at hidden windows


class FreeMemory(QObject):
    """Gives back what a document left behind once the window rests, and at times the pictures of hidden windows."""

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(heap.give_back)
        session.opened.connect(self._pause.start)
        self._images = QTimer(self, interval=INTERVAL)
        self._images.timeout.connect(self._release_images)
        self._images.start()

    def _release_images(self) -> None:
        if release_hidden_images():
            heap.give_back()
