"""The pictures that Qt keeps of hidden windows: of each menu, list of a field and dialog that was shown once."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from espalier.app.widgets.collector import without_garbage_collection

SMALLEST = QSize(1, 1)
PIXEL = 4  # bytes


def release_hidden_images() -> int:
    """Free the pictures of all hidden windows; returns their bytes. Qt makes and paints one again when it is needed.

    The lists of 60 fields held 125 MB after each had been open once.
    """
    released = 0
    with without_garbage_collection():
        for window in QApplication.topLevelWidgets():
            store = None if window.isVisible() else window.backingStore()
            size = SMALLEST if store is None else store.size()
            if store is not None and size.width() * size.height() > 1:
                ratio = window.devicePixelRatioF()
                released += int(size.width() * size.height() * ratio * ratio) * PIXEL
                store.resize(SMALLEST)
    return released
