"""The page of Deploy with the prediction over numbers of devices, of which a slider chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QVBoxLayout, QWidget

from espalier.app.features.deploy.charts import ScalingChart
from espalier.app.features.deploy.labelled_chart import LabelledChart
from espalier.app.features.deploy.summary import devices_html
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import link

Row = dict[str, Any]


class ScalingView(QWidget):
    """A chart, and the figures of the number of devices at the slider. `mesh_wanted`: a plan over its mesh."""

    mesh_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.chart = ScalingChart()
        self._labelled = LabelledChart(self.chart)
        self.slider, self.count = QSlider(Qt.Orientation.Horizontal), QLabel()
        self.figures, self.plan_link = QLabel(wordWrap=True), link(tr("Plan this mesh"), self._want)
        self._rows: Sequence[Row] = ()
        self._outdated = ""
        self._build()
        self.slider.valueChanged.connect(self._choose)
        self.show_rows((), "")

    def _build(self) -> None:
        self.figures.setTextFormat(Qt.TextFormat.RichText)
        self.figures.setMinimumWidth(1)
        self.slider.setAccessibleName(tr("Number of devices"))
        self.slider.setPageStep(1)
        self.slider.setTickPosition(QSlider.TickPosition.TicksBelow)
        self.count.setMinimumWidth(self.count.fontMetrics().horizontalAdvance("1024 devices "))
        self._choosing = QWidget()
        row, column = QHBoxLayout(self._choosing), QVBoxLayout(self)
        for layout in (row, column):
            layout.setContentsMargins(0, 0, 0, 0)
        for part in (self.slider, self.count, self.plan_link):
            row.addWidget(part, part is self.slider)
        column.setSpacing(2)
        column.addWidget(self._labelled, 1)
        column.addWidget(self._choosing)
        column.addWidget(self.figures)

    @property
    def row(self) -> Row | None:
        """The prediction at the slider."""
        return self._rows[self.slider.value()] if self._rows else None

    def show_rows(self, rows: Sequence[Row], outdated: str) -> None:
        """Show predictions, the slider at the same number of devices as before. `outdated`: by what they are."""
        chosen = self.row["devices"] if self.row else None
        self._rows, self._outdated = rows, outdated
        counts = [r["devices"] for r in rows]
        self.slider.blockSignals(True)
        self.slider.setRange(0, max(len(rows) - 1, 0))
        self.slider.setValue(counts.index(chosen) if chosen in counts else _most_useful(rows))
        self.slider.blockSignals(False)
        self._choosing.setVisible(bool(rows))
        self.figures.setVisible(bool(rows))
        self.chart.show_rows(rows)
        self._labelled.show_legend()
        self._choose()

    def _choose(self) -> None:
        if (row := self.row) is None:
            self.chart.mark(None)
            return
        count = plural(row["devices"], "device")
        self.count.setText(count)
        self.figures.setText(devices_html(row, self._outdated, tokens(self)))
        self.plan_link.setToolTip(tr("Plan the model over the mesh {}", row["mesh"]))
        self.slider.setToolTip(escape(tr("{}, mesh {}", count, row["mesh"])))
        self.chart.mark(row["devices"])

    def _want(self) -> None:
        if (row := self.row) is not None:
            self.mesh_wanted.emit(row["mesh"])


def _most_useful(rows: Sequence[Row]) -> int:
    """The place of the fastest prediction; 0 where there is none."""
    known = [(r["step_ms"], k) for k, r in enumerate(rows) if r.get("step_ms")]
    return min(known)[1] if known else 0
