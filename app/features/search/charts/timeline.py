"""Timeline of trials by worker: bars in the colour of their state; running ones grow."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from typing_extensions import override

from espalier.app.features.search.charts.chart import BETWEEN, StudyChart
from espalier.app.features.search.charts.marks import Segments
from espalier.app.figures.study.data import COMPLETE, FAILED, PRUNED, RUNNING
from espalier.app.number_text import count, duration
from espalier.app.theme import CATEGORIES, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import pen
from espalier.app.widgets.charts.metrics import spacing
from espalier.model.data.base import Array

TALL = 0.76  # height of a bar within its lane
GROW = 500  # milliseconds between two updates of running bars
HERE = tr("this machine")
KINDS = ("complete", "breaks a constraint", "ended early", "failed", "running", "not measured")
RUNS = KINDS.index("running")
RARE = KINDS.index("failed")


class TimelineChart(StudyChart):
    """A lane per worker; time from the start of the first trial."""

    name: ClassVar[str] = "Timeline"
    growing = True

    def __init__(self) -> None:
        self._lanes: dict[str, int] = {}
        self._lane: Array = np.zeros(0)
        super().__init__()
        self._clock = QTimer(self, interval=GROW)
        self._clock.timeout.connect(self._grow)

    def colours(self, look: Palette) -> tuple[str, ...]:
        """Colours of the kinds, in order."""
        return look.bar, look.edge, CATEGORIES["add"], look.bad, look.accent, look.muted

    @override
    def empty(self) -> str:
        if len(self.study) and not (self.study.facts["started"] > 0).any():
            return tr("These trials have no start times.")
        return super().empty()

    @override
    def legend(self) -> str:
        kinds = self._kinds()
        many = [(kind, colour, int((kinds == i).sum()))
                for i, (kind, colour) in enumerate(zip(KINDS, self.colours(self.look), strict=True))]  # fmt: skip
        entries = [
            f'<span style="color:{colour}">■</span> {tr(kind)} {count(number)}'
            for kind, colour, number in many
            if number
        ]
        return f'<span style="color:{self.look.muted}">{" &nbsp; ".join(entries)}</span>'

    @override
    def axes(self, palette: Palette) -> None:
        super().axes(palette)
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        left.setGrid(False)
        left.setWidth(84)
        bottom.tickSpacing = lambda low, high, size: [(_unit(high - low, size / BETWEEN[1]), 0)]
        bottom.tickStrings = lambda values, scale, gap: [_clock(v) for v in values]

    @override
    def build(self, palette: Palette) -> None:
        colours = self.colours(palette)
        self._ended = Segments(self.plot, [pen(c) for c in colours], TALL)
        self._running = Segments(self.plot, [pen(c) for c in colours], TALL)

    @override
    def fill(self, fresh: Sequence[int] | None) -> None:
        redraw = fresh is None or any(p < len(self._drawn) and self._drawn[p] for p in fresh)
        if fresh is None:
            self._lanes, self._lane = {}, np.zeros(0)
        begun = len(self._lane)
        more = [self._lanes.setdefault(t.worker or HERE, len(self._lanes)) for t in self.study.trials[begun:]]
        self._lane = np.append(self._lane, np.array(more, float))
        if more or not begun:
            self.plot.getAxis("left").setTicks([[(lane, _short(name)) for name, lane in self._lanes.items()]])
        kinds = self._kinds()
        self._drawn = (kinds >= 0) & (kinds != RUNS)
        indices = np.arange(len(self.study)) if redraw or fresh is None else np.array(fresh, int)
        (self._ended.put if redraw else self._ended.add)(*self._bars(indices[self._drawn[indices]], kinds))
        self._grow_bars()
        self._watch()

    _drawn: Array = np.zeros(0, bool)

    def _bars(self, indices: Array, kinds: Array) -> tuple[Array, ...]:
        """End points of bars and their kinds, rare ones on top."""
        indices = indices[np.argsort(np.isin(kinds[indices], RARE), kind="stable")]
        begin, end = self._spans()
        return begin[indices], self._lane[indices], end[indices], self._lane[indices], kinds[indices]

    def _kinds(self) -> Array:
        """Index of each trial's kind."""
        study = self.study
        kinds = np.select([study.state == FAILED, study.state == PRUNED, study.state == RUNNING], [3, 2, 4], 0)
        kinds[(study.state == COMPLETE) & ~study.feasible] = 1
        kinds[study.facts["unmeasured"] > 0] = KINDS.index("not measured")
        kinds[~(study.facts["started"] > 0)] = -1
        return kinds

    def _grow_bars(self) -> None:
        """Update the bars of running trials."""
        kinds = self._kinds()
        which = np.flatnonzero(kinds[: len(self._lane)] == RUNS)
        if len(which) or len(self._running):
            self._running.put(*self._bars(which, kinds))

    def _spans(self) -> tuple[Array, Array]:
        """(start, end) in seconds from the first start; running trials end now."""
        started = self.study.facts["started"]
        there = started[started > 0]
        begin = started - (there.min() if len(there) else 0.0)
        took = self.study.facts["seconds"].copy()
        running = self.study.state == RUNNING
        took[running] = np.maximum(time.time() - started[running], 0.0)
        return begin, begin + np.nan_to_num(took)

    def _watch(self) -> None:
        """Run the timer only while a trial runs and the chart is visible."""
        if self.isVisible() and (self.study.state == RUNNING).any():
            self._clock.start()
        else:
            self._clock.stop()

    def _grow(self) -> None:
        self._grow_bars()
        self._fit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._watch()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._clock.stop()

    @override
    def ends(self) -> tuple[float, float, float, float] | None:
        if not len(self.study) or not (self.study.facts["started"] > 0).any():
            return None
        begin, end = self._spans()
        there = self.study.facts["started"] > 0
        return float(begin[there].min()), float(end[there].max()), -0.5, max(len(self._lanes), 1) - 0.5

    @override
    def spots(self) -> tuple[Array, Array, Array]:
        if not len(self.study):
            return super().spots()
        begin, end = self._spans()
        many = len(self._lane)  # newer trials are not drawn yet
        y = np.where(self.study.facts["started"][:many] > 0, self._lane, np.nan)
        return (begin + end)[:many] / 2, y, np.arange(many)

    def near(self, at: QPointF) -> int | None:
        """The trial of the bar under the pointer."""
        if not len(self.study):
            return None
        point = self.plot.vb.mapSceneToView(self.mapToScene(at.toPoint()))
        begin, end = self._spans()
        away = np.abs(self._lane - point.y()) <= TALL / 2
        slack = self.plot.vb.viewPixelSize()[0] * 2
        inside = (begin - slack <= point.x()) & (point.x() <= end + slack)
        indices = np.flatnonzero(away & inside[: len(away)])
        return int(indices[-1]) if len(indices) else None


def _unit(span: float, room: float) -> float:
    """Seconds between two ticks: round seconds, minutes or hours."""
    wish = span / max(room, 1.0)
    rounds = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
    return next((float(s) for s in rounds if s >= wish), spacing(span, room)) if wish > 0.5 else spacing(span, room)


def _clock(seconds: float) -> str:
    """Text of a time since the start; empty before it."""
    return re.sub(" 0\u2009(s|min)$", "", duration(seconds)) if seconds > 0 else "0" * (seconds == 0)


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"…{name[-11:]}"
