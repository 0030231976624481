"""Answer view: picture with its fields, metrics as a table, source; and the answer's text as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.kernels.answer_pictures import view_of
from espalier.app.features.kernels.measurement_tab import Pages
from espalier.app.features.kernels.source import PythonColours
from espalier.app.features.kernels.state.answer_text import note_text, value_text
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import link
from espalier.app.widgets.source.source_text import SourceText
from espalier.app.widgets.table import Table
from espalier.kernels.bench.answers.lines import Line
from espalier.kernels.bench.answers.measured_data import MeasuredData
from espalier.kernels.bench.answers.questions import Question


class AnswerView(QWidget):
    """Emits `save_wanted` with a picture or a table, a dialog title and a file name."""

    save_wanted = Signal(object, str, str)

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self.view, self.figures, self.source = view_of(question.key), Table(), Sources(question)
        self.figures.setAccessibleName(tr("Metrics of the answer"))
        self.save = link(tr("Save…"), self._save)
        self.save.setToolTip(tr("The picture as PNG, SVG or CSV; the metrics as CSV"))
        self.pages = Pages({"Picture": self.view, "Metrics": self.figures, "Source": self.source}, (self.save,))
        self.pages.shown.connect(lambda at: self.save.setVisible(at < 2))
        self._lines: tuple[Line, ...] | None = None
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.pages)

    def show_measured(self, measured: MeasuredData, lines: tuple[Line, ...]) -> None:
        """Show measured facts and the answer's lines."""
        self.view.show_measured(measured)
        if lines != self._lines:
            self._lines = lines
            self.figures.show_rows(
                [
                    {
                        "figure": message(x.label),
                        "value": value_text(x),
                        "unit": x.unit,
                        "number": x.value,
                        "note": note_text(x),
                    }
                    for x in lines
                ]
            )

    def _save(self) -> None:
        if self.pages.pages.currentWidget() is self.figures:
            self.save_wanted.emit(self.figures, tr("Save the metrics"), f"{self.question.key}.csv")
        else:
            self.save_wanted.emit(self.view.picture, tr("Save the picture"), f"{self.question.key}.png")


class Sources(QWidget):
    """Read-only source of the functions that an answer describes; built when first shown."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question
        self.text: SourceText | None = None
        self.choice = Choice(question.sources, tuple(f"{s.name} · {s.file}" for s in question.sources))
        self.choice.setAccessibleName(tr("Function to read"))
        self.choice.edited.connect(self._show)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(12, 4, 12, 0)
        self._box.setSpacing(4)
        self._box.addWidget(self.choice)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.text is None:
            self.text = SourceText(PythonColours)
            self.text.setAccessibleName(tr("Source"))
            self._box.addWidget(self.text, 1)
            self._show()

    def _show(self) -> None:
        if self.text is not None:
            self.text.show_text(self.choice.get().text, {})


# -- HTML


def text_html(question: Question) -> str:
    """The answer's paragraphs as HTML."""
    parts = [f'<p style="margin:0 0 6px 0">{html.escape(tr(t))}</p>' for t in question.text]
    return "".join(parts)


def formulas_html(question: Question) -> str:
    """The formulas as HTML, one indented line each."""
    return "".join(f'<p style="margin:0 0 2px 12px">{html.escape(tr(f))}</p>' for f in question.formulas)


def lines_html(lines: Sequence[Line], grey: str) -> str:
    """The metrics as an HTML table; missing values are grey, notes small below the label."""
    rows: list[str] = []
    for line in lines:
        value, note = html.escape(value_text(line)), html.escape(note_text(line))
        cell = f"<b>{value}</b>" if line.value is not None else f'<span style="color:{grey}">{value}</span>'
        small = f'<br><span style="color:{grey};font-size:11px">{note}</span>' if note else ""
        rows.append(f'<tr><td style="padding:1px 12px 1px 0">{html.escape(message(line.label))}{small}</td>'
                    f'<td style="padding:1px 0">{cell}</td></tr>')  # fmt: skip
    return f'<table cellspacing="0">{"".join(rows)}</table>'


def links_html(question: Question, colour: str) -> str:
    """The references as HTML links."""
    anchors = [
        f'<a style="color:{colour}" href="{html.escape(k.url)}">{html.escape(k.text)}</a>' for k in question.links
    ]
    return tr("Read: ") + " · ".join(anchors)
