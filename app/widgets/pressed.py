"""A button that begins something and one that ends it: only one of both can be pressed."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QPushButton


def hand_over(start: QPushButton, stop: QPushButton, running: bool, enable: Callable[[], None]) -> None:
    """Let that one be pressed that can be; `enable` does so for `start`.

    A button that is disabled gives the keyboard to whatever comes next in the window, so it goes to the other first.
    """
    inside = start.hasFocus() or stop.hasFocus()
    if running:
        stop.setVisible(True)
        if inside:
            stop.setFocus()
        enable()
    else:
        enable()
        if inside:
            start.setFocus()
        stop.setVisible(False)
