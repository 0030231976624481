"""Charts of a study that are painted, not plotted: a sheet that is kept, and marks above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPaintDevice, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QWidget
from typing_extensions import override

from espalier.app.features.search.charts.study_view import StudyView
from espalier.app.figures.study.data import Study
from espalier.app.theme import SMALL, Palette
from espalier.app.widgets.charts.chart_export import light_theme, write_chart
from espalier.app.widgets.forms.fields import tokens

MIDDLE = Qt.AlignmentFlag.AlignVCenter


class PaintedChart(StudyView, QWidget):
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
        self.begin()
        self.look: Palette = tokens(self)
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

    # -- drawing

    def show_study(self, study: Study) -> None:
        """Draw another study."""
        self.study, self.pick, self.under = study, None, None
        self.redraw()

    def append(self, indices: Sequence[int]) -> None:
        """Draw what is new or became other."""
        self.take(indices)
        self.update()

    def refresh(self) -> None:
        """Draw the sheet again."""
        self._sheet = None
        self.update()

    @override
    def redraw(self) -> None:
        self.take(None)
        self.refresh()

    def set_theme(self, palette: Palette) -> None:
        """Take other colours and draw again; the legend has them too."""
        self.look = palette
        self.redraw()
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
        painter = QPainter(sheet)
        try:
            painter.setFont(self.small())
            self.paint(painter)
        finally:
            painter.end()
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

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and "look" in vars(self):
            palette = tokens(self)
            if palette is not self.look:
                self.set_theme(palette)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.redraw()

    # -- files

    def settle(self) -> None:
        """Finish at once what is drawn bit by bit, before it is written to a file."""

    def export(self, path: Path) -> None:
        """Write the chart to a .png (twice the size on screen), .svg or .csv file; raises FileError."""
        with light_theme(self, path):
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
