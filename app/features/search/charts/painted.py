"""The base of the study's charts that are painted and not plotted: the same face as those that are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QMouseEvent, QPaintDevice, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.search.charts.chart import MOVED, study_table
from espalier.app.features.search.charts.face import Face
from espalier.app.figures.study.data import Study
from espalier.app.figures.study.words import trial_words
from espalier.app.theme import SMALL, Palette
from espalier.app.widgets.charts.picture import Table, in_light, write_chart
from espalier.app.widgets.forms.fields import tokens

MIDDLE = Qt.AlignmentFlag.AlignVCenter


class PaintedChart(Face, QWidget):
    """`take` makes ready what is drawn: `ground` below, `paint` on a sheet that is kept, `marks` above it.

    `near` finds the trial under the pointer, which only the marks show: pointing draws no sheet again.
    """

    hovered = Signal(object)
    picked = Signal(object)
    applied = Signal(object)
    changed = Signal()
    name: ClassVar[str] = ""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.study = Study()
        self.look: Palette = tokens(self)
        self.pick: int | None = None
        self.under: int | None = None
        self._pressed: QPointF | None = None
        self._sheet: QPixmap | None = None
        self.setMouseTracking(True)
        self.setMinimumSize(160, 90)
        self.setAccessibleName(self.name)

    # -- what subclasses give

    def take(self, fresh: Sequence[int] | None) -> None:
        """Make ready what is drawn: all of it, or what the trials at these places change."""

    def ground(self, painter: QPainter) -> None:
        """Draw what changes most often, as pictures."""

    def paint(self, painter: QPainter) -> None:
        """Draw what is kept until `refresh`."""

    def marks(self, painter: QPainter) -> None:
        """Draw what follows the pointer."""

    def near(self, at: QPointF) -> int | None:
        """The place of the trial that a point of the widget means."""
        return None

    # -- the face

    def show_study(self, study: Study) -> None:
        """Draw another study."""
        self.study, self.pick, self.under = study, None, None
        self.take(None)
        self.refresh()

    def append(self, places: Sequence[int]) -> None:
        """Draw what is new or became other."""
        self.take(places)
        self.update()

    def refresh(self) -> None:
        """Draw the sheet again."""
        self._sheet = None
        self.update()

    def mark(self, place: int | None) -> None:
        """Mark the trial that is picked, here or in another chart."""
        if place != self.pick:
            self.pick = place
            self.update()

    def set_theme(self, palette: Palette) -> None:
        """Take other colours and draw again; the legend has them too."""
        self.look = palette
        self.take(None)
        self.refresh()
        self.changed.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._sheet is None:
            self._sheet = self._drawn_sheet()
        painter, sheet = QPainter(self), self._sheet
        try:
            self._draw(painter, lambda: painter.drawPixmap(0, 0, sheet))
        finally:
            painter.end()  # Qt crashes on one that is left open

    def _drawn_sheet(self) -> QPixmap:
        sheet = QPixmap(self.size() * self.devicePixelRatio())
        sheet.setDevicePixelRatio(self.devicePixelRatio())
        sheet.fill(Qt.GlobalColor.transparent)
        kept = QPainter(sheet)
        try:
            kept.setFont(self.small())
            self.paint(kept)
        finally:
            kept.end()
        return sheet

    def _draw(self, painter: QPainter, sheet: Callable[[], None]) -> None:
        painter.fillRect(self.rect(), QColor(self.look.panel))
        painter.setFont(self.small())
        self.ground(painter)
        sheet()
        self.marks(painter)

    def small(self, bold: bool = False) -> QFont:
        """The font of labels."""
        font = QFont(self.font())
        font.setPixelSize(round(SMALL))
        font.setBold(bold)
        return font

    def words_at(self, place: int) -> str:
        """A trial in words, for the hover."""
        names = [g.figure for g in self.study.goals]
        figures = {n: float(self.study.figures[n][place]) for n in names}
        return trial_words(self.study.trials[place], self.study.goals, figures, self.study.counted)

    def point(self, place: int | None) -> None:
        """The pointer stands over this trial, or over none."""
        if place != self.under:
            self.under = place
            self.update()
            self.hovered.emit(None if place is None else self.study.trials[place])

    def hover_words(self, at: QPointF) -> str:
        """What the place under the pointer tells."""
        return "" if self.under is None else self.words_at(self.under)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() == Qt.MouseButton.NoButton:
            self.point(self.near(event.position()))
            self.setCursor(self.cursor_at(event.position()))
            QToolTip.showText(event.globalPosition().toPoint(), self.hover_words(event.position()), self)

    def cursor_at(self, at: QPointF) -> Qt.CursorShape:
        """How the pointer looks: a hand over what can be clicked."""
        return Qt.CursorShape.ArrowCursor if self.under is None else Qt.CursorShape.PointingHandCursor

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        still = self._pressed is not None and (event.position() - self._pressed).manhattanLength() < MOVED
        self._pressed = None
        found = self.near(event.position()) if still and event.button() == Qt.MouseButton.LeftButton else None
        if found is not None:
            self.mark(found)
            self.picked.emit(self.study.trials[found])

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        found = self.near(event.position())
        if found is not None:
            self.applied.emit(self.study.trials[found])

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.point(None)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and "look" in vars(self):
            now = tokens(self)
            if now is not self.look:
                self.set_theme(now)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.take(None)
        self.refresh()

    # -- files

    def table(self) -> Table:
        """All trials: what they chose and what came of it."""
        return study_table(self.study)

    def settle(self) -> None:
        """Finish at once what is drawn bit by bit, before it is written to a file."""

    def export(self, path: Path) -> None:
        """Write the chart to a .png (twice the size on screen), .svg or .csv file; raises FileError."""
        with in_light(self, path):
            self.settle()
            write_chart(self, path, self.table, self._on)

    def _on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        self._draw(painter, lambda: self.paint(painter))
        painter.end()


def elided(
    painter: QPainter, box: QRectF, text: str, side: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
    cut: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
) -> None:  # fmt: skip
    """One line of text in a box, cut where it does not fit."""
    short = painter.fontMetrics().elidedText(text, cut, max(int(box.width()), 0))
    painter.drawText(box, MIDDLE | side, short)


def joined(painter: QPainter, points: Sequence[QPointF]) -> None:
    """Points joined by lines one by one: a long smooth path takes ten times as long."""
    for first, second in pairwise(points):
        painter.drawLine(first, second)
