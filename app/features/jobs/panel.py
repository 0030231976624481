"""Jobs panel: all jobs of this run with status, remaining time, outcome and log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from espalier.app.features.jobs.state import job_list_of
from espalier.app.jobs.status import can_keep, status_text
from espalier.app.session.repeats import difference
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided, empty_state, link, muted, warning
from espalier.app.widgets.lines import Lines
from espalier.app.widgets.progress import Bar
from espalier.model.errors import EspalierError
from espalier.passes.jobs.kinds import JobInfo, SearchJob, SweepJob

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LOG_LINES = 5000  # shown of a log
EMPTY = tr("No jobs yet. Opening, evaluating and measuring appear here while they run.")


class JobRow(QFrame):
    """One job: title, status, a progress bar while it runs, Stop, and for a training Stop and keep."""

    chosen = Signal(int)

    def __init__(self, session: Session, job: JobInfo) -> None:
        super().__init__()
        self.job = job
        self._title, self._status = Elided(job.title, "strong"), QLabel()
        self._status.setProperty("role", "muted")
        self._status.setTextFormat(Qt.TextFormat.PlainText)
        self._stop = link(tr("Stop"), lambda: session.cancel(job.id))
        self._stop.setAccessibleName(tr("Stop {}", job.title))
        keeps_partial = isinstance(job.job, SweepJob | SearchJob)
        self._stop.setToolTip(tr("Stop now and {} partial results", tr("keep") if keeps_partial else tr("discard")))
        self._keep = link(tr("Stop and keep"), self._stop_and_keep)
        self._keep.setAccessibleName(tr("Stop {} and keep the best weights", job.title))
        self._keep.setToolTip(tr("Stop now and keep the best weights so far"))
        self._session, self.failed = session, False
        self._bar = Bar()
        self._only_running: list[QWidget] = [self._stop, self._keep, self._bar]
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(12, 3, 12, 3)
        self._box.setSpacing(3)
        line = QHBoxLayout()
        self._box.addLayout(line)  # added while empty: otherwise PySide keeps items of deleted widgets
        line.addWidget(self._title)
        line.addStretch(1)
        self._title.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        line.addWidget(self._status)
        line.addWidget(self._keep)
        line.addWidget(self._stop)
        self._line = line
        self._again: tuple[QLabel, QPushButton] | None = None  # created when the job has ended
        self._box.addWidget(self._bar)
        self.refresh(time.monotonic())

    def refresh(self, now: float) -> None:
        """Show the status of the job."""
        self._status.setText(status_text(self.job, now, elapsed=True))
        if self.job.finished is not None:
            self._drop_controls()
            self.offer_again()
            return
        self._keep.setVisible(can_keep(self.job))
        p = self.job.progress
        known = p is not None and p.total > 1
        busy = self.job.state == "running" and not known
        self._bar.show_done(p.done if p and known else 0, 0 if busy else (p.total if p and known else 1))

    def _drop_controls(self) -> None:
        """Delete the controls of a job that has ended: the list keeps many rows."""
        while self._only_running:
            widget = self._only_running.pop()
            widget.hide()
            widget.deleteLater()

    def offer_again(self) -> None:
        """Offer to repeat an ended job, if that is possible, and say whether the state has changed since."""
        document, repeat = self._session.document, self._session.repeats.of(self.job)
        if self.job.finished is None or (repeat is None and self._again is None):
            return
        if self._again is None:
            again = link(tr("Run again"), self._run_again)
            again.setAccessibleName(tr("Run {} again", self.job.title))
            self._again = muted(tr("· state changed"), wrap=False), again
            for widget in self._again:
                self._line.addWidget(widget)
        differs, again = self._again
        again.setVisible(repeat is not None)
        changes = difference(repeat.recipe, document.recipe) if repeat and document else ""
        differs.setVisible(bool(changes))
        since = tr("Since this run: {}.", changes)
        differs.setToolTip(since)
        again.setToolTip(tr("Run with the same options on the present state. {}", since if changes else "").strip())

    def _run_again(self) -> None:
        """Repeat the job; the log of the new one says by what its state differs."""
        session, repeat = self._session, self._session.repeats.of(self.job)
        if repeat is None or session.document is None:
            return
        changes, before = difference(repeat.recipe, session.document.recipe), {j.id for j in session.jobs}
        try:
            repeat.run()
        except EspalierError as error:
            session.problem.emit(error)
            return
        new = [j for j in session.jobs if j.id not in before]
        if new:
            state = tr("the state differs: {}", changes) if changes else tr("the state is the same")
            new[-1].log.append(tr("Run again with the options of an earlier run; {}.", state))

    def _stop_and_keep(self) -> None:
        """Request the end of the job after its current step, once."""
        self._keep.setEnabled(False)
        self._keep.setText(tr("Ends after this step"))
        self._session.stop_and_keep(self.job.id)

    def fail(self, message: str) -> None:
        """Show the error below the line."""
        self.failed = True
        note = warning()
        note.setText(message)
        self._box.addWidget(note)
        note.show()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.chosen.emit(self.job.id)
        super().mousePressEvent(event)


class JobsPanel(QWidget):
    """The list of jobs, newest first, and the log of the chosen job."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._jobs = session, job_list_of(session)
        self._rows: dict[int, JobRow] = {}
        self._empty = empty_state(EMPTY)
        self._list = QVBoxLayout()
        self._list.setContentsMargins(0, 6, 0, 6)
        self._list.setSpacing(2)
        self._list.addWidget(self._empty)
        self._list.addStretch(1)
        self._log = Lines(LOG_LINES, tr("The log of the chosen job."))
        self._build()
        self._connect()
        for number in self._jobs.entries:
            self._add(number)
        self._show_log()

    def _connect(self) -> None:
        jobs, session = self._jobs, self._session
        jobs.added.connect(self._add)
        jobs.removed.connect(self._remove)
        jobs.updated.connect(self._update)
        jobs.chosen.connect(self._show_log)
        jobs.logged.connect(self._log.add)
        jobs.ticked.connect(self._tick)
        session.changed.connect(lambda _: self._offer_again())
        session.opened.connect(self._offer_again)

    def _offer_again(self) -> None:
        """Update what ended jobs offer, because the state has changed."""
        for row in self._rows.values():
            row.offer_again()

    def _build(self) -> None:
        inner = QWidget()
        inner.setProperty("surface", "panel")
        inner.setLayout(self._list)
        area = QScrollArea(widgetResizable=True)
        area.setWidget(inner)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(area)
        split.addWidget(self._log)
        split.setSizes([640, 360])
        split.setHandleWidth(1)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(split)

    def _add(self, number: int) -> None:
        entry = self._jobs.entries[number]
        row = self._rows[number] = JobRow(self._session, entry.job)
        if entry.failure:
            row.fail(entry.failure)
        row.chosen.connect(self._jobs.choose)
        self._list.insertWidget(0, row)
        self._empty.hide()

    def _remove(self, number: int) -> None:
        row = self._rows.pop(number)
        row.hide()
        row.deleteLater()

    def _update(self, number: int) -> None:
        row, failure = self._rows[number], self._jobs.entries[number].failure
        if failure and not row.failed:
            row.fail(failure)
        row.refresh(time.monotonic())

    def _show_log(self) -> None:
        """Show the log of the chosen job."""
        job = self._jobs.choice
        self._log.setPlainText("\n".join(job.log[-LOG_LINES:]) if job else "")
        bar = self._log.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _tick(self) -> None:
        now = time.monotonic()
        for row in self._rows.values():
            if row.job.finished is None:
                row.refresh(now)
