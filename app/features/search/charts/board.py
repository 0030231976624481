"""A board of one to four charts of a study, which share hovered and picked trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from espalier.app.features.search.charts.choice_map import ChoiceMap
from espalier.app.features.search.charts.comparison import Compared, ComparisonChart
from espalier.app.features.search.charts.history import HistoryChart
from espalier.app.features.search.charts.importance import ImportanceChart
from espalier.app.features.search.charts.intermediate import IntermediateChart
from espalier.app.features.search.charts.parallel import ParallelChart
from espalier.app.features.search.charts.scatter import ParetoChart, SliceChart
from espalier.app.features.search.charts.tile import Tile
from espalier.app.features.search.charts.timeline import TimelineChart
from espalier.app.figures.study.data import Study
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice as Chooser
from espalier.passes.figure import OPENED
from espalier.passes.search.space import Choice
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial

PAUSE = 50  # milliseconds between two drawings: 20 a second
CHARTS = (HistoryChart, ParetoChart, ParallelChart, ImportanceChart, SliceChart, ChoiceMap, IntermediateChart,
          TimelineChart, ComparisonChart)  # fmt: skip
KINDS: dict[str, Callable[[], Any]] = {c.name: c for c in CHARTS}
LAYOUTS = {1: ((0, 0),), 2: ((0, 0), (0, 1)), 3: ((0, 0), (0, 1), (1, 0)), 4: ((0, 0), (0, 1), (1, 0), (1, 1))}


class StudyBoard(QWidget):
    """`show_study` sets the study, `append` adds or updates a trial.

    Signals: `hovered(Trial | None)`: under the pointer; `picked(Trial)`: clicked; `applied(Trial)`: double-clicked.
    """

    hovered = Signal(object)
    picked = Signal(object)
    applied = Signal(object)
    brushed = Signal(object)  # trials selected by the brushes of parallel coordinates; None without a brush
    save_wanted = Signal(object)  # a tile

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.study = Study()
        self._fresh: dict[int, None] = {}
        self._pick: int | None = None
        self._others: tuple[Compared, ...] = ()
        self.tiles: list[Tile] = []
        self.many = Chooser(tuple(LAYOUTS), (tr("1 chart"), tr("2 charts"), tr("3 charts"), tr("4 charts")))
        self.many.setAccessibleName(tr("How many charts"))
        self.many.edited.connect(lambda: self.lay_out(self.many.get()))
        self._grid, self._bar = QGridLayout(), QHBoxLayout()
        self._grid.setContentsMargins(4, 0, 4, 4)
        self._grid.setSpacing(8)
        self._bar.setContentsMargins(8, 4, 8, 0)
        self._bar.addStretch(1)
        self._bar.addWidget(self.many)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(self._bar)
        box.addLayout(self._grid, 1)
        self._wait = QTimer(self, singleShot=True)
        self._wait.timeout.connect(self._draw_next)
        self._due: list[tuple[Tile, list[int]]] = []
        self.lay_out(2)

    def lay_out(self, count: int) -> None:
        """Show `count` charts."""
        self.many.put(count)
        names = list(KINDS)
        while len(self.tiles) < count:
            tile = Tile(KINDS, names[len(self.tiles) % len(names)])
            tile.setParent(self)  # a parent, since a widget without one is a window for a moment
            tile.hovered.connect(self.hovered)
            tile.picked.connect(self._picked)
            tile.applied.connect(self.applied)
            tile.save_wanted.connect(partial(self.save_wanted.emit, tile))
            tile.brushed.connect(self._brushed)
            tile.show_study(self.study)
            tile.compare(self._others)
            self.tiles.append(tile)
        for index, tile in enumerate(self.tiles):
            self._grid.removeWidget(tile)
            if index < count:
                row, column = LAYOUTS[count][index]
                self._grid.addWidget(tile, row, column, 1, 2 if count == 3 and index == 2 else 1)
            tile.setVisible(index < count)
        for line in range(2):
            self._grid.setColumnStretch(line, 1 if line < min(count, 2) else 0)
            self._grid.setRowStretch(line, 1 if line < (count + 1) // 2 else 0)
        self.draw_fresh()

    @property
    def visible_tiles(self) -> list[Tile]:
        """The visible tiles."""
        return self.tiles[: self.many.get()]

    def show_study(
        self,
        trials: Sequence[Trial],
        goals: Sequence[Goal],
        choices: Sequence[Choice] = (),
        *,
        baseline: Mapping[str, float] | None = None,
        named: str = OPENED,
        within: Sequence[str] = (),
        counted: str = "samples",
    ) -> None:
        """Draw a study; `baseline`: the score of the baseline called `named`; `within`: the constraints as text.

        `counted`: unit of intermediate values, samples or steps of a training.
        """
        self.study = Study(trials, goals, choices, baseline, within, counted, named)
        self._fresh.clear()
        self._due.clear()
        self._pick = None
        for tile in self.tiles:
            tile.show_study(self.study)

    def compare(self, studies: Sequence[Compared]) -> None:
        """Draw studies in the comparison."""
        for tile in self.tiles:
            tile.compare(studies)
        self._others = tuple(studies)

    def append(self, trial: Trial) -> None:
        """Add a trial; it is drawn with the next frame."""
        self._fresh[self.study.note(trial)] = None
        if not self._wait.isActive():
            self._wait.start(PAUSE)

    def draw_fresh(self) -> None:
        """Draw the trials added since the last frame."""
        self._gather()
        while self._due:
            self._draw_due()

    def _gather(self) -> None:
        """Queue the new trials for all charts."""
        if self._fresh and self.isVisible():
            indices = list(self._fresh)
            self._fresh.clear()
            self._due += [(tile, indices) for tile in self.tiles]

    def _draw_due(self) -> None:
        tile, indices = self._due.pop(0)
        tile.append(indices)

    def _draw_next(self) -> None:
        """Draw the new trials in one chart per turn of the event loop."""
        if not self._due:
            self._gather()
        if self._due:
            self._draw_due()
        if self._due or (self._fresh and self.isVisible()):
            self._wait.start(PAUSE // len(self.tiles) if self._due else PAUSE)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.draw_fresh()

    def pick(self, number: int | None) -> None:
        """Mark a trial picked elsewhere."""
        index = next((i for i, t in enumerate(self.study.trials) if t.number == number), None)
        self._mark(index)

    def _picked(self, trial: Trial) -> None:
        self.pick(trial.number)
        self.picked.emit(trial)

    def _brushed(self, mask: Any) -> None:
        """Emit the selected trials, and fade the others in charts that support it."""
        for tile in self.tiles:
            tile.dim(mask)
        trials = None if mask is None else [t for t, there in zip(self.study.trials, mask, strict=False) if there]
        self.brushed.emit(trials)

    def _mark(self, index: int | None) -> None:
        self._pick = index
        for tile in self.visible_tiles:
            tile.mark(index)
