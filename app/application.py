"""Starts the window, on screen or offscreen into a picture file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.errors import install_hooks
from app.settings import Settings
from app.style import Appearance
from app.window import Window


def make_application(arguments: Sequence[str] = ()) -> QApplication:
    """The one QApplication, named so that settings find their place."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        QGuiApplication.setDesktopFileName("espalier")
        app = QApplication(["espalier", *arguments])
    app.setApplicationName("Espalier")
    app.setApplicationDisplayName("")
    app.setOrganizationName("Espalier")
    return app


def make_window(app: QApplication, settings: Settings, mode: str) -> Window:
    """The window with a session of its own, not yet shown."""
    from app.session import Session

    return Window(Session(), settings, Appearance(app, mode))


def open_window(target: str | None) -> int:
    """Show the window on `target` (a project or any source) and run until it closes; returns the exit status."""
    app = make_application()
    install_hooks()
    settings = Settings()
    window = make_window(app, settings, settings.mode)
    window.show()
    if target:
        QTimer.singleShot(0, lambda: window.begin_opening(target))
    return app.exec()
