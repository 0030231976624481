"""Asks for attention when a long job ends while the user works in another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QWidget

from espalier.passes.jobs.kinds import Done, Failed, JobEvent

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LONG = 30.0  # seconds of work from which the end of a job is announced


class JobAlert(QObject):
    """Marks the window in the desktop's task bar (`QApplication.alert`) at the end of a long job."""

    def __init__(self, session: Session, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        session.job_event.connect(self._on_event)

    def _on_event(self, event: JobEvent) -> None:
        job, ended = event.job, isinstance(event.event, Done | Failed)
        long = ended and job.finished is not None and job.worked(job.finished) >= LONG
        if long and not self._window.isActiveWindow():
            QApplication.alert(self._window)
