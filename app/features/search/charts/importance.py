"""Importance of choices for a study's goals, as bars, computed in a separate process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QProcess, QProcessEnvironment, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QHideEvent, QKeyEvent, QPainter, QShowEvent, QWheelEvent
from typing_extensions import override

from espalier.app.features.search.charts.painted_chart import PaintedChart, elided
from espalier.app.features.search.charts.study_view import Option
from espalier.app.figures.choices import asked
from espalier.app.figures.curves import COLOURS
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.importance_process import MIN_TRIALS
from espalier.app.figures.study.labels import title
from espalier.app.figures.study.short_names import short_names
from espalier.app.number_text import count, percent
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import lighter
from espalier.app.widgets.charts.chart_export import Table

ROOT = Path(__file__).parents[5]  # import path
ROW, BAR, TOP = 26, 9, 6
AGAIN = 1.1  # recomputed for this factor of more trials …
PAUSE = 4000  # … and at least this many milliseconds later
METHODS = {"ped": "PED-ANOVA", "fanova": "fANOVA"}
RIGHT = Qt.AlignmentFlag.AlignRight


class ImportanceChart(PaintedChart):
    """Bars per goal, the most important choice at the top."""

    name: ClassVar[str] = "Importance"
    fields: ClassVar[Mapping[str, str]] = {"goal": "goal", "method": "method"}

    def __init__(self) -> None:
        self.goal, self.method = "", "ped"
        self.importances: dict[str, dict[str, float]] = {}
        self.problem = ""
        self._of = 0  # number of complete trials of `importances`
        self._first = 0
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._process: QProcess | None = None
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self._compute)

    # -- the head

    @override
    def options(self) -> list[Option]:
        goals = self._goals()
        return [Option("goal", ("", *goals), (tr("all goals"), *map(title, goals))),
                Option("method", tuple(METHODS), tuple(METHODS.values()), tr("Method of importance"))]  # fmt: skip

    @override
    def choose(self, name: str, value: Any) -> None:
        self._first = 0
        if name == "method":
            self.importances, self._of = {}, 0
            self._stop()
        super().choose(name, value)

    @override
    def legend(self) -> str:
        if not self.importances:
            return ""
        entries = [
            f'<span style="color:{self._colour(k)}">■</span> {escape(title(g))}' for k, g in enumerate(self._shown())
        ]
        text = " &nbsp; ".join(entries) + tr(" &nbsp; of {} complete trials", count(self._of))
        return f'<span style="color:{self.look.muted}">{text}{tr("; being updated") * self.busy}</span>'

    @override
    def empty(self) -> str:
        if not len(self.study):
            return super().empty()
        many = self._complete()
        if many < MIN_TRIALS:
            return tr("Importance needs {} complete trials; {} so far.", MIN_TRIALS, count(many))
        if not self.study.params.names:
            return tr("The trials chose nothing.")
        return self.problem

    # -- computing

    @property
    def busy(self) -> bool:
        """Whether importances are being computed."""
        return self._process is not None

    def _goals(self) -> list[str]:
        return [g.figure for g in self.study.goals if g.figure in self.study.figures]

    def _shown(self) -> list[str]:
        return [self.goal] if self.goal in self.importances else list(self.importances)

    def _complete(self) -> int:
        return int((self.study.state == COMPLETE).sum())

    @override
    def show_study(self, study: Study) -> None:
        self.importances, self._of, self.problem, self._first = {}, 0, "", 0
        self._stop()
        if self.goal not in [g.figure for g in study.goals]:
            self.goal = ""
        super().show_study(study)

    def take(self, fresh: Sequence[int] | None) -> None:
        """Compute importances if the chart is visible and there are enough new trials."""
        if self.isVisible() and self._complete() >= max(MIN_TRIALS, AGAIN * self._of) and not self.busy:
            if self._of and not self._wait.isActive():
                self._wait.start()
            elif not self._of:
                self._compute()

    def _job_input(self) -> bytes:
        """Input of the process: a line with names of choices and goals, then their columns (categories by index)."""
        about, columns = asked(self.study, self._goals(), self.method)
        return json.dumps(about).encode() + b"\n" + np.array(columns, np.float64).tobytes()

    def _compute(self) -> None:
        if self.busy or not self.isVisible() or self._complete() < MIN_TRIALS or not self._goals():
            return
        self._counting = self._complete()
        job_input = self._job_input()
        process = self._process = QProcess(self)
        process.setWorkingDirectory(str(ROOT))
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("OMP_NUM_THREADS", "1")
        environment.remove("PYTHONSAFEPATH")  # while a worker starts; it is started from this folder
        process.setProcessEnvironment(environment)
        process.finished.connect(lambda code, _: self._finished(process, code))
        process.errorOccurred.connect(lambda _: self._finished(process, -1))
        process.started.connect(lambda: (process.write(job_input), process.closeWriteChannel()))
        process.start(sys.executable, ["-m", "espalier.app.figures.study.importance_process"])
        self.changed.emit()

    _counting = 0

    def _finished(self, process: QProcess, code: int) -> None:
        if process is not self._process:
            return
        self._process = None
        output = bytes(process.readAllStandardOutput().data())
        problem = bytes(process.readAllStandardError().data()).decode(errors="replace").strip()
        process.deleteLater()
        self._of = self._counting
        try:
            self.importances = json.loads(output)
            self.problem = ""
        except ValueError:
            reason = problem.splitlines()[-1] if problem else tr("it ended with {}", code)
            self.problem = tr(
                "Importance could not be computed ({}). Choose the other method, or try again later.", reason
            )
        self.refresh()
        self.changed.emit()

    def _stop(self) -> None:
        """End the process, whose result is outdated."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.waitForFinished(2000)
            process.deleteLater()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.take(None)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._wait.stop()
        self._stop()

    # -- drawing

    def rows(self) -> list[str]:
        """Choices sorted by importance, summed over the shown goals."""
        goals = self._shown()
        names = {n: sum(self.importances[g].get(n, 0.0) for g in goals) for n in self.study.params.names}
        return sorted(names, key=lambda n: -names[n])

    def _colour(self, index: int) -> str:
        return lighter(COLOURS[index % len(COLOURS)], self.look)

    def _step(self) -> float:
        return max(ROW, BAR * len(self._shown()) + 8)

    def _fitting(self) -> int:
        return max(int((self.height() - TOP) / self._step()), 1)

    @override
    def paint(self, painter: QPainter) -> None:
        if not self.importances:
            painter.setPen(QColor(self.look.muted))
            text = (
                tr("Importance is being computed…")
                if self.busy
                else tr("Importance is computed once this chart is visible.")
            )
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, text)
            return
        names, goals, step = self.rows(), self._shown(), self._step()
        short = short_names([self.study.scales[n].choice for n in names])
        metrics = painter.fontMetrics()
        left = min(max(metrics.horizontalAdvance(t) for t in short.values()) + 20.0, self.width() * 0.4)
        largest = max((v for g in goals for v in self.importances[g].values()), default=1.0) or 1.0
        wide = self.width() - left - 56
        for row, name in enumerate(names[self._first : self._first + self._fitting()]):
            y = TOP + row * step
            painter.setPen(QColor(self.look.text))
            elided(painter, QRectF(8, y, left - 16, step), short[name], RIGHT, Qt.TextElideMode.ElideLeft)
            tall = min(BAR + 4, (step - 8) / max(len(goals), 1))
            for k, goal in enumerate(goals):
                importance = self.importances[goal].get(name, 0.0)
                top = y + step / 2 - tall * len(goals) / 2 + k * tall
                painter.fillRect(
                    QRectF(left, top, max(wide * importance / largest, 1), tall - 1), QColor(self._colour(k))
                )
                painter.setPen(QColor(self.look.muted))
                if tall >= BAR:
                    elided(
                        painter,
                        QRectF(left + wide * importance / largest + 6, top - 2, 50, tall + 3),
                        percent(importance),
                    )
        if len(names) > self._fitting():
            self._tell_more(painter, len(names))

    def _tell_more(self, painter: QPainter, many: int) -> None:
        painter.setPen(QColor(self.look.muted))
        last = min(self._first + self._fitting(), many)
        box = QRectF(0, self.height() - 16, self.width() - 8, 16)
        elided(painter, box, tr("{}–{} of {}: scroll", self._first + 1, last, many), RIGHT)

    # -- pointing

    def row_at(self, at: QPointF) -> str:
        """The choice under the pointer."""
        row = self._first + int((at.y() - TOP) // self._step())
        names = self.rows() if self.importances else []
        return names[row] if at.y() >= TOP and row < len(names) else ""

    @override
    def hover_text(self, at: QPointF) -> str:
        name = self.row_at(at)
        texts = [f"{title(g)} {percent(self.importances[g].get(name, 0.0))}" for g in self._shown()]
        return "\n".join([name, *texts]) if name else ""

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._scroll(-1 if event.angleDelta().y() > 0 else 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
        if event.key() in moves:
            self._scroll(moves[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def _scroll(self, rows: int) -> None:
        last = max(len(self.study.params.names) - self._fitting(), 0)
        self._first = min(max(self._first + rows, 0), last)
        self.refresh()

    def table(self) -> Table:
        """A row per choice, a column per goal."""
        goals = list(self.importances)
        return ("choice", *goals), [(n, *(self.importances[g].get(n, 0.0) for g in goals)) for n in self.rows()]
