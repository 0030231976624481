"""Base class of painted charts of a study: a cached sheet with marks above it."""

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
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import light_theme, offer_chart, write_chart
from espalier.app.widgets.forms.fields import tokens

MIDDLE = Qt.AlignmentFlag.AlignVCenter


class PaintedChart(StudyView, QWidget):
    """`take` prepares the data: `ground` is drawn below, `paint` on a cached sheet, `marks` above it.

    `near` finds the trial under the pointer, which only marks show, so that hovering does not redraw the sheet.
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
        self.setAccessibleName(tr(self.name))
        self.handle = offer_chart(self)

    # -- to be implemented

    def take(self, fresh: Sequence[int] | None) -> None:
        """Prepare the data: all, or the changes of the trials at these indices."""

    def ground(self, painter: QPainter) -> None:
        """Draw the layer that changes most often, from pixmaps."""

    def paint(self, painter: QPainter) -> None:
        """Draw the sheet that is cached until `refresh`."""

    def marks(self, painter: QPainter) -> None:
        """Draw the marks that follow the pointer."""

    # -- drawing

    def show_study(self, study: Study) -> None:
        """Draw another study."""
        self.study, self.pick, self.under = study, None, None
        self.redraw()

    def append(self, indices: Sequence[int]) -> None:
        """Draw new or changed trials."""
        self.take(indices)
        self.update()

    def refresh(self) -> None:
        """Redraw the sheet."""
        self._sheet = None
        self.update()

    @override
    def redraw(self) -> None:
        self.take(None)
        self.refresh()

    def set_theme(self, palette: Palette) -> None:
        """Set the colours, of the legend too, and redraw."""
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
            painter.end()  # Qt crashes on an unfinished painter

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
        """Finish incremental drawing, before an export."""

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
    """Draw one line of text in a box, elided if it does not fit."""
    short = painter.fontMetrics().elidedText(text, cut, max(int(box.width()), 0))
    painter.drawText(box, MIDDLE | side, short)


def joined(painter: QPainter, points: Sequence[QPointF]) -> None:
    """Draw a polyline as single lines, ten times faster than a long anti-aliased path."""
    for first, second in pairwise(points):
        painter.drawLine(first, second)
