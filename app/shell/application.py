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
from PySide6.QtWidgets import QApplication, QWidget

from espalier.app.errors import install_hooks
from espalier.app.session.recovery import unsaved_projects
from espalier.app.settings import Settings
from espalier.app.shell.language import LANGUAGE
from espalier.app.shell.tabs import Tabs
from espalier.app.shell.window import Window
from espalier.app.widgets.collector import WindowCollector
from espalier.app.widgets.file_export import write_image
from espalier.app.widgets.override_errors import normalise_override_errors
from espalier.app.widgets.style import Appearance
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.leftovers import scratch
from espalier.passes.jobs.heap import return_freed_memory, share_arenas

SETTLED = 5000  # milliseconds after which all long-lived objects exist
ARENAS = 2  # of the heap: the threads beside the window's hardly ever allocate at the same time
IDLE = 2000  # milliseconds after which an idle thread of the pool ends and releases its files
SWITCH = 0.001  # seconds until a computing thread yields the interpreter to the window; Python's default is 5 ms


def make_application(arguments: Sequence[str] = ()) -> QApplication:
    """Create the QApplication, or return the existing one, with the names that QSettings uses."""
    normalise_override_errors()
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        share_arenas(ARENAS)
        return_freed_memory()
        QGuiApplication.setDesktopFileName("espalier")
        app = QApplication(["espalier", *arguments])
    app.setApplicationName("Espalier")
    app.setApplicationDisplayName("")
    app.setOrganizationName("Espalier")
    sys.setswitchinterval(SWITCH)
    QThreadPool.globalInstance().setExpiryTimeout(IDLE)
    return app


def make_window(app: QApplication, settings: Settings, mode: str) -> Window:
    """Create a window with a new session, not shown yet."""
    from espalier.app.session.session import Session

    return Window(Session(), settings, Appearance(app, mode))


def open_window(target: str | None, plugins: Sequence[str] = (), theme: str | None = None) -> int:
    """Show the window on `target` (a project or any source) and run until it closes; returns the exit status.

    `plugins`: files to load besides those of the settings. `theme`: overrides the one of the settings.
    """
    settings = Settings()
    if settings.size != 100:
        os.environ.setdefault("QT_SCALE_FACTOR", str(settings.size / 100))  # Qt reads it once, before it begins
    app = make_application()
    LANGUAGE.translate_qt(app)
    WindowCollector(app)
    install_hooks()
    tabs = make_tabs(app, settings, theme or settings.mode, plugins)
    show_within(tabs, tabs.screen().availableSize())
    QTimer.singleShot(0, lambda: _start(tabs.current, target))
    if problem := LANGUAGE.problem:
        QTimer.singleShot(0, lambda: tabs.current.banner.show_error(problem))
    QTimer.singleShot(SETTLED, freeze_objects)
    return app.exec()


def make_tabs(app: QApplication, settings: Settings, mode: str, plugins: Sequence[str] = ()) -> Tabs:
    """Create the window of the program with an empty tab, not shown yet. `plugins`: files to load into each tab."""
    from espalier.app.session.session import Session

    appearance = Appearance(app, mode)
    tabs = Tabs(lambda: Window(Session(), settings, appearance), settings, lambda w: w.plugins.start(plugins))
    tabs.add("")
    return tabs


def show_within(window: QWidget, available: QSize) -> None:
    """Show the window, maximised if its size exceeds the available size of the screen."""
    size = window.size()
    if size.width() > available.width() or size.height() > available.height():
        window.resize(size.boundedTo(available))
        window.showMaximized()  # keeps the frame on the screen too
    else:
        window.show()


def freeze_objects() -> None:
    """Exempt modules and widgets from garbage collection: each collection would walk them for 60 ms."""
    gc.freeze()


def _clean_up() -> None:
    """Store the trials of searches of crashed windows, then delete the files of these windows."""
    from espalier.app.features.search.state.files import rescue

    rescue()


def _start(window: Window, target: str | None) -> None:
    threading.Thread(target=_clean_up, name="espalier-clean-up", daemon=True).start()
    if target:
        window.begin_opening(target)
    elif window.settings.take_first_start():
        window.services.tour.offer()
    else:
        window.services.reopening.at_start(has_unsaved=bool(unsaved_projects()))


def render_screenshot(
    target: str | None, file: str, size: tuple[int, int], theme: str, panel: str | None, plugins: Sequence[str] = ()
) -> None:
    """Open `target` offscreen, wait until it is loaded and measured, and write a picture of the window to `file`.

    `size`: of the window in pixels. `panel`: a dock to bring to the front. Raises EspalierError if the target cannot be
    opened or the picture cannot be written.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from espalier.app.shell.docks import DOCKS  # imports pyqtgraph

    if panel and panel not in (names := [s.id for s in DOCKS]):
        raise OptionsError(f"There is no panel {panel!r}.", f"Panels: {', '.join(names)}.")
    qInstallMessageHandler(_print_message)
    app = make_application()
    LANGUAGE.translate_qt(app)
    collector = WindowCollector(app)
    install_hooks()
    with scratch() as folder:
        settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
        window = make_window(app, settings, theme)
        window.resize(*size)
        window.show()
        try:
            Screenshot(window, target, panel, plugins).write(file)
        finally:
            window.close_now()
            collector.stop()


def _print_message(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
    """Print a message of Qt, except the one that the offscreen platform sends for every widget."""
    if "propagateSizeHints" not in text:
        sys.stderr.write(text + "\n")


class Screenshot:
    """Opens a target and writes a picture of the window when all jobs are done and the graph is drawn."""

    def __init__(self, window: Window, target: str | None, panel: str | None, plugins: Sequence[str] = ()) -> None:
        self._window, self._panel = window, panel
        self._errors: list[EspalierError] = []
        self._loop = QEventLoop()
        window.session.problem.connect(self._fail)
        window.plugins.start(plugins)
        _start(window, target)
        self._timer = QTimer(interval=100)
        self._timer.timeout.connect(self._check)
        self._idle_checks = 0

    def write(self, file: str) -> None:
        """Run the event loop until the window is idle, then write the picture. Raises EspalierError."""
        self._timer.start()
        self._loop.exec()
        self._timer.stop()
        if self._errors and self._window.session.document is None:
            raise self._errors[0]
        write_image(Path(file), self._window.grab())

    def _fail(self, error: EspalierError) -> None:
        self._errors.append(error)

    @property
    def _drawn(self) -> bool:
        window = self._window
        return window.session.document is None or (window.canvas.scene is not None and not window.canvas.waiting)

    def _check(self) -> None:
        window = self._window
        if window.session.jobs or window.live.waiting or not self._drawn:
            self._idle_checks = 0
            return
        if self._idle_checks == 0 and self._panel and window.session.document:
            window.show_dock(self._panel)
        self._idle_checks += 1
        if self._idle_checks > 8:
            self._loop.quit()
