"""A tile of the board: a head with the chart's kind, options and export, and the chart or a text if it is empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent, QTextDocument
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.search.charts.comparison import Compared, ComparisonChart
from espalier.app.features.search.charts.option_menu import fill
from espalier.app.features.search.charts.parallel import ParallelChart
from espalier.app.features.search.charts.study_view import Option
from espalier.app.figures.study.data import Study
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Check, Choice
from espalier.app.widgets.heading import empty_state, link

WIDEST = 150  # pixels of a list of options
BETWEEN, MORE = " &nbsp; ", " …"  # separator of the parts of a legend
LEGEND = 18  # pixels beside the legend
LINES = 2  # of a legend
LEAST = (160, 70)  # smallest chart in pixels; four fit a small window


class Tile(QWidget):
    """A chart of `kinds` (name → constructor). Charts are created on first use and kept."""

    hovered = Signal(object)
    picked = Signal(object)
    applied = Signal(object)
    brushed = Signal(object)
    save_wanted = Signal()

    def __init__(self, kinds: dict[str, Callable[[], Any]], first: str) -> None:
        super().__init__()
        self._kinds, self._study = kinds, Study()
        self._others: tuple[Compared, ...] = ()
        self._mask: Any = None
        self.charts: dict[str, Any] = {}
        self._stale: set[str] = set()
        self.kind = Choice(tuple(kinds), tuple(map(tr, kinds)))
        self.kind.setAccessibleName(tr("Chart"))
        self.kind.put(first)
        self.kind.edited.connect(self._changed)
        self.fields: dict[str, Any] = {}
        self._offered: list[Option] = []
        self._options, self._pages, self._words = QHBoxLayout(), QStackedWidget(), empty_state("")
        self.legend, self._legend = QLabel(), ""
        self._build()
        self._changed()

    def _build(self) -> None:
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.legend.setProperty("role", "small")
        self.legend.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.legend.setContentsMargins(10, 0, 8, 0)
        head = QHBoxLayout()
        head.setContentsMargins(8, 4, 8, 2)
        head.setSpacing(6)
        self._options.setSpacing(6)
        head.addWidget(self.kind)
        head.addLayout(self._options)
        self.rest, self.more = QMenu(self), link(tr("More ▾"), self._open_rest)
        self.more.setToolTip(tr("More chart options"))
        self.more.hide()
        head.addWidget(self.more)
        head.addStretch(1)
        self._save = link(tr("Save…"), self.save_wanted.emit)
        self._save.setToolTip(tr("Save this chart as PNG, SVG or CSV"))
        head.addWidget(self._save)
        self._words.setMargin(8)
        self._pages.addWidget(self._words)
        self._pages.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self._pages.setMinimumSize(*LEAST)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(head)
        box.addWidget(self.legend)
        box.addWidget(self._pages, 1)

    @property
    def chart(self) -> Any:
        """The shown chart."""
        return self.charts[self.kind.get()]

    def show_kind(self, name: str) -> None:
        """Show another chart."""
        self.kind.put(name)
        self._changed()

    def _changed(self) -> None:
        name = self.kind.get()
        if name not in self.charts:
            chart = self.charts[name] = self._kinds[name]()
            chart.hovered.connect(self.hovered)
            chart.picked.connect(self.picked)
            chart.applied.connect(self.applied)
            chart.changed.connect(self.refresh)
            if isinstance(chart, ParallelChart):
                chart.brushed.connect(self.brushed)
            if isinstance(chart, ComparisonChart):
                chart.show_others(self._others)
            self._pages.addWidget(chart)
            self._stale.add(name)
        self._catch_up()

    def _catch_up(self) -> None:
        name = self.kind.get()
        if name in self._stale:
            self._stale.discard(name)
            self.chart.show_study(self._study)
        if hasattr(self.chart, "dim"):  # brushes changed while another chart was shown
            self.chart.dim(self._mask)
        self.refresh()

    def show_study(self, study: Study) -> None:
        """Set the study of all charts; hidden ones take it when shown."""
        self._study, self._mask = study, None
        self._stale = set(self.charts)
        if self.isVisible():
            self._catch_up()

    def compare(self, studies: Sequence[Compared]) -> None:
        """Set the studies of the comparison."""
        self._others = tuple(studies)
        for chart in self.charts.values():
            if isinstance(chart, ComparisonChart):
                chart.show_others(self._others)
                self.refresh()

    def append(self, indices: Sequence[int]) -> None:
        """Add or update trials of the study."""
        self._stale |= set(self.charts) - {self.kind.get()}
        if not self.isVisible():
            self._stale = set(self.charts)
        elif self.chart.empty() or self._pages.currentIndex() == 0:
            self.chart.show_study(self._study)
            self.refresh()
        else:
            self.chart.append(indices)
            self.refresh()

    def dim(self, mask: Any) -> None:
        """Fade the trials outside the brushes; None fades none."""
        self._mask = mask
        if self.kind.get() not in self._stale and hasattr(self.chart, "dim"):
            self.chart.dim(mask)

    def mark(self, index: int | None) -> None:
        """Mark the picked trial."""
        if self.kind.get() not in self._stale:
            self.chart.mark(index)

    def refresh(self) -> None:
        """Update options, legend and texts from the chart."""
        chart = self.chart
        text = chart.empty()
        self._words.setText(text)
        self._pages.setCurrentWidget(self._words if text else chart)
        legend = "" if text else chart.legend()
        if legend != self._legend:
            self._legend = legend
            self.legend.setToolTip(legend)
            self._shorten()
        self.legend.setVisible(bool(legend))
        self._save.setEnabled(not text)
        self._offer([o for o in chart.options() if o.offered(not text)])
        for name, field in self.fields.items():
            field.put(chart.option(name))

    def _shorten(self) -> None:
        """Break the legend into lines that fit, and drop the last parts of what needs more lines."""
        room, lines = self.width() - LEGEND, list[str]()
        parts = self._legend.split(BETWEEN)
        for k, part in enumerate(parts):
            longer = f"{lines[-1]}{BETWEEN}{part}" if lines else part
            ending = MORE * (k + 1 < len(parts) and len(lines) == LINES)
            if lines and self._legend_width(longer + ending) <= room:
                lines[-1] = longer
            elif len(lines) < LINES:
                lines.append(part)
            else:
                lines[-1] += MORE
                break
        text = "<br>".join(lines)
        if text != self.legend.text():
            self.legend.setText(text)

    def _legend_width(self, text: str) -> float:
        measured = QTextDocument()
        measured.setDefaultFont(self.legend.font())
        measured.setHtml(text)
        return measured.idealWidth()

    def _offer(self, options: list[Option]) -> None:
        if options == self._offered:
            return
        self._offered = options
        for field in self.fields.values():
            self._options.removeWidget(field)
            field.hide()
            field.deleteLater()
        self.fields = {o.name: self._field(o) for o in options}
        for field in self.fields.values():
            self._options.addWidget(field)
        self._fold()

    def _field(self, option: Option) -> Any:
        field: Any = Check(tr(option.name)) if option.values is None else Choice(option.values, option.texts)
        field.setAccessibleName(option.hint or tr(option.name))
        field.setToolTip(option.hint)
        if option.values is not None:
            field.setMaximumWidth(WIDEST)
        field.edited.connect(lambda: self._chosen(option.name))
        return field

    def _chosen(self, name: str) -> None:
        self.chart.choose(name, self.fields[name].get())
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._catch_up()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fold()
        self._shorten()

    def _fold(self) -> None:
        """Move options that do not fit the head into a menu."""
        room = self.width() - self.kind.sizeHint().width() - self._save.sizeHint().width() - 40
        widths = [min(field.sizeHint().width(), WIDEST) + 6 for field in self.fields.values()]
        self.more.setVisible(sum(widths) > room)
        room -= self.more.sizeHint().width() + 6 if sum(widths) > room else 0
        for field, width in zip(self.fields.values(), widths, strict=True):
            room -= width
            field.setVisible(room >= 0)

    def _open_rest(self) -> None:
        hidden = [o for o in self._offered if self.fields[o.name].isHidden()]
        fill(self.rest, hidden, self.chart.option, self._take)
        self.rest.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def _take(self, name: str, value: Any) -> None:
        """Set an option from the menu."""
        self.chart.choose(name, value)
        self.refresh()

    # -- files

    @property
    def file_name(self) -> str:
        """The default file name of the chart."""
        return f"{self.kind.get().lower().replace(' ', '-')}.png"

    def export(self, path: Path) -> None:
        """Write the chart to a .png, .svg or .csv file; raises EspalierError."""
        self.chart.export(path)
