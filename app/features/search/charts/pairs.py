"""A figure over two choices at once: which values go well together, and which spoil each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from typing_extensions import override

from espalier.app.features.search.charts.axes import Axis, axes_of
from espalier.app.features.search.charts.face import Option
from espalier.app.features.search.charts.of_figure import OfFigure
from espalier.app.features.search.charts.painted import elided
from espalier.app.features.search.charts.telling import telling
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.words import title, value_words
from espalier.app.widgets.charts.picture import Table
from espalier.app.widgets.sqnr_table import ink
from espalier.app.words import plural
from espalier.model.data.base import Array

PARTS = 8  # of a choice that is any number between two
TOP, FOOT, LINE, RIGHT, WIDEST = 6, 34, 16, 10, 130  # pixels beside the cells
NAMES, GAP = 13, 4  # pixels of a line of names below, and between two of them
WORDS = 15  # pixels of a cell that is high enough for its value
MORE = 1.5  # times as many trials, by which the two choices that tell most are looked for again
MEAN, BEST = "mean", "best"


@dataclass(frozen=True, slots=True)
class Side:
    """A choice along one side: its axis, the names of its parts, and in which part each trial lies (−1: in none)."""

    axis: Axis
    names: tuple[str, ...]
    parts: Array


def side_of(axis: Axis, study: Study) -> Side:
    """Categories as they are, numbers in equal parts of their range."""
    axis.fit(study)
    values = axis.values(study)
    if axis.words and axis.scale:
        names = tuple(axis.scale.text(i) for i in range(len(axis.scale.values)))
        return Side(axis, names, np.where(np.isfinite(values), np.nan_to_num(values), -1).astype(int))
    parts = np.clip(np.floor(np.nan_to_num(axis.part(values)) * PARTS), 0, PARTS - 1)
    names = tuple(axis.words_at((k + 0.5) / PARTS) for k in range(PARTS))
    return Side(axis, names, np.where(np.isfinite(values), parts, -1).astype(int))


class PairsChart(OfFigure):
    """Cells in the colour of the mean or the best of their trials; the best trial of a cell is meant by it."""

    name: ClassVar[str] = "Two choices"
    fields: ClassVar[Mapping[str, str]] = {"figure": "figure", "of": "of", "across": "across", "up": "up"}

    def __init__(self) -> None:
        self.of, self.across, self.up = MEAN, "", ""
        self._own, self._judged = False, 0  # whether people chose the sides; trials by which they were chosen else
        self._all: list[Axis] = []
        self._sides: tuple[Side, Side] | None = None
        self._cells: Array = np.zeros((0, 0))
        self._many: Array = np.zeros((0, 0), int)
        self._best: Array = np.zeros((0, 0), int)
        super().__init__()

    # -- what is drawn

    @override
    def options(self) -> list[Option]:
        names = tuple(self.study.names)
        choices = [a for a in self._all if a.scale is not None]
        keys, texts = tuple(a.name for a in choices), [a.text for a in choices]
        return [
            Option("figure", names, tuple(map(title, names)), "Figure told by colour"),
            Option("of", (MEAN, BEST), ("mean of trials", "best trial")),
            Option("across", keys, tuple(f"across: {t}" for t in texts), "Choice from left to right"),
            Option("up", keys, tuple(f"up: {t}" for t in texts), "Choice from below"),
        ]

    @override
    def empty(self) -> str:
        if words := super().empty():
            return words
        made = sum(n in self.study.params for n in self.study.scales)
        return "" if made > 1 else "The trials made one choice only: Slices shows it."

    @override
    def legend(self) -> str:
        known = self._cells[np.isfinite(self._cells)]
        if self._sides is None or not len(known):
            return ""
        stops = "".join(f'<span style="color:{self.look.sequential(k / 4)}">■</span>' for k in range(5))
        ends = [value_words(self.figure, float(v)) for v in (known.min(), known.max())]
        named = f"{self.of} {escape(title(self.figure))}"
        return f'<span style="color:{self.look.muted}">{named} {ends[0]} {stops} {ends[1]}</span>'

    @override
    def show_study(self, study: Study) -> None:
        self.across, self.up, self._own = "", "", False
        super().show_study(study)

    @override
    def choose(self, name: str, value: Any) -> None:
        self._own = self._own or name in ("across", "up")
        super().choose(name, value)

    @override
    def take(self, fresh: Sequence[int] | None) -> None:
        self._sheet = None
        self._all = axes_of(self.study)
        self._sides = None
        choices = [a for a in self._all if a.scale is not None]
        if len(choices) < 2 or self.figure not in self.study.names:
            return
        self._choose_sides(choices)
        held = {a.name: a for a in choices}
        self._sides = side_of(held[self.across], self.study), side_of(held[self.up], self.study)
        self._fill(*self._sides)

    def _choose_sides(self, choices: list[Axis]) -> None:
        """The two choices that tell most, until others are wanted."""
        names = [a.name for a in choices]
        stale = not self._own and len(self.study) >= MORE * self._judged
        if stale or self.across not in names or self.up not in names:
            self._judged = len(self.study)
            told = [a.name for a in telling(self.study, self.figure, choices, 2)]
            self.across, self.up = (told + names)[:2]

    def _fill(self, across: Side, up: Side) -> None:
        """Mean or best of each cell, how many trials it has, and its best trial."""
        study = self.study
        shape = len(up.names), len(across.names)
        values, cells = study.figures[self.figure], up.parts * shape[1] + across.parts
        there = (study.state == COMPLETE) & np.isfinite(values) & (up.parts >= 0) & (across.parts >= 0)
        places = np.flatnonzero(there)
        cells, values = cells[places], values[places]
        order = np.argsort(study.sign(self.figure) * values, kind="stable")  # the best is written last
        best = np.full(shape[0] * shape[1], -1)
        best[cells[order]] = places[order]
        self._best = best.reshape(shape)
        many = np.bincount(cells, minlength=len(best))
        self._many = many.reshape(shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.bincount(cells, values, len(best)) / many
        bests = np.where(best >= 0, study.figures[self.figure][best], np.nan)
        self._cells = (means if self.of == MEAN else bests).reshape(shape)

    # -- where things lie

    def _box(self) -> QRectF:
        names = self._sides[1].names if self._sides else ()
        widest = max((self.fontMetrics().horizontalAdvance(n) for n in names), default=0)
        left = min(widest, WIDEST, self.width() * 0.3) + LINE + 12
        wide = max(self.width() - left - RIGHT, 1)
        foot = FOOT + NAMES * (self._tiers(wide) - 1)
        return QRectF(left, TOP, wide, max(self.height() - TOP - foot, 1))

    def _tiers(self, wide: float) -> int:
        """Names below take turns between two lines where their cells are too narrow for them."""
        names = self._sides[0].names if self._sides else ()
        longest = max((self.fontMetrics().horizontalAdvance(n) for n in names), default=0)
        return 1 if longest + GAP <= wide / max(len(names), 1) else 2

    def _cell(self, row: int, column: int) -> QRectF:
        box, (rows, columns) = self._box(), self._cells.shape
        left, right = (box.left() + round(k * box.width() / columns) for k in (column, column + 1))
        top, foot = (box.bottom() - round(k * box.height() / rows) for k in (row + 1, row))
        return QRectF(left, top, right - left - 1, foot - top - 1)

    def cell_at(self, at: QPointF) -> tuple[int, int] | None:
        """The cell under a point: its row from below, its column."""
        box = self._box()
        if self._sides is None or not box.contains(at):
            return None
        rows, columns = self._cells.shape
        row = int((box.bottom() - at.y()) / box.height() * rows)
        return min(row, rows - 1), min(int((at.x() - box.left()) / box.width() * columns), columns - 1)

    # -- painting

    @override
    def paint(self, painter: QPainter) -> None:
        if self._sides is None:
            return
        known = self._cells[np.isfinite(self._cells)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        for row, column in np.ndindex(*self._cells.shape):
            value, box = float(self._cells[row, column]), self._cell(row, column)
            if value != value:
                painter.fillRect(box, QColor(self.look.group))
                continue
            colour = self.look.sequential((value - low) / ((high - low) or 1.0))
            painter.fillRect(box, QColor(colour))
            if box.height() > WORDS:
                painter.setPen(QColor(ink(colour)))
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self.words_in(value, box.width()))
        self._paint_names(painter, *self._sides)

    def words_in(self, value: float, wide: float) -> str:
        """A cell's value; a narrow one leaves the unit out, or says nothing: half a number tells another."""
        told, metrics = value_words(self.figure, value), self.fontMetrics()
        texts = (told, told.removesuffix("%").rstrip())
        return next((t for t in texts if metrics.horizontalAdvance(t) + GAP / 2 <= wide), "")

    def names_below(self) -> list[tuple[QPointF, str]]:
        """Where which names stand below the cells; a number is left out rather than cut."""
        if self._sides is None:
            return []
        across, box, metrics, found = self._sides[0], self._box(), self.fontMetrics(), list[tuple[QPointF, str]]()
        tiers = self._tiers(box.width())
        ends = [-1e9] * tiers
        room = int(tiers * box.width() / max(len(across.names), 1)) - GAP
        for column, name in enumerate(across.names):
            text = metrics.elidedText(name, Qt.TextElideMode.ElideRight, max(room, 40)) if across.axis.words else name
            wide, tier = metrics.horizontalAdvance(text), column % tiers
            x = min(max(self._cell(0, column).center().x() - wide / 2, 0), self.width() - wide)
            if x >= ends[tier] + GAP:
                found.append((QPointF(x, box.bottom() + NAMES * (tier + 1)), text))
                ends[tier] = x + wide
        return found

    def _paint_names(self, painter: QPainter, across: Side, up: Side) -> None:
        box = self._box()
        tiers = self._tiers(box.width())
        painter.setPen(QColor(self.look.muted))
        for at, text in self.names_below():
            painter.drawText(at, text)
        for row, name in enumerate(up.names):
            cell = self._cell(row, 0)
            if cell.height() >= 9 or row % 2 == 0:
                line = QRectF(LINE + 4, cell.center().y() - 8, box.left() - LINE - 10, 16)
                elided(painter, line, name, Qt.AlignmentFlag.AlignRight)
        painter.setPen(QColor(self.look.text))
        foot = QRectF(box.left(), box.bottom() + 3 + NAMES * tiers, box.width(), LINE)
        elided(painter, foot, across.axis.text, Qt.AlignmentFlag.AlignHCenter, Qt.TextElideMode.ElideMiddle)
        painter.save()
        painter.translate(2, box.bottom())
        painter.rotate(-90)
        side = QRectF(0, 0, box.height(), LINE)
        elided(painter, side, up.axis.text, Qt.AlignmentFlag.AlignHCenter, Qt.TextElideMode.ElideMiddle)
        painter.restore()

    @override
    def marks(self, painter: QPainter) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for place, colour in ((self.pick, self.look.text), (self.under, self.look.accent)):
            if self._sides is None or place is None or place >= len(self._sides[0].parts):
                continue
            column, row = (int(s.parts[place]) for s in self._sides)
            if row >= 0 and column >= 0:
                painter.setPen(QPen(QColor(colour), 2.0))
                painter.drawRect(self._cell(row, column).adjusted(1, 1, -1, -1))

    # -- pointing

    @override
    def near(self, at: QPointF) -> int | None:
        found = self.cell_at(at)
        place = int(self._best[found]) if found else -1
        return place if place >= 0 else None

    @override
    def hover_words(self, at: QPointF) -> str:
        found = self.cell_at(at)
        if found is None or self._sides is None:
            return ""
        across, up = self._sides
        head = f"{across.axis.text}: {across.names[found[1]]}\n{up.axis.text}: {up.names[found[0]]}"
        place = int(self._best[found])
        if place < 0:
            return f"{head}\nNo trial chose both."
        told = f"{self.of} {title(self.figure)} {value_words(self.figure, float(self._cells[found]))}"
        return f"{head}\n{told} of {plural(int(self._many[found]), 'trial')}\nThe best of them: {self.words_at(place)}"

    def table(self) -> Table:
        """A row for each value of the one choice, a column for each of the other."""
        if self._sides is None:
            return (), ()
        across, up = self._sides
        rows = [(name, *("" if v != v else float(v) for v in self._cells[k])) for k, name in enumerate(up.names)]
        return (f"{up.axis.name} \\ {across.axis.name}", *across.names), rows[::-1]
