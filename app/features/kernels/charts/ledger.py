"""Bar chart of the memory ledger: bytes of each line, in float32, and of its codes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QMouseEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.cell_text import reason
from espalier.app.number_text import count, mebibytes, percent, plural
from espalier.app.theme import CATEGORIES, Palette
from espalier.app.translation import tr, translated
from espalier.app.widgets.charts.chart import Chart, pen, tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.metrics import spacing

Row = dict[str, Any]
TALL, WIDE, VALUE = 0.62, 190, 68  # bar height; pixels: maximum of the names, of a value
COLUMNS = ("line", "kind", "elements", "float_bytes", "ideal", "bytes", "saving")
COLOURS = {
    "codes": CATEGORIES["linear"], "shared": CATEGORIES["add"], "float": CATEGORIES["shape"],
    "masks": CATEGORIES["activation"], "measured": CATEGORIES["matmul"], "other": CATEGORIES["norm"],
}  # fmt: skip
TITLES = translated({"codes": "codes", "shared": "exponents and scales", "float": "float", "masks": "masks",
          "measured": "measured in memory", "other": "padding, header"})  # fmt: skip


class LedgerChart(Chart):
    """One bar per ledger line, the first on top."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.rows: tuple[Row, ...] = ()
        self._small = QFont()
        self._small.setPixelSize(11)
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Memory by line of the ledger"))

    def sizeHint(self) -> QSize:
        return QSize(420, 200)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Draw a ledger."""
        self.rows = tuple(rows)
        self.draw(self.look)

    def colour(self, kind: str) -> str:
        """Colour of a kind, lightened in the dark theme."""
        plain = COLOURS.get(kind, COLOURS["other"])
        return QColor(plain).lighter(125).name() if self.look.dark else plain

    def draw(self, palette: Palette) -> None:
        """Draw float32 as a frame, actual bytes as a bar, codes alone as a line."""
        self.plot.clear()
        self._axes(palette)
        if not self.rows:
            return
        none = QPen(Qt.PenStyle.NoPen)
        spots = [(len(self.rows) - 1 - k, r) for k, r in enumerate(self.rows)]
        floats = [(y, r["float_bytes"]) for y, r in spots if r["float_bytes"]]
        if floats:
            ys, widths = zip(*floats, strict=True)
            self.plot.addItem(pg.BarGraphItem(x0=[0.0] * len(ys), y=ys, width=widths, height=TALL + 0.18,
                                              brush=tint(palette.muted, 36), pen=none))  # fmt: skip
        for kind in dict.fromkeys(r["kind"] for r in self.rows):
            bars = [(y, r["bytes"]) for y, r in spots if r["kind"] == kind]
            ys, widths = zip(*bars, strict=True)
            self.plot.addItem(pg.BarGraphItem(x0=[0.0] * len(ys), y=ys, width=widths, height=TALL,
                                              brush=QColor(self.colour(kind)), pen=none))  # fmt: skip
        for y, row in spots:
            label = pg.TextItem(mebibytes(row["bytes"]), color=palette.muted, anchor=(0, 0.5))
            label.setFont(self._small)
            label.setPos(max(row["bytes"], row["float_bytes"]), y)
            self.plot.addItem(label, ignoreBounds=True)
            if row["kind"] == "codes":
                xs = [row["ideal"], row["ideal"]]
                self.plot.plot(xs, [y - 0.46, y + 0.46], pen=pen(palette.text, 1.6))
        self._bound()

    def _bound(self) -> None:
        top = max(max(r["bytes"], r["float_bytes"]) for r in self.rows) or 1
        room = max(self.plot.vb.width(), 3 * VALUE)  # leaves room for the value of the longest bar
        self.plot.setXRange(0, top * room / (room - VALUE), padding=0)
        self.plot.setYRange(-0.7, len(self.rows) - 0.3, padding=0)

    def _axes(self, palette: Palette) -> None:
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        metrics = QFontMetrics(left.style["tickFont"] or self.font())
        names = [(len(self.rows) - 1 - k, reason(r["line"])) for k, r in enumerate(self.rows)]
        widest = max((metrics.horizontalAdvance(n) for _, n in names), default=0)
        wide = min(widest + 16, WIDE, max(self.width() // 3, 90))
        left.setWidth(wide)
        left.setTextPen(QColor(palette.text))
        left.setTicks([[(y, metrics.elidedText(n, Qt.TextElideMode.ElideRight, wide - 10)) for y, n in names]])
        bottom.setHeight(22)
        bottom.enableAutoSIPrefix(False)
        bottom.setTickPen(pen(palette.line, 1.0))
        bottom.setStyle(tickAlpha=255, maxTickLevel=0)
        bottom.setGrid(255)
        bottom.setZValue(-1)  # below the bars
        bottom.tickSpacing = lambda low, high, size: [(_spacing(high - low, size / 96), 0)]
        bottom.tickStrings = lambda values, scale, gap: [mebibytes(v) if v > 0 else "0" for v in values]

    def resizeEvent(self, event: Any) -> None:
        super().resizeEvent(event)
        if getattr(self, "rows", ()):  # pyqtgraph resizes during construction
            self._axes(self.look)
            self._bound()

    def legend(self) -> str:
        """Legend of the drawn kinds."""
        kinds = dict.fromkeys(r["kind"] if r["kind"] in COLOURS else "other" for r in self.rows)
        pairs = [(self.colour(k), "■", TITLES[k]) for k in kinds]
        pairs += [(self.look.line, "■", tr("as float32"))] if self.rows else []
        pairs += [(self.look.text, "|", tr("codes alone"))] if "codes" in kinds else []
        entries = [f'<span style="color:{c}">{mark}</span>&nbsp;{t.replace(" ", "&nbsp;")}' for c, mark, t in pairs]
        return " &nbsp; ".join(entries)

    # -- pointing

    def tooltip_at(self, y: float) -> str:
        """Tooltip of the line at a y position."""
        index = len(self.rows) - 1 - round(y)
        if not 0 <= index < len(self.rows):
            return ""
        row = self.rows[index]
        lines = [reason(row["line"]), tr("{}, {} bytes", mebibytes(row["bytes"]), count(row["bytes"]))]
        if row["elements"]:
            lines.append(tr("{}, {} as float32", plural(row["elements"], "element"), mebibytes(row["float_bytes"])))
        if row["kind"] == "codes":
            lines.append(tr("codes alone: {}", mebibytes(row["ideal"])))
        if row["saving"]:
            lines.append(tr("saves {}", percent(row["saving"])))
        return "\n".join(lines)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        y = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.position().toPoint()))).y()
        QToolTip.showText(event.globalPosition().toPoint(), self.tooltip_at(y), self)

    def table(self) -> Table:
        """One row per line."""
        return COLUMNS, [tuple(r[c] for c in COLUMNS) for r in self.rows]


def _spacing(span: float, room: float) -> float:
    """Tick spacing that is round in the label's unit."""
    unit = 1024.0 ** max(int(span >= 1 << 10) + int(span >= 100_000) + int(span >= 1 << 30), 0)
    return spacing(span / unit, room) * unit
