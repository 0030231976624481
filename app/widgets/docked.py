"""What is in front among docks."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QDockWidget


def is_in_front(dock: QDockWidget) -> bool:
    """Whether a dock can be seen: Qt calls docks behind a tab visible."""
    return dock.isVisible() and not dock.visibleRegion().isEmpty()


def follow_visibility(dock: QDockWidget, slot: Callable[[bool], object]) -> None:
    """Call `slot` with whether a dock is in front, now and at each change."""
    dock.visibilityChanged.connect(slot)
    slot(is_in_front(dock))
