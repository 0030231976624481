"""Starts the window, on screen or offscreen into a picture file."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import (
    QEventLoop,
    QMessageLogContext,
    QSettings,
    QSize,
    QThreadPool,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from espalier.app.errors import install_hooks
from espalier.app.settings import Settings
from espalier.app.shell.window import Window
from espalier.app.widgets.paper import write_image
from espalier.app.widgets.style import Appearance
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.leftovers import scratch
from espalier.passes.jobs.heap import share_arenas

SETTLED = 5000  # milliseconds after which all that stays for good has been made
ARENAS = 2  # of the heap: the threads beside the window's hardly ever allocate at the same time
IDLE = 2000  # milliseconds after which a pooled thread that has nothing to do ends, and what it holds open
SWITCH = 0.001  # seconds that a thread which computes may keep the window's waiting; Python's own are 5 ms


def make_application(arguments: Sequence[str] = ()) -> QApplication:
    """The one QApplication, named so that settings find their place."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        share_arenas(ARENAS)
        QGuiApplication.setDesktopFileName("espalier")
        app = QApplication(["espalier", *arguments])
    app.setApplicationName("Espalier")
    app.setApplicationDisplayName("")
    app.setOrganizationName("Espalier")
    sys.setswitchinterval(SWITCH)
    QThreadPool.globalInstance().setExpiryTimeout(IDLE)
    return app


def make_window(app: QApplication, settings: Settings, mode: str) -> Window:
    """The window with a session of its own, not yet shown."""
    from espalier.app.session.session import Session

    return Window(Session(), settings, Appearance(app, mode))


def open_window(target: str | None, plugins: Sequence[str] = (), theme: str | None = None) -> int:
    """Show the window on `target` (a project or any source) and run until it closes; returns the exit status.

    `plugins`: files to load besides those of the settings. `theme`: this time, instead of the chosen one.
    """
    app = make_application()
    install_hooks()
    settings = Settings()
    window = make_window(app, settings, theme or settings.mode)
    show_within(window, window.screen().availableSize())
    QTimer.singleShot(0, lambda: _begin(window, target, plugins))
    QTimer.singleShot(SETTLED, rest_collector)
    return app.exec()


def show_within(window: Window, room: QSize) -> None:
    """Show it; where the screen has less room than its usual size, as large as that allows."""
    usual = window.size()
    if usual.width() > room.width() or usual.height() > room.height():
        window.resize(usual.boundedTo(room))
        window.showMaximized()  # the frame too stays on the screen
    else:
        window.show()


def rest_collector() -> None:
    """Modules and widgets stay: the collector need not walk them again and again, 60 ms each time."""
    gc.freeze()


def _tidy() -> None:
    """Take away what windows that are gone left, once what they had found is safe."""
    from espalier.app.features.search.state.files import rescue

    rescue()


def _begin(window: Window, target: str | None, plugins: Sequence[str]) -> None:
    threading.Thread(target=_tidy, name="espalier-tidy", daemon=True).start()
    window.plugins.start(plugins)
    if target:
        window.begin_opening(target)


def render_screenshot(
    target: str | None, file: str, size: tuple[int, int], theme: str, panel: str | None, plugins: Sequence[str] = ()
) -> None:
    """Open `target` offscreen, wait until it is loaded and measured, write the window to `file`.

    `panel` is a dock to bring to the front. Raises EspalierError when the target cannot be opened or
    the picture not be written.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from espalier.app.shell.docks import DOCKS  # pyqtgraph comes with them

    if panel and panel not in (names := [s.id for s in DOCKS]):
        raise OptionsError(f"There is no panel {panel!r}.", f"Panels: {', '.join(names)}.")
    qInstallMessageHandler(_tell_qt)
    app = make_application()
    install_hooks()
    with scratch() as folder:
        settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
        window = make_window(app, settings, theme)
        window.resize(*size)
        window.show()
        try:
            Camera(window, target, panel, plugins).take(file)
        finally:
            window.leave()


def _tell_qt(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
    """Qt's messages, but the one that the offscreen platform has for every widget."""
    if "propagateSizeHints" not in text:
        sys.stderr.write(text + "\n")


class Camera:
    """Waits until nothing moves any more, then takes the picture."""

    def __init__(self, window: Window, target: str | None, panel: str | None, plugins: Sequence[str] = ()) -> None:
        self._window, self._panel = window, panel
        self._errors: list[EspalierError] = []
        self._loop = QEventLoop()
        window.session.problem.connect(self._fail)
        _begin(window, target, plugins)
        self._clock = QTimer(interval=100)
        self._clock.timeout.connect(self._look)
        self._quiet = 0

    def take(self, file: str) -> None:
        """Run the event loop until all is there; raises EspalierError."""
        self._clock.start()
        self._loop.exec()
        self._clock.stop()
        if self._errors and self._window.session.document is None:
            raise self._errors[0]
        write_image(Path(file), self._window.grab())

    def _fail(self, error: EspalierError) -> None:
        self._errors.append(error)

    @property
    def _drawn(self) -> bool:
        window = self._window
        return window.session.document is None or (window.canvas.scene is not None and not window.canvas.waiting)

    def _look(self) -> None:
        window = self._window
        if window.session.jobs or window.live.waiting or not self._drawn:
            self._quiet = 0
            return
        if self._quiet == 0 and self._panel and window.session.document:
            window.show_dock(self._panel)
        self._quiet += 1
        if self._quiet > 8:
            self._loop.quit()
