"""Log panel: timestamped lines about jobs, errors, edits and output of user code."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.number_text import duration
from espalier.app.session.recovery import is_copy
from espalier.app.widgets.lines import Lines
from espalier.model.document.document import Change
from espalier.model.errors import EspalierError
from espalier.model.private import redacted
from espalier.passes.jobs.kinds import Done, Failed, JobEvent, LogLine, ReplayJob, Started, Stopped, Yielded

if TYPE_CHECKING:
    from espalier.app.session.session import Session


NUMBERS = re.compile(r"[\d.,\u2009]+")


class LogPanel(QWidget):
    """Append-only text; beyond 10 000 lines the oldest are dropped."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stem, self._follow = "", True
        self._text = Lines(10_000, "Nothing has happened yet.")
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self._text.setFont(font)
        box = QVBoxLayout(self)
        box.setContentsMargins(6, 4, 6, 4)
        box.addWidget(self._text)
        self._text.verticalScrollBar().rangeChanged.connect(self._on_range_changed)
        self._text.verticalScrollBar().actionTriggered.connect(self._on_scrolled)
        session.job_event.connect(self.on_job_event)
        session.problem.connect(self.add_error)
        session.changed.connect(self.add_change)
        session.arranged.connect(self.add_change)

    def _on_range_changed(self, minimum: int, maximum: int) -> None:
        """Scroll to the newest line unless the user has scrolled up; also while the panel is hidden."""
        if self._follow:
            self._text.verticalScrollBar().setValue(maximum)

    def _on_scrolled(self) -> None:
        bar = self._text.verticalScrollBar()
        self._follow = bar.sliderPosition() >= bar.maximum()

    @property
    def text(self) -> str:
        """All lines."""
        return self._text.toPlainText()

    def add(self, line: str) -> None:
        """Add a line with the time; it replaces the last line if they differ only in numbers."""
        line = redacted(line)
        stem = NUMBERS.sub("", line)
        if stem == self._stem and stem != line:
            self._replace_last()
        self._stem = stem
        self._text.add(f"{time.strftime('%H:%M:%S')}  {line}")

    def _replace_last(self) -> None:
        cursor = QTextCursor(self._text.document().lastBlock())
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.deletePreviousChar()

    def on_job_event(self, job_event: JobEvent) -> None:
        """Add a line for an event of a job."""
        job = job_event.job
        if is_copy(job) and not isinstance(job_event.event, Failed):
            return
        is_replay = isinstance(job.job, ReplayJob) and not job.job.beside  # the resulting change has its own line
        match job_event.event:
            case Started() | Done() if is_replay:
                pass
            case Started():
                self.add(f"{job.title}: {'continued' if job.waited else 'started'}")
            case Yielded():
                self.add(f"{job.title}: waiting for another job, after {duration(job.worked(time.monotonic()))}")
            case LogLine(text):
                self.add(f"{job.title}: {text}")
            case Done():
                self.add(f"{job.title}: done in {duration(job.took)}")
            case Failed(message=message, details=details):
                self.add(f"{job.title}: failed: {message}")
                if details:
                    self._text.add(details.rstrip())
            case Stopped():
                self.add(f"{job.title}: stopped")
            case _:
                pass

    def add_error(self, error: EspalierError) -> None:
        """Add a line for an error that was shown."""
        self.add(f"{error.message} {error.hint}".rstrip())

    def add_change(self, change: Change) -> None:
        """Add a line for an edit."""
        self.add(change.label)
