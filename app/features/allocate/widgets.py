"""Widgets and layout of the panel Allocate: choices, chart with slider, table, buttons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSlider,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from espalier.app.features.allocate.chart import FrontChart
from espalier.app.features.allocate.choices import AllocateChoices
from espalier.app.features.allocate.table import AllocateTable
from espalier.app.session.job_strip import JobStrip
from espalier.app.translation import tr
from espalier.app.widgets.forms.deferred_work import DeferredWork
from espalier.app.widgets.forms.fields import NumberField, apply_field_style
from espalier.app.widgets.heading import Elided, link, muted, warning

if TYPE_CHECKING:
    from espalier.app.session.session import Session

STEPS = 1000  # of the slider
CHOICES, TABLE, MIDDLE, RIGHT, WORDS = 236, 440, 300, 250, 520
ABOUT = tr(
    "An allocation gives each layer the format and sparsity that meet a budget and change the outputs least, as "
    "sensitivities predict. Sensitivities come from one backward pass over some data."
)


class ResultLabel(QLabel):
    """Result label, at least two lines high so that the layout does not jump during a drag."""

    def __init__(self) -> None:
        super().__init__(wordWrap=True)
        self.setProperty("role", "strong")
        self.setMinimumHeight(2 * self.fontMetrics().lineSpacing())
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)

    def show_text(self, text: str) -> None:
        """Set the text and the tooltip."""
        self.setText(text)
        self.setToolTip(text)


class AllocateWidgets(DeferredWork):
    """The widgets without their behaviour."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        apply_field_style(self)
        self.strip = JobStrip(session)
        self.choices, self.chart, self.table = AllocateChoices(), FrontChart(), AllocateTable()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.number, self.unit = NumberField(float), QLabel()
        self.result, self.counts = ResultLabel(), Elided("", "muted", 40)
        self.legend, self.wrong = QLabel(), warning()
        self.apply = QPushButton(tr("Apply"))
        self.measure, self.reset = link(tr("Measure"), self.want_measure), link(tr("Reset"), self.want_reset)
        self.about, self.finder = muted(ABOUT), QPushButton(tr("Find the sensitivities"))
        self.pages = QStackedWidget()
        self._build()

    def want_measure(self) -> None:
        """Handle the link Measure."""

    def want_reset(self) -> None:
        """Handle the link Reset."""

    def _build(self) -> None:
        self.slider.setRange(0, STEPS)
        self.slider.setAccessibleName(tr("Budget"))
        self.number.setAccessibleName(tr("Budget as a number"))
        self.number.setFixedWidth(84)
        self.unit.setProperty("role", "muted")
        self.apply.setProperty("primary", True)
        self.apply.setToolTip(tr("Append this allocation to the recipe, as one undo step"))
        self.measure.setToolTip(tr("Measure divergence and accuracy in the background"))
        box = QVBoxLayout(self)  # outermost first: a reparented widget is styled again
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.strip)
        box.addWidget(self.pages, 1)
        split = QSplitter(Qt.Orientation.Horizontal)
        self.pages.addWidget(self._empty())
        self.pages.addWidget(split)
        area = QScrollArea(widgetResizable=True)
        area.setWidget(self.choices)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setMinimumWidth(190)
        self.choices.setProperty("surface", "panel")
        self.choices.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        split.setHandleWidth(1)
        for part in (area, self._middle(), self._right()):
            split.addWidget(part)
        split.setStretchFactor(1, 3)
        split.setStretchFactor(2, 2)
        split.setSizes([CHOICES, 560, TABLE])

    def _empty(self) -> QWidget:
        page = QWidget()
        box = QVBoxLayout(page)
        box.addStretch(1)
        for part in (self.about, self.finder):
            box.addWidget(part, 0, Qt.AlignmentFlag.AlignHCenter)
        self.about.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.about.setFixedWidth(WORDS)
        box.addStretch(1)
        return page

    def _middle(self) -> QWidget:
        widget = QWidget()
        widget.setMinimumWidth(MIDDLE)
        box = QVBoxLayout(widget)
        box.setContentsMargins(8, 6, 12, 8)
        box.setSpacing(4)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.legend.setContentsMargins(4, 0, 0, 0)
        box.addWidget(self.legend)
        box.addWidget(self.chart, 1)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addSpacing(62)
        row.addWidget(self.slider, 1)
        row.addWidget(self.number)
        row.addWidget(self.unit)
        box.addLayout(row)
        return widget

    def _right(self) -> QWidget:
        widget = QWidget()
        widget.setMinimumWidth(RIGHT)
        box = QVBoxLayout(widget)
        box.setContentsMargins(0, 4, 0, 8)
        box.setSpacing(5)
        box.addWidget(self.table, 1)
        labels = QVBoxLayout()
        labels.setContentsMargins(12, 0, 12, 0)
        labels.setSpacing(2)
        for part in (self.wrong, self.result, self.counts):
            labels.addWidget(part)
        box.addLayout(labels)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 0, 12, 0)
        for part in (self.apply, self.measure, self.reset):
            foot.addWidget(part)
        foot.addStretch(1)
        box.addLayout(foot)
        return widget
