"""The lines of the log: they follow the session from its beginning, whether or not the panel exists."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.number_text import duration
from espalier.app.session.recovery import is_copy
from espalier.app.translation import error_text, tr
from espalier.model.document.document import Change
from espalier.model.errors import EspalierError
from espalier.model.private import redacted
from espalier.passes.jobs.kinds import Done, Failed, JobEvent, LogLine, ReplayJob, Started, Stopped, Yielded

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LIMIT = 10_000  # lines
NUMBERS = re.compile(r"[\d.,\u2009]+")


def log_lines_of(session: Session) -> LogLines:
    """The session's LogLines, created once."""
    return session.findChild(LogLines) or LogLines(session)


class LogLines(QObject):
    """The newest lines; beyond LIMIT the oldest are dropped. `added(text, replaces)`: a new entry, which takes the
    place of the last line if it `replaces` it."""

    added = Signal(str, bool)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.lines: deque[str] = deque(maxlen=LIMIT)
        self._stem = ""
        session.job_event.connect(self.on_job_event)
        session.problem.connect(self.add_error)
        session.changed.connect(self.add_change)
        session.arranged.connect(self.add_change)

    def add(self, line: str) -> None:
        """Add a line with the time; it replaces the last line if they differ only in numbers."""
        line = redacted(line)
        stem = NUMBERS.sub("", line)
        replaces = stem == self._stem and stem != line
        self._stem = stem
        self._append([f"{time.strftime('%H:%M:%S')}  {line}"], replaces)

    def _add_details(self, text: str) -> None:
        """Add lines without the time, such as a traceback; the next line replaces none of them."""
        self._stem = ""
        self._append(text.rstrip().splitlines(), False)

    def _append(self, lines: list[str], replaces: bool) -> None:
        if replaces:
            self.lines.pop()
        self.lines.extend(lines)
        self.added.emit("\n".join(lines), replaces)

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
                self.add(f"{job.title}: {tr('continued') if job.waited else tr('started')}")
            case Yielded():
                self.add(tr("{}: waiting for another job, after {}", job.title, duration(job.worked(time.monotonic()))))
            case LogLine(text):
                self.add(f"{job.title}: {text}")
            case Done():
                self.add(tr("{}: done in {}", job.title, duration(job.took)))
            case Failed(message=message, details=details):
                self.add(tr("{}: failed: {}", job.title, message))
                if details:
                    self._add_details(details)
            case Stopped():
                self.add(tr("{}: stopped", job.title))
            case _:
                pass

    def add_error(self, error: EspalierError) -> None:
        """Add a line for an error that was shown."""
        self.add(error_text(error))

    def add_change(self, change: Change) -> None:
        """Add a line for an edit."""
        self.add(change.label)
