"""A chart below its legend."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.deploy.charts import ScalingChart, StackedBars
from espalier.app.widgets.heading import muted


class LabelledChart(QWidget):
    """A chart of plans and what its colours mean."""

    def __init__(self, chart: StackedBars | ScalingChart) -> None:
        super().__init__()
        self._chart, self._legend = chart, muted("")
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._legend.setWordWrap(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self._legend)
        column.addWidget(chart, 1)
        column.addStretch()

    def show_legend(self) -> None:
        """Name what the chart draws now."""
        entries = (f'<span style="color:{colour}">■</span> {escape(name)}' for name, colour in self._chart.legend())
        self._legend.setText("&nbsp; ".join(entries))
