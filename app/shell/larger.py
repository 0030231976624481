"""The panel at the bottom as high as the window lets it be, and back: charts and tables want room for a while."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from espalier.app.widgets.bench import BEFORE

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

SLACK = 20  # pixels by which a panel that was pulled down again is no longer large


def panel_in_front(window: QMainWindow, docks: Iterable[QDockWidget]) -> QDockWidget | None:
    """The panel at the bottom that is seen."""
    return next((d for d in docks if not d.isFloating() and d.isVisible()
                 and window.dockWidgetArea(d) == Qt.DockWidgetArea.BottomDockWidgetArea
                 and not d.visibleRegion().isEmpty()), None)  # fmt: skip


def is_large(window: QWidget, height: int) -> bool:
    """Whether a panel of the window that is so high was made large."""
    before = window.property(BEFORE)
    return before is not None and height > before + SLACK


def toggle(window: QMainWindow, docks: Iterable[QDockWidget]) -> None:
    """Make the panel at the bottom large, or as high again as it was before."""
    dock = panel_in_front(window, docks)
    if dock is None:
        return
    before, height = window.property(BEFORE), window.height()
    if is_large(window, dock.height()):
        window.setProperty(BEFORE, None)
        height = before
    else:
        window.setProperty(BEFORE, dock.height())
    window.resizeDocks([dock], [height], Qt.Orientation.Vertical)
