"""Data at a glance: figures in words, classes, lengths, and what the model takes for what."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from espalier.app.features.data.charts.confusion import ConfusionView
from espalier.app.features.data.charts.data_charts import ClassChart, LengthChart
from espalier.app.widgets.heading import muted, warning
from espalier.app.words import count, percent, plural
from espalier.model.data.summary import DataLook, balance

if TYPE_CHECKING:
    from espalier.passes.analysis.predictions import Predictions

WIDE = 1276  # pixels that hold three charts


class DataOverview(QWidget):
    """Words and charts, side by side; the confusion of classes takes the place of the lengths once it is known."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: DataLook | None = None
        self._told: Predictions | None = None
        self.facts, self.misfit = muted(""), warning()
        self.classes, self.lengths, self.confusion = ClassChart(), LengthChart(), ConfusionView()
        self._build()

    def _build(self) -> None:
        words = QWidget()
        column = QVBoxLayout(words)
        column.setContentsMargins(0, 2, 8, 2)
        column.setSpacing(4)
        self.facts.setTextFormat(Qt.TextFormat.RichText)
        column.addWidget(self.misfit)
        column.addWidget(self.facts)
        column.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setWidget(words)
        area.setMinimumWidth(150)
        area.setMaximumWidth(280)
        words.setProperty("surface", "panel")
        charts = QWidget()
        row = QHBoxLayout(charts)
        row.setContentsMargins(0, 0, 10, 0)
        for chart in (self.classes, self.lengths, self.confusion):
            row.addWidget(chart, 1)
        self.confusion.hide()
        both = QHBoxLayout(self)
        both.setContentsMargins(0, 0, 0, 0)
        both.addWidget(area, 2)
        both.addWidget(charts, 5)

    def look_at(self, seen: DataLook, misfit: str) -> None:
        """Show other data; `misfit`: why the model cannot take them."""
        self._seen = seen
        self.tell_misfit(misfit)
        self.facts.setText(_facts(seen))
        self.classes.look_at(seen)
        self.lengths.look_at(seen)
        self.show_confusion(None)

    def tell_misfit(self, words: str) -> None:
        """Say what is wrong; empty: nothing."""
        self.misfit.setText(words)
        self.misfit.setVisible(bool(words))

    def show_confusion(self, told: Predictions | None) -> None:
        """Show what the model takes for what; None: it has not been asked."""
        self._told, seen = told, self._seen
        if told is not None:
            self.confusion.show_matrix(told.confusion(), told.classes)
        self.confusion.setVisible(told is not None)
        self._room()
        self.lengths.setVisible(told is None and seen is not None and seen.kind == "text")

    def _room(self) -> None:
        """Beside a confusion there is room for the chart of classes in a wide panel only."""
        panel = self.parentWidget()
        self.classes.setVisible(self._told is None or (panel is not None and panel.width() >= WIDE))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._seen is not None:
            self._room()


def _facts(seen: DataLook) -> str:
    """The figures in a few lines."""
    sizes = " · ".join(f"{s.name} {count(s.samples)}" for s in seen.splits)
    kind = "texts" if seen.kind == "text" else f"images, {' × '.join(map(str, seen.shape))}"
    words = f"{plural(len(seen.classes), 'class', 'classes')}; {balance(seen.counts, seen.classes)}."
    guess = f"Majority-class accuracy: {percent(seen.judged.majority)}"
    least = f"{guess} on {seen.judged.name}; a model must beat it."
    lines = [f"<b>{count(sum(seen.counts))} {escape(kind)}</b>", *map(escape, (sizes, words, least))]
    if seen.kind == "text":
        lines.append(f"Half of the texts have up to {plural(seen.median, 'token')}, the longest {count(seen.longest)}.")
    return "<p style='margin:0 0 5px 0'>" + "</p><p style='margin:0 0 5px 0'>".join(lines) + "</p>"
