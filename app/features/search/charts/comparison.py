"""Several studies by one metric: the best so far of each, or mean and deviation over the seeds of each sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF
from typing_extensions import override

from espalier.app.features.search.charts.chart import StudyChart
from espalier.app.features.search.charts.study_view import Option, figure_option
from espalier.app.figures.curves import line_style
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.labels import title, value_words
from espalier.app.number_text import plural
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import dashed, lighter, pen, tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.model.data.base import Array
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Compared:
    """A compared study; studies of one `group` (a sampler) are its seeds and make one line."""

    name: str
    group: str
    trials: tuple[Trial, ...]
    goals: tuple[Goal, ...]


class ComparisonChart(StudyChart):
    """Best so far by number of trials, with a band of one standard deviation for groups of several studies."""

    name: ClassVar[str] = "Comparison"
    fields: ClassVar[Mapping[str, str]] = {"figure": "y_name", "each study": "single", "log": "log_y"}

    def __init__(self) -> None:
        self.others: tuple[Compared, ...] = ()
        self.single = False
        self.lines: dict[str, Array] = {}  # label → [study, trial]
        super().__init__()
        self.x_name = "trials"

    @override
    def options(self) -> list[Option]:
        each = Option("each study", hint=tr("One line per study instead of per sampler"))
        return [figure_option("figure", self._figures()), each, Option("log")]

    @override
    def redraw(self) -> None:
        self.show_others(self.others)

    def show_others(self, others: Sequence[Compared]) -> None:
        """Compare these studies."""
        self.others = tuple(others)
        figures = self._figures()
        if self.y_name not in figures:
            self.y_name = figures[0] if figures else ""
        self.lines = self._lines()
        self._free = False
        self.draw(self.look)

    def show_study(self, study: Study) -> None:
        """Take the axes of the board's study, which is not compared by itself."""
        self.study = study
        self.show_others(self.others)

    def append(self, indices: Sequence[int]) -> None:
        """Do nothing: `show_others` sets the studies."""

    def _figures(self) -> list[str]:
        return list(dict.fromkeys(g.figure for c in self.others for g in c.goals))

    @override
    def empty(self) -> str:
        if not self.others:
            return tr(
                "Choose two or more studies to compare their best so far by one metric; repeated seeds make a band."
            )
        return "" if self.lines else tr("None of these studies has a value of {} yet.", title(self.y_name))

    def _lines(self) -> dict[str, Array]:
        """Best so far of all studies by group, each extended with its last value to the longest one."""
        by_label: dict[str, list[Array]] = {}
        for other in self.others:
            if any(g.figure == self.y_name for g in other.goals):
                study = Study(sorted(other.trials, key=lambda t: t.number), other.goals)
                best = study.best(self.y_name)[study.state >= COMPLETE]
                if np.isfinite(best).any():
                    by_label.setdefault(other.name if self.single else other.group or other.name, []).append(best)
        return {k: _even(rows) for k, rows in by_label.items()}

    def colour(self, index: int) -> str:
        """The colour of a line."""
        return lighter(line_style(index)[0], self.look)

    @override
    def legend(self) -> str:
        entries: list[str] = []
        for index, (label, rows) in enumerate(self.lines.items()):
            last = rows[:, -1]
            spread = f" ± {value_words(self.y_name, float(last.std(ddof=1)))}" if len(rows) > 1 else ""
            value = f"{value_words(self.y_name, float(last.mean()))}{spread}"
            many = tr(", {} studies", len(rows)) if len(rows) > 1 else ""
            entries.append(f'<span style="color:{self.colour(index)}">━ {escape(label)}</span> {value}{many}')
        if entries and self.y_name in self.study.baseline:
            value = value_words(self.y_name, self.study.baseline[self.y_name])
            entries.append(tr('<span style="color:{}">╌ baseline {}</span>', self.look.muted, value))
        return " &nbsp; ".join(entries)

    @override
    def build(self, palette: Palette) -> None:
        for index, rows in enumerate(self.lines.values()):
            self._line(index, rows)
        level = self.study.baseline.get(self.y_name)
        if level is not None and (level > 0 or not self.log_y):
            self.plot.addItem(pg.InfiniteLine(np.log10(level) if self.log_y else level, 0, pen=dashed(palette.muted)))

    def _line(self, index: int, rows: Array) -> None:
        x = np.repeat(np.arange(1, rows.shape[1] + 1), 2)[1:]  # steps: the best stays until a trial is better
        mean, low, high = (np.repeat(self.scaled(v, self.log_y), 2)[:-1] for v in _band(rows))
        colour = self.colour(index)
        if len(rows) > 1:
            ends = [pg.PlotCurveItem(x, v, pen=pen(colour, 0.6, 120), connect="finite") for v in (low, high)]
            for item in (*ends, pg.FillBetweenItem(*ends, brush=tint(colour, 45))):
                self.plot.addItem(item)
        stroke = pen(colour)
        if dashes := line_style(index)[1]:
            stroke.setDashPattern([d / 1.8 for d in dashes])
        self.plot.addItem(pg.PlotCurveItem(x, mean, pen=stroke, connect="finite"))

    @override
    def ends(self) -> tuple[float, float, float, float] | None:
        if not self.lines:
            return None
        bands = [self.scaled(v, self.log_y) for rows in self.lines.values() for v in _band(rows)]
        values = np.concatenate([b[np.isfinite(b)] for b in bands])
        longest = max(rows.shape[1] for rows in self.lines.values())
        return 1.0, max(float(longest), 2.0), float(values.min()), float(values.max())

    def words_of(self, trial: int) -> str:
        """The best of each study or sampler after a number of trials, as text."""
        texts: list[str] = []
        for label, rows in self.lines.items():
            if 1 <= trial <= rows.shape[1]:
                reached = rows[:, trial - 1]
                spread = f" ± {value_words(self.y_name, float(reached.std(ddof=1)))}" if len(rows) > 1 else ""
                texts.append(f"{label} {value_words(self.y_name, float(reached.mean()))}{spread}")
        return "\n".join([tr("After {}", plural(trial, "trial")), *texts]) if texts else ""

    @override
    def near(self, at: QPointF) -> int | None:
        return None  # a line consists of many trials

    @override
    def hover_text(self, at: QPointF) -> str:
        return self.words_of(round(self.plot.vb.mapSceneToView(self.mapToScene(at.toPoint())).x()))

    def table(self) -> Table:
        """A row for each number of trials: mean, deviation and studies of each line."""
        longest = max((rows.shape[1] for rows in self.lines.values()), default=0)
        head = ["trials"]
        columns: list[list[object]] = [list(range(1, longest + 1))]
        for label, rows in self.lines.items():
            head += [label, f"{label} deviation", f"{label} studies"]
            spread = rows.std(0, ddof=1) if len(rows) > 1 else np.zeros(rows.shape[1])
            for column in (rows.mean(0).tolist(), spread.tolist(), [len(rows)] * rows.shape[1]):
                columns.append([*column, *[""] * (longest - rows.shape[1])])
        return tuple(head), list(zip(*columns, strict=True))


def _even(rows: Sequence[Array]) -> Array:
    """Rows of equal length, extended with their last values."""
    longest = max(map(len, rows))
    return np.stack([np.append(r, np.full(longest - len(r), r[-1])) for r in rows])


def _band(rows: Array) -> tuple[Array, Array, Array]:
    """Mean, and one standard deviation below and above."""
    spread = rows.std(0, ddof=1) if len(rows) > 1 else np.zeros(rows.shape[1])
    return rows.mean(0), rows.mean(0) - spread, rows.mean(0) + spread
