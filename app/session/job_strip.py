"""How far the job of a panel is: what it does, how far, how long it took and still takes, and Cancel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from espalier.app.jobs.status import status_text
from espalier.app.widgets.heading import Elided
from espalier.app.widgets.progress import Bar

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.passes.jobs.kinds import JobInfo

LOOK = 250  # milliseconds between two looks at the job
WIDE = 80  # pixels of Cancel, which stands at the right: it never moves with the words


class JobStrip(QWidget):
    """A line and a bar at the head of a panel; hidden where nothing runs."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._job: JobInfo | None = None
        self._title, self._status = QLabel(), Elided("", "muted", 40)
        self._title.setProperty("role", "strong")
        self._title.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.cancel = QPushButton("Cancel")
        self.cancel.setFixedWidth(WIDE)
        self.cancel.clicked.connect(self._cancel)
        self._bar = Bar()
        self._clock = QTimer(self, interval=LOOK)
        self._clock.timeout.connect(self._look)
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
        """What it says."""
        return f"{self._title.text()}: {self._status.toolTip()}"

    def show_job(self, job: JobInfo | None) -> None:
        """Show a job until it ends, or none."""
        self._job = job if job is not None and job.finished is None else None
        if self._job is not None:
            self._title.setText(self._job.title)
            self.cancel.setAccessibleName(f"Cancel {self._job.title}")
            self._clock.start()
        self._look()

    def _look(self) -> None:
        job = self._job
        if job is None or job.finished is not None:
            self._job = None
            self._clock.stop()
            self.hide()
            return
        self._status.show_text(status_text(job, time.monotonic(), elapsed=True))
        p = job.progress
        known = p is not None and p.total > 1
        self._bar.show_done(p.done if p and known else 0, p.total if p and known else int(job.state != "running"))
        self.show()

    def _cancel(self) -> None:
        if self._job is not None:
            self._session.cancel(self._job.id)
