"""Waits in the window of the pseudo language, with its events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

if TYPE_CHECKING:
    from espalier.app.shell.window import Window


def settle(milliseconds: int = 100) -> None:
    """Run the events for a while."""
    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.005)


def wait(window: Window, seconds: float = 120) -> None:
    """Until the model is open and no job runs."""
    end = time.monotonic() + seconds
    while (window.session.document is None or window.session.jobs or window.live.waiting) and time.monotonic() < end:
        settle()
    assert window.session.document is not None and not window.session.jobs
