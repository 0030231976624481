"""What happened in this run, line by line with its time: jobs, errors, what the user's code printed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QPlainTextEdit, QVBoxLayout, QWidget

from app.recovery import is_copy
from app.words import duration
from model.document import Change
from model.errors import EspalierError
from passes.jobs import Done, Failed, JobEvent, LogLine, Started, Stopped

if TYPE_CHECKING:
    from app.session import Session


class LogPanel(QWidget):
    """A text that only grows; the oldest lines go past 10 000."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._text = QPlainTextEdit(readOnly=True, maximumBlockCount=10_000)
        self._text.setProperty("bare", True)
        self._text.setPlaceholderText("Nothing has happened yet.")
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self._text.setFont(font)
        box = QVBoxLayout(self)
        box.setContentsMargins(6, 4, 6, 4)
        box.addWidget(self._text)
        session.job_event.connect(self.hear)
        session.problem.connect(self.hear_error)
        session.changed.connect(self.hear_change)

    @property
    def text(self) -> str:
        """All lines."""
        return self._text.toPlainText()

    def add(self, line: str) -> None:
        """Add a line with the time."""
        self._text.appendPlainText(f"{time.strftime('%H:%M:%S')}  {line}")

    def hear(self, heard: JobEvent) -> None:
        """Note what a job did."""
        job = heard.job
        if is_copy(job) and not isinstance(heard.event, Failed):
            return
        match heard.event:
            case Started():
                self.add(f"{job.title}: started")
            case LogLine(text):
                self.add(f"{job.title}: {text}")
            case Done():
                self.add(f"{job.title}: done in {duration((job.finished or job.started) - job.started)}")
            case Failed(message=message, details=details):
                self.add(f"{job.title}: failed: {message}")
                if details:
                    self._text.appendPlainText(details.rstrip())
            case Stopped():
                self.add(f"{job.title}: cancelled")
            case _:
                pass

    def hear_error(self, error: EspalierError) -> None:
        """Note an error that was shown."""
        self.add(f"{error.message} {error.hint}".rstrip())

    def hear_change(self, change: Change) -> None:
        """Note an edit."""
        self.add(change.label)
