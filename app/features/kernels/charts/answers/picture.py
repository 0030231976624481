"""Base class of the answers' pictures: theme colours, elided text, export to files."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPaintDevice, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from espalier.app.theme import BODY, CATEGORIES, SMALL, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table, light_theme, offer_chart, write_chart
from espalier.app.widgets.forms.fields import tokens
from espalier.kernels.bench.answers.measured_data import MeasuredData

LEFT, RIGHT, CENTRE = (
    side | Qt.AlignmentFlag.AlignVCenter
    for side in (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight, Qt.AlignmentFlag.AlignHCenter)
)
READS, WRITES = CATEGORIES["linear"], CATEGORIES["activation"]
LIGHTER = 135  # per cent, on a dark background


class Sheet:
    """Drawing surface: a painter with theme colours and text helpers."""

    def __init__(self, painter: QPainter, look: Palette, width: float, height: float) -> None:
        self.painter, self.look, self.width, self.height = painter, look, width, height

    def colour(self, plain: str) -> QColor:
        """A category's colour, lightened in the dark theme."""
        colour = QColor(plain)
        return colour.lighter(LIGHTER) if self.look.dark else colour

    def text(
        self, box: QRectF, text: str, colour: str = "", size: float = SMALL, align: Qt.AlignmentFlag = LEFT,
        bold: bool = False,
    ) -> float:  # fmt: skip
        """Draw one line, elided to the box; return its width."""
        font = self.painter.font()
        font.setPixelSize(round(size))
        font.setBold(bold)
        self.painter.setFont(font)
        self.painter.setPen(QColor(colour or self.look.text))
        elided = self.painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(box.width()) + 1)
        self.painter.drawText(box, align, elided)
        return self.painter.fontMetrics().horizontalAdvance(elided)

    def words(self, box: QRectF, text: str, colour: str = "", size: float = SMALL) -> None:
        """Draw wrapped text, clipped to the box."""
        font = self.painter.font()
        font.setPixelSize(round(size))
        font.setBold(False)
        self.painter.setFont(font)
        self.painter.setPen(QColor(colour or self.look.text))
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
        self.painter.drawText(box, int(flags), text)

    def box(
        self, box: QRectF, fill: QColor | str | None, edge: str = "", width: float = 1.0, radius: float = 2
    ) -> None:
        """Draw a rounded rectangle."""
        self.painter.setPen(QPen(QColor(edge), width) if edge else Qt.PenStyle.NoPen)
        self.painter.setBrush(QColor(fill) if fill is not None else Qt.BrushStyle.NoBrush)
        self.painter.drawRoundedRect(box, radius, radius)

    def line(self, a: QPointF, b: QPointF, colour: QColor | str = "", width: float = 1.0, dashed: bool = False) -> None:
        """Draw a straight line."""
        pen = QPen(QColor(colour or self.look.line), width)
        if dashed:
            pen.setStyle(Qt.PenStyle.DashLine)
        self.painter.setPen(pen)
        self.painter.drawLine(a, b)

    def title(self, x: float, y: float, width: float, text: str, note: str = "") -> float:
        """Draw a bold title with a muted note behind it; return the y below."""
        used = self.text(QRectF(x, y, width, 18), text, size=12, bold=True)
        if note and width - used > 40:
            self.text(QRectF(x + used + 8, y, width - used - 8, 18), note, self.look.muted)
        return y + 20


class Picture(QWidget):
    """A picture of measured facts: subclasses implement `draw` and `table`."""

    LEAST = QSize(360, 150)
    NAME = tr("Picture")

    def __init__(self) -> None:
        super().__init__()
        self.look: Palette = tokens(self)
        self.measured = MeasuredData()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(self.LEAST)
        self.setAccessibleName(self.NAME)
        self.handle = offer_chart(self)

    def show_measured(self, measured: MeasuredData) -> None:
        """Draw measured facts."""
        self.measured = measured
        self.update()

    def draw(self, sheet: Sheet) -> None:
        """Draw the picture."""
        raise NotImplementedError

    def table(self) -> Table:
        """The drawn values: column names and rows."""
        raise NotImplementedError

    def sizeHint(self) -> QSize:
        return QSize(560, 240)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        self._draw(painter)
        painter.end()

    def _draw(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), QColor(self.look.panel))
        font = painter.font()
        font.setPixelSize(round(BODY))
        painter.setFont(font)
        self.draw(Sheet(painter, self.look, float(self.width()), float(self.height())))

    def set_theme(self, palette: Palette) -> None:
        """Apply the theme's colours."""
        self.look = palette
        self.update()

    def export(self, path: Path) -> None:
        """Export to a .png (twice the screen size), .svg or .csv file; raises FileError."""
        with light_theme(self, path):
            write_chart(self, path, self.table, self._paint_on)

    def _paint_on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        self._draw(painter)
        painter.end()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "look"):
            self.set_theme(tokens(self))
