"""The results of a study: head, charts and trials, and the preview of a trial on the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.features.search.charts.comparison import Compared, ComparisonChart
from espalier.app.features.search.head import SearchHead
from espalier.app.features.search.state.searches import Study
from espalier.app.features.search.trials import SearchTrials
from espalier.app.translation import tr
from espalier.app.widgets.adaptive_splitter import AdaptiveSplitter
from espalier.passes.figure import OPENED
from espalier.passes.search.spec import trains
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.app.features.search.state.trial_preview import TrialPreview

WIDE = 1000  # pixels from which charts and trials are side by side
AS_PROJECT = tr("As a project…")  # action for a trial of another architecture
COMPARISON = ComparisonChart.name


class SearchResults(QWidget):
    """`used`: apply this trial."""

    used = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.study: Study | None = None
        self._drawn: tuple[object, ...] = ()  # key of the shown search
        self.preview: TrialPreview | None = None
        self.head, self.trials, self.board = SearchHead(), SearchTrials(), StudyBoard()
        box = QVBoxLayout(self)  # outermost first: a reparented widget is styled again
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        self.split = AdaptiveSplitter(WIDE, (2, 1))
        box.addWidget(self.head)
        box.addWidget(self.split, 1)
        self.split.add(self.board, self.trials)
        self.trials.chosen.connect(self._chosen)
        self.trials.used.connect(self.used)
        self.trials.exited.connect(self.leave)
        self.board.picked.connect(self.trials.choose)
        self.board.hovered.connect(self._hover)
        self.board.applied.connect(self.used)

    def show_study(self, study: Study | None) -> None:
        """Show a study; unchanged charts are kept."""
        key = (study.spec.goals, study.spec.within, study.space.choices) if study else ()
        if study and study is self.study and key == self._drawn:
            return
        self.study, self._drawn = study, key
        trials = list(study.trials.values()) if study else []
        goals = study.spec.goals if study else ()
        self.trials.use.setText(AS_PROJECT if study and study.other else tr("Apply"))
        self.trials.table.rows.baseline = (study.baseline, study.against) if study else ({}, {})
        self.trials.begin(goals, trials, study.best if study else frozenset(), study.spec.within if study else ())
        self.board.show_study(trials, goals, study.space.choices if study else (),
                              baseline=study.baseline if study else None,
                              named=str(study.against.get("name", OPENED)) if study else OPENED,
                              within=study.spec.within if study else (),
                              counted="steps" if study and trains(study.spec, study.recipe) else "samples")  # fmt: skip
        self.end_preview()

    def take(self, news: Sequence[Trial]) -> None:
        """Add trials of the shown study."""
        if self.study and news:
            self.trials.take(news, self.study.best)
            for trial in news:
                self.board.append(trial)

    def compare(self, studies: Sequence[Study], show: bool = False) -> None:
        """Compare studies; those that differ only in their seed are one line. `show`: switch to the chart."""
        self.board.compare([
            Compared(s.name, s.name.partition(" · seed")[0], tuple(s.trials.values()), s.spec.goals) for s in studies
        ])  # fmt: skip
        tiles = self.board.visible_tiles
        if show and all(t.kind.get() != COMPARISON for t in tiles):
            tiles[-1].kind.put(COMPARISON)
            tiles[-1].kind.edited.emit()

    def update_texts(self) -> None:
        """Update the texts of the head."""
        self.head.show_study(self.study)
        self.trials.table.rows.pause(bool(self.study and self.study.paused))
        self.head.apply.setText(
            tr("The best as a project…") if self.study and self.study.other else tr("Apply the best")
        )
        self.head.setVisible(self.study is not None)

    def _chosen(self, trial: Trial) -> None:
        self.board.pick(trial.number)
        if self.preview and self.study:
            self.preview.pin(self.study.space, trial)

    def _hover(self, trial: Trial | None) -> None:
        if self.preview:
            self.preview.hover(self.study.space if self.study else None, trial)

    def leave(self) -> None:
        """Deselect the trial."""
        self.board.pick(None)
        self.end_preview()

    def end_preview(self) -> None:
        """End the preview."""
        if self.preview:
            self.preview.end()
