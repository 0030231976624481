"""A start and a stop button, of which one is enabled at a time."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QPushButton


def show_running(start: QPushButton, stop: QPushButton, running: bool, enable: Callable[[], None]) -> None:
    """Show `stop` while running; `enable` updates `start`.

    The focus moves to the other button first: Qt would give that of a disabled button to the next widget.
    """
    has_focus = start.hasFocus() or stop.hasFocus()
    if running:
        stop.setVisible(True)
        if has_focus:
            stop.setFocus()
        enable()
    else:
        enable()
        if has_focus:
            start.setFocus()
        stop.setVisible(False)
