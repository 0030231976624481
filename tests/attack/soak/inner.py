"""Widgets inside others, found without `findChildren`: PySide keeps what that finds as long as the outer one lives.

A hundred soaked actions left a hundred Python objects of widgets that were long gone.
"""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget

from espalier.app.widgets.collector import without_garbage_collection

T = TypeVar("T", bound=QWidget)


def inner(outer: QWidget, kind: type[T]) -> list[T]:
    """The visible widgets of a kind inside another, from its top left corner on."""
    with without_garbage_collection():
        every = [w for w in QApplication.allWidgets() if isinstance(w, kind)]
        found = [w for w in every if w.isVisible() and outer.isAncestorOf(w)]
    return sorted(found, key=lambda w: (w.mapTo(outer, QPoint()).toTuple()[::-1], type(w).__name__, w.size().toTuple()))


def windows() -> list[QWidget]:
    """All windows, also hidden ones."""
    with without_garbage_collection():
        return QApplication.topLevelWidgets()
