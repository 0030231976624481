"""The trials of a study as a table model: appended and updated by number, sorted and filtered; for 10 000 trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from espalier.app.features.search.state.texts import PAUSED, limited, main_text
from espalier.app.figures.study.labels import LOST, STATES, UNMEASURED, state_text, title, value_words
from espalier.app.number_text import cell, duration, shown
from espalier.app.translation import tr, translated
from espalier.app.widgets.table import alignment, plain
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial
from espalier.passes.tasks.base import all_metrics

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
ASCENDING = Qt.SortOrder.AscendingOrder
SAID = frozenset(
    map(int, (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.TextAlignmentRole))
)
_FURTHER = tuple(n for n in all_metrics() if n not in ("accuracy", "loss"))
FIGURES = ("accuracy", *_FURTHER, "loss", "weight_bits", "activation_bits", "size_bytes", "bitops", "sparsity")
FILTERS: dict[str, str] = translated({
    "all": "all trials", "feasible": "within the limits", "complete": "complete", "front": "the best", "pruned":
    "ended early", "failed": "failed", "lost": "lost", "hand": "by hand",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column: key, title, value of a trial, and text of a value."""

    key: str
    title: str
    of: Callable[[Trial], Any]
    text_of: Callable[[Any], str]


def columns_of(goals: Sequence[Goal], trials: Iterable[Trial], within: Sequence[str] = ()) -> tuple[Column, ...]:
    """Columns: number and state, goals, constrained metrics, other metrics, seconds, and choices.

    If goals are summed, a trial has one value, and the metrics have separate columns.
    """
    wanted = [g.figure for g in goals]
    summed = len(wanted) > 1 and any(len(t.values) == 1 for t in trials)
    metrics = dict.fromkeys(k for t in trials for k in t.figures)
    first = [*(f for t in within if (f := limited(t)) in metrics), *(f for f in FIGURES if f in metrics)]
    others = list(dict.fromkeys([*first, *metrics]))
    names = dict.fromkeys(k for t in trials for k in t.params)
    noted = any(t.note for t in trials)
    return (
        Column("number", "trial", lambda t: t.number, cell),
        Column("state", "state", state_label, tr),
        *((Column("note", "note", lambda t: t.note, str),) if noted else ()),
        *((Column("sum", "sum", lambda t: t.values[0] if t.values else None, lambda v: cell(v)),) if summed else ()),
        *(Column(f, title(f), _goal(i, f, summed), _figure(f)) for i, f in enumerate(wanted)),
        *(Column(f, title(f), lambda t, f=f: t.figures.get(f), _figure(f)) for f in others if f not in wanted),
        Column("seconds", "time", lambda t: t.seconds, lambda v: duration(v) if v is not None else ""),
        Column("origin", "by", lambda t: t.origin, str),
        *(Column(n, n, lambda t, n=n: t.params.get(n), lambda v: shown("format", v)) for n in names),
    )  # fmt: skip


def _goal(index: int, figure: str, summed: bool) -> Callable[[Trial], Any]:
    """The value of a trial for a goal, from its values or else its metrics."""

    def of(trial: Trial) -> Any:
        has_value = not summed and index < len(trial.values)
        return trial.values[index] if has_value else trial.figures.get(figure)

    return of


def _figure(name: str) -> Callable[[Any], str]:
    return lambda value: "" if value is None else value_words(name, value)


def state_label(trial: Trial) -> str:
    """The state of a trial as text: `complete`, `outside`, `failed` …"""
    if trial.lost:
        return LOST
    if trial.unmeasured:
        return UNMEASURED
    label = "outside" if trial.state == "complete" and not trial.feasible else STATES[trial.state]
    return label.replace("complete", "duplicate") if trial.reused and trial.feasible else label


def _rank(value: Any) -> tuple[int, Any]:
    if value is None or value != value:
        return 2, 0
    return (0, float(value)) if isinstance(value, int | float) else (1, str(value).casefold())


class TrialRows(QAbstractTableModel):
    """`shown`: numbers of the trials that pass the filter, sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: tuple[Column, ...] = ()
        self.trials: dict[int, Trial] = {}
        self.shown: list[int] = []
        self.best: frozenset[int] = frozenset()
        self.baseline: tuple[Mapping[str, float], Mapping[str, Any]] = ({}, {})  # metrics; name and samples
        self.paused = False  # whether the search is paused
        self._goals: tuple[Goal, ...] = ()
        self._within: tuple[str, ...] = ()
        self._filter, self._text = "all", ""
        self._sort: tuple[int, bool] | None = None
        self._column_keys: set[str] = set()
        self._ranks: dict[int, tuple[int, Any]] = {}  # trial → sort key

    def begin(
        self, goals: Sequence[Goal], trials: Iterable[Trial], best: frozenset[int] = frozenset(),
        within: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Show another study."""
        self.beginResetModel()
        self.trials = {t.number: t for t in trials}
        self._goals, self._within, self._sort, self.best = tuple(goals), tuple(within), None, best
        self._ranks.clear()
        self._set_columns()
        self._arrange()
        self.endResetModel()

    def _set_columns(self) -> None:
        self.columns = columns_of(self._goals, self.trials.values(), self._within)
        self._column_keys = {c.key for c in self.columns}

    def take(self, news: Iterable[Trial], best: frozenset[int]) -> None:
        """Add or update trials; `best`: numbers of the non-dominated ones."""
        by_number = {t.number: t for t in news}
        self.trials.update(by_number)
        for number in by_number:
            self._ranks.pop(number, None)
        keys = (k for t in by_number.values() for k in (*t.params, *t.figures, *["note"] * bool(t.note)))
        if any(k not in self._column_keys for k in keys):
            self.beginResetModel()
            self._set_columns()
            self._ranks.clear()
            self.best = best
            self._arrange()
            self.endResetModel()
            return
        stale, self.best = best != self.best and self._filter == "front", best
        if stale or self._sort is not None:
            self._rebuild()
            return
        self._append(by_number)

    def pause(self, paused: bool) -> None:
        """Set whether the search is paused, which its running trials show."""
        if paused == self.paused:
            return
        self.paused = paused
        for row, number in enumerate(self.shown):
            if self.trials[number].state == "running":
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(self.columns) - 1))

    def _number_set(self) -> set[int]:
        return set(self.shown)

    def _append(self, by_number: dict[int, Trial]) -> None:
        numbers = self._number_set()
        updated = [n for n in by_number if n in numbers]
        removed = [n for n in updated if not self._passes(self.trials[n])]
        new = sorted(n for n in by_number if n not in numbers and self._passes(self.trials[n]))
        if removed:
            self._rebuild()
            return
        for number in updated:
            row = self.shown.index(number)
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(self.columns) - 1))
        if not new:
            return
        if self.shown and new[0] < self.shown[-1]:
            self._rebuild()
            return
        first = len(self.shown)
        self.beginInsertRows(_NOWHERE, first, first + len(new) - 1)
        self.shown += new
        self.endInsertRows()

    def _rebuild(self) -> None:
        """Rebuild the rows, keeping the selection."""
        self.layoutAboutToBeChanged.emit()
        old = self.persistentIndexList()
        numbers = [self.shown[i.row()] if i.row() < len(self.shown) else None for i in old]
        self._arrange()
        rows_now = {n: i for i, n in enumerate(self.shown)} if old else {}
        moved = [
            self.index(rows_now[n], i.column()) if n in rows_now else QModelIndex()
            for n, i in zip(numbers, old, strict=True)
        ]
        self.changePersistentIndexList(old, moved)
        self.layoutChanged.emit()

    def set_filter(self, name: str, text: str = "") -> None:
        """Show the trials of one of FILTERS with `text` in any cell."""
        self._filter, self._text = name, text.casefold()
        self._rebuild()

    def sort(self, column: int, order: Qt.SortOrder = ASCENDING) -> None:
        """Sort the rows by a column; by number without one."""
        self._ranks.clear()
        self._sort = (column, order == ASCENDING) if 0 <= column < len(self.columns) else None
        self._rebuild()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, max(len(self.columns) - 1, 0))

    def _arrange(self) -> None:
        chosen = [t for t in self.trials.values() if self._passes(t)]
        if self._sort is None or self._sort[0] >= len(self.columns):
            self.shown = sorted(t.number for t in chosen)
            return
        of, up, ranks = self.columns[self._sort[0]].of, self._sort[1], self._ranks
        for trial in chosen:
            if trial.number not in ranks:
                ranks[trial.number] = _rank(of(trial))
        ranked = [(*ranks[t.number], t.number) for t in chosen]
        ranked_values = sorted((r for r in ranked if r[0] < 2), reverse=not up)
        self.shown = [r[2] for r in ranked_values] + sorted(r[2] for r in ranked if r[0] == 2)

    def _passes(self, trial: Trial) -> bool:
        match self._filter:
            case "feasible":
                good = trial.feasible
            case "front":
                good = trial.number in self.best
            case "hand":
                good = trial.origin == "hand"
            case "all":
                good = True
            case "lost":
                good = trial.lost
            case state:
                good = trial.state == state and not trial.lost
        return good and (not self._text or any(self._text in c.text_of(c.of(trial)).casefold() for c in self.columns))

    def trial(self, row: int) -> Trial:
        """The trial of a row."""
        return self.trials[self.shown[row]]

    def row_of(self, number: int) -> int:
        """The row of a trial; −1 if it is not shown."""
        try:
            return self.shown.index(number)
        except ValueError:
            return -1

    def table(self) -> tuple[list[dict[str, Any]], list[str]]:
        """(rows, columns) for copying and files, with the reasons of failures."""
        chosen = [self.trials[n] for n in self.shown]
        rows = [{c.key: c.of(t) for c in self.columns} | {"error": t.error} for t in chosen]
        return rows, [*(c.key for c in self.columns), "error"]

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.shown)

    def columnCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The data of a cell."""
        if role not in SAID:
            return None  # the most frequent request while painting
        trial, column = self.trials[self.shown[index.row()]], self.columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            star = "★ " if column.key == "number" and trial.number in self.best else ""
            if column.key == "state" and self.paused and trial.state == "running":
                return PAUSED
            return star + column.text_of(column.of(trial))
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._tip(trial, column) or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return alignment(column.of(trial))
        return None

    def _tip(self, trial: Trial, column: Column) -> str:
        if column.key in ("number", "state"):
            return "\n".join(filter(None, (state_text(trial), tr("Note: {}", trial.note) if trial.note else "")))
        noise = main_text(trial, *self.baseline) if trial.main and column.key == trial.main.name else ""
        return noise or plain(column.of(trial))

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if side != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            mark = "" if self._sort is None or self._sort[0] != section else " ▴" if self._sort[1] else " ▾"
            return tr(self.columns[section].title) + mark
        if role == Qt.ItemDataRole.TextAlignmentRole:
            column = self.columns[section]
            value = next((v for t in list(self.trials.values())[:50] if (v := column.of(t)) is not None), None)
            return alignment(value)
        return None
