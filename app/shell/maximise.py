"""Maximises the panel at the bottom to the height of the window, and restores it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from espalier.app.widgets.form_panel import HEIGHT_BEFORE

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

SLACK = 20  # pixels: a panel no higher than before plus this is not maximised


def panel_in_front(window: QMainWindow, docks: Iterable[QDockWidget]) -> QDockWidget | None:
    """The dock at the bottom whose tab is in front."""
    return next((d for d in docks if not d.isFloating() and d.isVisible()
                 and window.dockWidgetArea(d) == Qt.DockWidgetArea.BottomDockWidgetArea
                 and not d.visibleRegion().isEmpty()), None)  # fmt: skip


def is_maximised(window: QWidget, height: int) -> bool:
    """Whether a panel of this height (pixels) is maximised."""
    before = window.property(HEIGHT_BEFORE)
    return before is not None and height > before + SLACK


def toggle(window: QMainWindow, docks: Iterable[QDockWidget]) -> None:
    """Maximise the panel at the bottom, or restore its height."""
    dock = panel_in_front(window, docks)
    if dock is None:
        return
    before, height = window.property(HEIGHT_BEFORE), window.height()
    if is_maximised(window, dock.height()):
        window.setProperty(HEIGHT_BEFORE, None)
        height = before
    else:
        window.setProperty(HEIGHT_BEFORE, dock.height())
    window.resizeDocks([dock], [height], Qt.Orientation.Vertical)
