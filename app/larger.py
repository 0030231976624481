"""The panel at the bottom as high as the window lets it be, and back: charts and tables want room for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDockWidget

    from app.window import Window

BEFORE = "height_before"  # what the window remembers under this name
LARGE, USUAL = 0.5, 0.4  # of the window's height: from here on a panel is large; what a small one gets


def panel_in_front(window: Window) -> QDockWidget | None:
    """The panel at the bottom that is seen."""
    return next((d for d in window.docks.docks.values() if not d.isFloating() and d.isVisible()
                 and window.dockWidgetArea(d) == Qt.DockWidgetArea.BottomDockWidgetArea
                 and not d.visibleRegion().isEmpty()), None)  # fmt: skip


def is_large(window: Window) -> bool:
    """Whether the panel at the bottom takes most of the window."""
    dock = panel_in_front(window)
    return dock is not None and dock.height() > LARGE * window.height()


def toggle(window: Window) -> None:
    """Make the panel at the bottom large, or as high again as it was before."""
    dock = panel_in_front(window)
    if dock is None:
        return
    if is_large(window):
        height = min(int(window.property(BEFORE) or window.height()), int(USUAL * window.height()))
    else:
        window.setProperty(BEFORE, dock.height())
        height = window.height()
    window.resizeDocks([dock], [height], Qt.Orientation.Vertical)
