"""Charts of a data set: the share of each class by split, and how long its texts are with the limit that cuts them."""

from __future__ import annotations

from html import escape

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.theme import SECONDARY, Palette
from espalier.app.widgets.charts.chart import Chart, pen, tint
from espalier.app.widgets.charts.metrics import COLOURS, LIGHTER, TITLE_HEIGHT, whole_words
from espalier.app.widgets.charts.picture import Table
from espalier.app.words import count, percent
from espalier.model.data.summary import DataLook

MOST = 24  # classes drawn; the most frequent ones
NAME = 14  # letters of a class below its bars
NO_PEN = QPen(Qt.PenStyle.NoPen)


class DataChart(Chart):
    """A chart of a look at data; `look_at` says which."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.seen: DataLook | None = None
        self._head_words = ""
        super().__init__(parent)
        self.setMouseTracking(True)
        self.plot.getViewBox().setDefaultPadding(0)
        self.setMinimumWidth(130)

    def sizeHint(self) -> QSize:
        return QSize(240, 130)

    def look_at(self, seen: DataLook | None) -> None:
        """Draw other data, or none."""
        self.seen = seen
        self.draw(self.look)

    def _head(self, words: str, palette: Palette) -> None:
        self._head_words = words
        self.plot.setTitle(words, justify="left", color=palette.text, size=f"{SECONDARY + 0.5}px")
        self.plot.titleLabel.setMinimumWidth(0)  # a long title must not widen the plot beyond what is seen
        self.plot.titleLabel.setMaximumWidth(1)
        self.plot.layout.setRowFixedHeight(0, TITLE_HEIGHT)

    def words_at(self, x: float) -> str:
        """What lies at `x`, for the hover."""
        return ""

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        text = self.words_at(self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.pos()))).x())
        QToolTip.showText(event.globalPosition().toPoint(), text, self)


class ClassChart(DataChart):
    """Beside each other for each class its share of every split."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Share of each class by split")

    @property
    def shown(self) -> list[int]:
        """The classes that are drawn, in their order."""
        if self.seen is None:
            return []
        counts = self.seen.counts
        return sorted(sorted(range(len(counts)), key=lambda c: -counts[c])[:MOST])

    def draw(self, palette: Palette) -> None:
        """A group of bars for each class."""
        self.plot.clear()
        seen, shown = self.seen, self.shown
        if seen is None or not seen.splits:
            return
        width, words = 0.8 / len(seen.splits), ["<b>Classes</b>"]
        top = 0.0
        for place, split in enumerate(seen.splits):
            plain = COLOURS[place % len(COLOURS)]
            colour = QColor(plain).lighter(LIGHTER).name() if palette.dark else plain
            shares = [split.counts[c] / max(split.samples, 1) for c in shown]
            top = max([top, *shares])
            x = np.arange(len(shown)) - 0.4 + (place + 0.5) * width
            bars = pg.BarGraphItem(x=x, height=shares, width=width * 0.86, pen=NO_PEN, brush=tint(colour, 200))
            self.plot.addItem(bars)
            words.append(f'<span style="color:{colour}">{escape(split.name)}</span>')
        if len(shown) < len(seen.classes):
            words.append(f'<span style="color:{palette.muted}">the {len(shown)} most frequent</span>')
        self._head(" &nbsp; ".join(words), palette)
        self._axes(seen, shown, top)

    def _axes(self, seen: DataLook, shown: list[int], top: float) -> None:
        left = self.plot.getAxis("left")
        left.setWidth(40)
        left.tickStrings = lambda values, scale, spacing: [percent(v, 0) for v in values]
        self.plot.setXRange(-0.6, len(shown) - 0.4, padding=0)
        self.plot.setYRange(0, max(top * 1.08, 0.01), padding=0)
        every = max(1, -(-len(shown) * 7 // max(self.width() // 12, 1))) if len(shown) > 8 else 1
        names = [(at, short(seen.classes[c])) for at, c in enumerate(shown) if at % every == 0]
        self.plot.getAxis("bottom").setTicks([names])

    def words_at(self, x: float) -> str:
        """A class in all splits."""
        shown, seen = self.shown, self.seen
        if seen is None or not 0 <= round(x) < len(shown):
            return ""
        at = shown[round(x)]
        lines = [f"{s.name}: {count(s.counts[at])} ({percent(s.counts[at] / max(s.samples, 1))})" for s in seen.splits]
        return "\n".join([seen.classes[at], *lines])

    def table(self) -> Table:
        """One row a class, one column a split."""
        if self.seen is None:
            return (), ()
        rows = [[c, *(s.counts[at] for s in self.seen.splits)] for at, c in enumerate(self.seen.classes)]
        return ("class", *(s.name for s in self.seen.splits)), rows


class LengthChart(DataChart):
    """How many texts have how many tokens, and where the limit stands."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.plot.hideAxis("left")
        self.plot.getAxis("bottom").tickStrings = whole_words
        self.setAccessibleName("Lengths of the texts in tokens")

    @property
    def counts(self) -> tuple[int, ...]:
        """Texts of all splits by bin."""
        found = [s.lengths for s in self.seen.splits if s.lengths] if self.seen else []
        return tuple(sum(column) for column in zip(*found, strict=True))

    def draw(self, palette: Palette) -> None:
        """Bars, those beyond the limit in another colour, and the limit itself where it lies among them."""
        self.plot.clear()
        seen, counts = self.seen, self.counts
        if seen is None or not counts:
            return
        edges, limit = np.array(seen.edges), seen.max_length
        centres, width = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0]) * 0.86
        beyond = edges[:-1] > limit
        for where, colour in ((~beyond, palette.bar), (beyond, palette.bad)):
            if where.any():
                self.plot.addItem(pg.BarGraphItem(x=centres[where], height=np.array(counts)[where], width=width,
                                                  pen=NO_PEN, brush=tint(colour, 165)))  # fmt: skip
        top = max(counts) * 1.08
        if limit <= edges[-1]:
            self.plot.addItem(pg.PlotCurveItem([limit, limit], [0, top], pen=pen(palette.bad, 1.4), antialias=False))
        self.plot.setXRange(0, float(edges[-1]), padding=0)
        self.plot.setYRange(0, top, padding=0)
        cut = f'<span style="color:{palette.bad if seen.cut else palette.muted}">{cut_words(seen)}</span>'
        self._head(f"<b>Tokens</b> &nbsp; {cut}", palette)

    def words_at(self, x: float) -> str:
        """A bin."""
        seen, counts = self.seen, self.counts
        at = int(np.searchsorted(seen.edges, x, side="right")) - 1 if seen else -1
        if seen is None or not 0 <= at < len(counts):
            return ""
        last = at == len(counts) - 1 and seen.longest >= seen.edges[-1]
        span = f"{seen.edges[at]} or more" if last else words_of_bin(seen.edges[at], seen.edges[at + 1])
        return f"{span} tokens: {count(counts[at])} texts ({percent(counts[at] / max(sum(counts), 1))})"

    def table(self) -> Table:
        """One row a bin."""
        edges = self.seen.edges if self.seen else ()
        return ("from", "to", "texts"), list(zip(edges, edges[1:], self.counts, strict=False))


def words_of_bin(low: int, high: int) -> str:
    """`12`, or `12 … 15`."""
    return str(low) if high - low == 1 else f"{low} … {high - 1}"


def cut_words(seen: DataLook) -> str:
    """What the limit does."""
    if not seen.cut:
        return f"max length {count(seen.max_length)} cuts none"
    return f"max length {count(seen.max_length)} cuts {percent(seen.cut)}"


def short(name: str) -> str:
    """A class's name that fits below its bars."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"
