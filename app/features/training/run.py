"""Progress of the running training, with Pause, Stop and keep, Cancel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from espalier.app.number_text import count, duration, left, metric
from espalier.app.translation import message, tr
from espalier.app.widgets.heading import Elided
from espalier.app.widgets.progress import Bar
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo
from espalier.passes.tasks.base import all_metrics
from espalier.passes.training.curve import VALIDATION

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TRAINING = {tr("loss"): "training loss", tr("rate"): "learning rate"}


def figures() -> dict[str, dict[str, str]]:
    """Line → label of a metric → its series, in the order of the tasks' metrics."""
    titles = dict.fromkeys(tr(metric.title) for metric in all_metrics().values())
    return {"validation": {title: VALIDATION + title for title in titles}, "training": TRAINING}


def stage(job: JobInfo) -> str:
    """Status text of a training job: stage and step."""
    if job.state == "waiting":
        return tr("Queued")
    done = job.progress
    text = message(done.text) if done and done.text else tr("running")
    at = tr(" · step {} of {}", count(done.done), count(done.total)) if done and done.total > 1 else ""
    return f"{tr('Paused') if job.state == 'paused' else text.capitalize()}{at}"


class TrainingRun(QWidget):
    """Progress of one job; hidden without one."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.job: JobInfo | None = None
        self.status, self.times = Elided("", "strong"), QLabel()
        self.times.setProperty("role", "muted")
        self.figures = [Elided("", "muted") for _ in figures()]
        self.bar = Bar()
        self.pause = QPushButton(tr("Pause"))
        self.keep = QPushButton(tr("Stop and keep"))
        self.cancel = QPushButton(tr("Cancel"))
        self._clock = QTimer(self, interval=500)
        self._clock.timeout.connect(self.refresh)
        self._build()
        session.job_event.connect(self._on_event)
        self.hide()

    def _build(self) -> None:
        self.pause.setToolTip(tr("Pause after the current step; the processor is free meanwhile"))
        self.keep.setToolTip(tr("Stop now and keep the best weights so far"))
        self.cancel.setToolTip(tr("Stop now and discard the result"))
        self.pause.clicked.connect(self._pause)
        self.keep.clicked.connect(self._keep)
        self.cancel.clicked.connect(lambda: self.job and self._session.cancel(self.job.id))
        row = QHBoxLayout()
        row.setSpacing(6)
        for button in (self.pause, self.keep, self.cancel):
            row.addWidget(button)
        row.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 4, 0, 0)
        box.setSpacing(5)
        for widget in (self.status, self.bar, self.times, *self.figures):
            box.addWidget(widget)
        box.addLayout(row)

    def follow(self, job: JobInfo) -> None:
        """Follow a job until it ends."""
        self.job = job
        self.keep.setEnabled(True)
        self.keep.setText(tr("Stop and keep"))
        self.show()
        self._clock.start()
        self.refresh()

    def _on_event(self, job_event: JobEvent) -> None:
        if job_event.job is not self.job:
            return
        if isinstance(job_event.event, TERMINAL):
            self.job = None
            self._clock.stop()
            self.hide()

    def refresh(self) -> None:
        """Update the progress."""
        job = self.job
        if job is None:
            return
        now, done = time.monotonic(), job.progress
        self.status.show_text(stage(job))
        counted = done is not None and done.total > 1
        unknown = 0 if job.state == "running" else 1
        self.bar.show_done(*((done.done, done.total) if done and counted else (0, unknown)))
        remaining = job.remaining(now)
        self.times.setText(
            tr("{} so far", duration(max(job.worked(now), 0.01))) + (f" · {left(remaining)}" if remaining else "")
        )
        for line, (on, names) in zip(self.figures, figures().items(), strict=True):
            parts = [f"{n} {metric(of, job.metrics[of][-1][1])}" for n, of in names.items() if job.metrics.get(of)]
            line.show_text(f"{on}: {' · '.join(parts)}" if parts else "")
        self.pause.setText(tr("Continue") if job.state == "paused" else tr("Pause"))
        started = bool(job.metrics)
        self.pause.setEnabled(job.state != "waiting" and started)
        self.keep.setVisible(started)

    def _pause(self) -> None:
        if self.job and self.job.state == "paused":
            self._session.resume(self.job.id)
        elif self.job:
            self._session.pause(self.job.id)

    def _keep(self) -> None:
        if self.job:
            self.keep.setEnabled(False)
            self.keep.setText(tr("Stopping after this step"))
            self._session.stop_and_keep(self.job.id)
