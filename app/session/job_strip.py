"""The progress of a panel's job: title, status, elapsed and remaining time, and Cancel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from espalier.app.jobs.status import status_text
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided
from espalier.app.widgets.progress import Bar

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.passes.jobs.kinds import JobInfo

INTERVAL = 250  # milliseconds between two updates
BUTTON_WIDTH = 80  # pixels; fixed, so that Cancel never moves


class JobStrip(QWidget):
    """A line and a progress bar at the top of a panel; hidden while no job runs."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._job: JobInfo | None = None
        self._title, self._status = QLabel(), Elided("", "muted", 40)
        self._title.setProperty("role", "strong")
        self._title.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.cancel = QPushButton(tr("Cancel"))
        self.cancel.setFixedWidth(BUTTON_WIDTH)
        self.cancel.clicked.connect(self._cancel)
        self._bar = Bar()
        self._timer = QTimer(self, interval=INTERVAL)
        self._timer.timeout.connect(self._update_status)
        line = QHBoxLayout()
        line.setSpacing(12)
        line.addWidget(self._title)
        line.addWidget(self._status, 1)
        line.addWidget(self.cancel)
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 4, 12, 4)
        box.setSpacing(3)
        box.addLayout(line)
        box.addWidget(self._bar)
        self.hide()

    @property
    def text(self) -> str:
        """The title and status shown."""
        return f"{self._title.text()}: {self._status.toolTip()}"

    def show_job(self, job: JobInfo | None) -> None:
        """Show a job until it ends; None hides the strip."""
        self._job = job if job is not None and job.finished is None else None
        if self._job is not None:
            self._title.setText(self._job.title)
            self.cancel.setAccessibleName(tr("Cancel {}", self._job.title))
            self._timer.start()
        self._update_status()

    def _update_status(self) -> None:
        job = self._job
        if job is None or job.finished is not None:
            self._job = None
            self._timer.stop()
            self.hide()
            return
        self._status.show_text(status_text(job, time.monotonic(), elapsed=True))
        progress = job.progress if job.progress is not None and job.progress.total > 1 else None
        if progress:
            self._bar.show_done(progress.done, progress.total)
        else:
            self._bar.show_done(0, int(job.state != "running"))
        self.show()

    def _cancel(self) -> None:
        if self._job is not None:
            self._session.cancel(self._job.id)
