"""The trials of a study as a table: filter, sort, copy, save, preview and apply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QHeaderView, QPushButton, QVBoxLayout, QWidget

from espalier.app.features.search.state.trial_rows import FILTERS, TrialRows
from espalier.app.figures.study.labels import state_text
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice, Line
from espalier.app.widgets.heading import link, muted
from espalier.app.widgets.table import RowsView, to_text
from espalier.model.files import write_text
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial

WIDEST = 190
WIDTHS = {"number": 76, "state": 118, "origin": 62, "seconds": 64}  # columns that change as trials end
REST = 200  # milliseconds between two batches of rows, since each repaints the whole table
LONGEST_NOTE = 500  # characters
PAD, CELLS = 32, 360  # pixels beside a text; number of cells measured for column widths


class TrialTable(RowsView):
    """Columns sized by their first rows. `exited`: Escape was pressed."""

    exited = Signal()

    def __init__(self) -> None:
        self.rows = TrialRows()
        super().__init__(self.rows)
        self.setAccessibleName(tr("Trials"))
        self.setTabKeyNavigation(False)  # Tab moves to the next widget
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)

    def fit(self) -> None:
        """Size the columns by their first rows."""
        rows, metrics = self.rows, self.fontMetrics()
        some = [rows.trials[n] for n in rows.shown[: max(CELLS // max(len(rows.columns), 1), 3)]]
        for i, column in enumerate(rows.columns):
            wide = WIDTHS.get(column.key)
            if wide is None:
                texts = {f"{column.title} ▾", *(column.text_of(column.of(t)) for t in some)}
                wide = min(max(max(map(metrics.horizontalAdvance, texts)) + PAD, 44), WIDEST)
            if wide != self.columnWidth(i):
                self.setColumnWidth(i, wide)

    def as_text(self, delimiter: str) -> str:
        """The selected rows (with one or none selected: all) as delimited text."""
        rows, columns = self.rows.table()
        return to_text([rows[i] for i in self.chosen()] or rows, columns, delimiter)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.exited.emit()
        else:
            super().keyPressEvent(event)


class SearchTrials(QWidget):
    """`chosen`: the trial of the chosen row; `used`: apply this trial; `exited`: no trial is chosen any more.

    `noted`: a trial, and the new note on it.
    """

    chosen = Signal(object)
    noted = Signal(object, str)
    used = Signal(object)
    exited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.table = TrialTable()
        self.picked: Trial | None = None
        self._fitted = 0
        self._coming: dict[int, Trial] = {}
        self._best: frozenset[int] = frozenset()
        self._rest = QTimer(self, singleShot=True, interval=REST)
        self._rest.timeout.connect(self.settle)
        self.filter = Choice(tuple(FILTERS), tuple(FILTERS.values()))
        self.filter.setAccessibleName(tr("Trials to show"))
        self.search = Line(tr("filter"))
        self.search.setAccessibleName(tr("Filter the trials"))
        self.search.setMaximumWidth(150)
        self.copy_link, self.save_link = link(tr("Copy"), self.table.copy), link(tr("CSV…"), lambda: None)
        self.copy_link.setToolTip(tr("Copy the selected trials, or all, as TSV"))
        self.words = muted("", wrap=True)
        self.note = Line(tr("Note on this trial"))
        self.note.setAccessibleName(tr("Note on this trial"))
        self.note.setMaxLength(LONGEST_NOTE)
        self.use = QPushButton(tr("Apply"))
        self.use.setToolTip(tr("Make this trial's configuration the recipe, in one step that can be undone"))
        head = QHBoxLayout()
        head.setContentsMargins(12, 4, 12, 0)
        head.setSpacing(6)
        for part in (self.filter, self.search):
            head.addWidget(part)
        head.addStretch(1)
        for part in (self.copy_link, self.save_link):
            head.addWidget(part)
        self.foot = QWidget()
        foot = QHBoxLayout(self.foot)
        foot.setContentsMargins(12, 0, 12, 4)
        foot.addWidget(self.words, 1)
        foot.addWidget(self.note, 1)
        foot.addWidget(self.use)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addLayout(head)
        box.addWidget(self.table, 1)
        box.addWidget(self.foot)
        self._connect()
        self._update_texts()

    def _connect(self) -> None:
        self.filter.edited.connect(self._filter)
        self.search.edited.connect(self._filter)
        self.use.clicked.connect(self.want)
        self.note.editingFinished.connect(self._write_note)
        self.table.selectionModel().currentRowChanged.connect(self._row_chosen)
        self.table.doubleClicked.connect(lambda _: self.want())
        self.table.activated.connect(lambda _: self.want())
        self.table.exited.connect(self.leave)

    def begin(
        self, goals: Sequence[Goal], trials: Iterable[Trial], best: frozenset[int] = frozenset(),
        within: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Show another study; `best`: numbers of its non-dominated trials."""
        self.picked = None
        self._coming.clear()
        self.table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.table.rows.begin(goals, trials, best, within)
        self.table.fit()
        self._fitted = len(self.table.rows.trials)
        self._update_texts()

    def take(self, news: Sequence[Trial], best: frozenset[int]) -> None:
        """Add trials and set the best ones; shown at once, or in batches for many."""
        self._coming |= {t.number: t for t in news}
        self._best = best
        if not self._rest.isActive():
            self.settle()

    def settle(self) -> None:
        """Show the pending trials."""
        news, best = list(self._coming.values()), self._best
        if not news:
            return
        self._coming.clear()
        self._rest.start()
        rows = self.table.rows
        columns = len(rows.columns)
        bar = self.table.verticalScrollBar()
        low = bar.value() == bar.maximum()
        rows.take(news, best)
        if len(rows.columns) != columns or self._fitted < min(len(rows.trials), 3):
            self._fitted = len(rows.trials)
            self.table.fit()
        if low:
            self.table.scrollToBottom()
        if self.picked and self.picked.number in {t.number for t in news}:
            self.picked = rows.trials[self.picked.number]
            self._update_texts()

    def _filter(self) -> None:
        self.table.rows.set_filter(self.filter.get(), self.search.get())

    def _row_chosen(self, current: QModelIndex) -> None:
        if current.isValid():
            self.choose(self.table.rows.trial(current.row()))

    def choose(self, trial: Trial) -> None:
        """Select a trial and emit it."""
        if self.picked is not None and self.picked.number == trial.number:
            return
        self._write_note()
        self.settle()
        self.picked = trial
        self.note.setModified(False)
        row = self.table.rows.row_of(trial.number)
        if row >= 0 and self.table.currentIndex().row() != row:
            self.table.setCurrentIndex(self.table.rows.index(row, 0))
        self._update_texts()
        self.chosen.emit(trial)

    def leave(self) -> None:
        """Clear the selection."""
        self.picked = None
        self.table.clearSelection()
        self.table.setCurrentIndex(QModelIndex())
        self._update_texts()
        self.exited.emit()

    def _update_texts(self) -> None:
        trial = self.picked
        self.use.setEnabled(trial is not None and trial.state == "complete")
        self.foot.setVisible(trial is not None)
        if trial is not None:
            self.words.setText(tr("Trial {} · {}", trial.number, state_text(trial)))
            if not self.note.isModified():  # else it is being written
                self.note.put(trial.note)

    def _write_note(self) -> None:
        """Tell the note that was typed; Escape, which chooses no trial, has discarded it."""
        trial, text = self.picked, self.note.text().strip()
        typed = self.note.isModified()
        self.note.setModified(False)
        if trial is not None and typed and text != trial.note:
            self.noted.emit(trial, text)
            self.note.setCursorPosition(0)  # shows the beginning of a long note

    def want(self) -> None:
        """Request to apply the chosen trial."""
        if self.picked and self.picked.state == "complete":
            self.used.emit(self.picked)

    def save(self, path: Path) -> None:
        """Write the shown trials as CSV; raises FileError."""
        self.settle()
        write_text(path, to_text(*self.table.rows.table(), ","))
