"""What stands beside an answer's words: its picture with what it can be given, its figures as a table, its source."""

from __future__ import annotations

import html
from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.kernels.answer_pictures import view_of
from espalier.app.features.kernels.source import PythonColours
from espalier.app.features.kernels.state.answer_words import note_text, value_text
from espalier.app.features.kernels.timed import Pages
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import link
from espalier.app.widgets.source.text import SourceText
from espalier.app.widgets.table import Table
from espalier.kernels.bench.answers.known import Known
from espalier.kernels.bench.answers.lines import Line
from espalier.kernels.bench.answers.questions import Question


class Shown(QWidget):
    """`save_wanted`: a picture or a table, a title and a file's name."""

    save_wanted = Signal(object, str, str)

    def __init__(self, asked: Question) -> None:
        super().__init__()
        self.asked = asked
        self.view, self.figures, self.source = view_of(asked.key), Table(), Sources(asked)
        self.figures.setAccessibleName("Figures of the answer")
        self.save = link("Save…", self._save)
        self.save.setToolTip("The picture as PNG, SVG or CSV; the figures as CSV")
        self.pages = Pages({"Picture": self.view, "Figures": self.figures, "Source": self.source}, (self.save,))
        self.pages.shown.connect(lambda at: self.save.setVisible(at < 2))
        self._lines: tuple[Line, ...] | None = None
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.pages)

    def show_known(self, known: Known, lines: tuple[Line, ...]) -> None:
        """Draw other figures."""
        self.view.show_known(known)
        if lines != self._lines:
            self._lines = lines
            self.figures.show_rows([{"figure": x.label, "value": value_text(x), "unit": x.unit, "number": x.value,
                                     "note": note_text(x)} for x in lines])  # fmt: skip

    def _save(self) -> None:
        if self.pages.pages.currentWidget() is self.figures:
            self.save_wanted.emit(self.figures, "Save the figures", f"{self.asked.key}.csv")
        else:
            self.save_wanted.emit(self.view.picture, "Save the picture", f"{self.asked.key}.png")


class Sources(QWidget):
    """The functions of ours that an answer is about, to be read; made when they are first looked at."""

    def __init__(self, asked: Question) -> None:
        super().__init__()
        self._asked = asked
        self.text: SourceText | None = None
        self.choice = Choice(asked.sources, tuple(f"{s.name} · {s.file}" for s in asked.sources))
        self.choice.setAccessibleName("Function to read")
        self.choice.edited.connect(self._show)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(12, 4, 12, 0)
        self._box.setSpacing(4)
        self._box.addWidget(self.choice)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.text is None:
            self.text = SourceText(PythonColours)
            self.text.setAccessibleName("Source")
            self._box.addWidget(self.text, 1)
            self._show()

    def _show(self) -> None:
        if self.text is not None:
            self.text.show_text(self.choice.get().text, {})


# -- words


def text_html(asked: Question) -> str:
    """The paragraphs."""
    parts = [f'<p style="margin:0 0 6px 0">{html.escape(t)}</p>' for t in asked.text]
    return "".join(parts)


def formulas_html(asked: Question) -> str:
    """A line each, set apart."""
    return "".join(f'<p style="margin:0 0 2px 12px">{html.escape(f)}</p>' for f in asked.formulas)


def lines_html(lines: Sequence[Line], grey: str) -> str:
    """A table of figures; what is not measured is grey, notes stand below in small."""
    rows: list[str] = []
    for line in lines:
        value, note = html.escape(value_text(line)), html.escape(note_text(line))
        shown = f"<b>{value}</b>" if line.value is not None else f'<span style="color:{grey}">{value}</span>'
        more = f'<br><span style="color:{grey};font-size:11px">{note}</span>' if note else ""
        rows.append(f'<tr><td style="padding:1px 12px 1px 0">{html.escape(line.label)}{more}</td>'
                    f'<td style="padding:1px 0">{shown}</td></tr>')  # fmt: skip
    return f'<table cellspacing="0">{"".join(rows)}</table>'


def links_html(asked: Question, colour: str) -> str:
    """Where it comes from."""
    held = [f'<a style="color:{colour}" href="{html.escape(k.url)}">{html.escape(k.text)}</a>' for k in asked.links]
    return "Read: " + " · ".join(held)
