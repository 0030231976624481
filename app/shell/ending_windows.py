"""Windows of closed tabs, until their jobs have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from espalier.passes.jobs.kinds import SaveJob

if TYPE_CHECKING:
    from espalier.app.shell.window import Window

INTERVAL = 50  # milliseconds between two looks


class EndingWindows(QObject):
    """Ends windows without waiting: cancels their jobs except saves by the user, then destroys them."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.windows: list[Window] = []
        self._timer = QTimer(self, interval=INTERVAL)
        self._timer.timeout.connect(self._look)

    def add(self, window: Window) -> None:
        """End a window whose tab was closed."""
        window.live.enabled = False  # else it measures what was edited last
        self.windows.append(window)
        self._look()
        self._timer.start()

    def _look(self) -> None:
        for window in list(self.windows):
            jobs = window.session.jobs
            for job in [j for j in jobs if not isinstance(j.job, SaveJob) or j.job.copy]:
                window.session.cancel(job.id)
            if not jobs:
                self.windows.remove(window)
                window.close_now()
                window.session.deleteLater()  # else its connections would keep the window's Python objects
                window.deleteLater()
        if not self.windows:
            self._timer.stop()

    def end_now(self) -> None:
        """End all of them at once, because the program ends."""
        self._timer.stop()
        for window in self.windows:
            window.close_now()
