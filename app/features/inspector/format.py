"""Section of the current port's format: bits an element, staircase, error, codes and source.

If steps are too small over the whole range, the range near 0 is shown first.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QHBoxLayout, QHeaderView, QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.charts.staircase import Staircase
from espalier.app.features.inspector.figures.formats import FormatFigures, format_figures
from espalier.app.figures.tensor_chunks import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import plural
from espalier.app.translation import error_text, tr
from espalier.app.widgets.bits import storage_text
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import heading, link
from espalier.app.widgets.plain_text_style import rich_label
from espalier.app.widgets.table import Table
from espalier.model.formats.base import Format

ROWS = 6
TOOLTIP = tr("q(x) is the stored value for x: the nearest code, or the end of the range beyond it")
WHOLE, NEAR = tr("Whole range"), tr("Near 0")


class FormatSection(QWidget):
    """Shows a format; its data is computed in the previews' thread, the latest request only."""

    def __init__(self) -> None:
        super().__init__()
        self.format: Format | None = None
        self.data: FormatFigures | None = None
        self._near: bool | None = None  # None: automatic
        self._previews = Previews(self)
        self._previews.ready.connect(lambda slot, key, data: self._show(data))
        self._previews.failed.connect(lambda slot, error: self._fail(error_text(error)))
        self.heading = heading(tr("Format"))
        self.stored, self.source, self.note = _line(), _line(), _line()
        self.source.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.range = link("", self._toggle_range)
        self.stairs, self.error = Staircase(False), Staircase(True)
        self.stairs.setFixedHeight(112)
        self.error.setFixedHeight(66)
        self.codes = Table()
        self.codes.setAccessibleName(tr("Codes"))
        self.codes.setAccessibleName(tr("Codes of the format"))
        self.codes.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.codes.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.copy = link(tr("Copy the codes"), self.codes.copy)
        self.names = rich_label(), rich_label()
        self._arrange()
        self._name_plots()

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        top = QHBoxLayout()
        top.addWidget(self.names[0], 1)
        top.addWidget(self.range)
        column.addWidget(self.heading)
        column.addWidget(self.stored)
        column.addLayout(top)
        for widget in (self.stairs, self.names[1], self.error, self.codes, self.note):
            column.addWidget(widget)
        column.addWidget(self.copy, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.source)

    def _name_plots(self) -> None:
        """Label the plots, in the colours of their lines."""
        palette = tokens(self)
        titles = ((tr("Staircase"), palette.accent, "x → q(x)"), (tr("Error"), palette.bad, "x − q(x)"))
        for label, (name, colour, text) in zip(self.names, titles, strict=True):
            label.setProperty("role", "small")
            label.setToolTip(TOOLTIP)
            label.setText(f'<b>{name}</b> &nbsp;<span style="color:{colour}">{text}</span>')

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "names"):
            self._name_plots()

    def close_previews(self) -> None:
        """Stop running previews."""
        self._previews.close()

    def show_format(self, fmt: Format | None) -> None:
        """Show a format; None (float) hides the section."""
        self.setVisible(fmt is not None)
        if fmt is None or fmt == self.format:
            self.format = fmt
            return
        if self.format is None or fmt.name != self.format.name:
            self._near = None
        self.format = fmt
        self.heading.setText(tr(fmt.title).upper())
        self.stored.setText(storage_text(fmt))
        self.source.setText(tr("Source: {}", fmt.source))
        cached = self._previews.ask("format", fmt, partial(_work, fmt))
        if cached is not None:
            self._show(cached)

    def _show(self, data: FormatFigures) -> None:
        if data.format != self.format:
            return
        self.data = data
        rows = [{"code": c.bits, "value": c.value} for c in data.codes]
        self.codes.setVisible(bool(rows))
        self.copy.setVisible(bool(rows))
        self.copy.setText(tr("Copy {}", plural(len(rows), "code")))
        if rows:
            self.codes.show_rows(rows)
            shown = min(len(rows), ROWS)
            head = self.codes.horizontalHeader().sizeHint().height()
            self.codes.setFixedHeight(head + shown * self.codes.verticalHeader().defaultSectionSize() + 4)
        self.note.setText(data.note)
        self.note.setVisible(bool(data.note))
        self._draw()

    def _fail(self, text: str) -> None:
        self.data = None
        self.note.setText(text)
        self.note.show()
        self.codes.hide()
        self.copy.hide()
        self._draw()

    @property
    def near(self) -> bool:
        """Whether the range near 0 is drawn: as chosen, else if the steps would be invisible."""
        return self._near if self._near is not None else self.data is not None and self.data.fine

    def _toggle_range(self) -> None:
        self._near = not self.near
        self._draw()

    def _draw(self) -> None:
        data = self.data
        shown = None if data is None else data.near if self.near else data.whole
        self.range.setText(WHOLE if self.near else NEAR)
        for plot in (self.stairs, self.error):
            plot.show_stairs(shown)


def _work(fmt: Format, stop: Stop) -> FormatFigures:
    return format_figures(fmt)


def _line() -> QLabel:
    label = QLabel(wordWrap=True)
    label.setProperty("role", "small")
    return label
