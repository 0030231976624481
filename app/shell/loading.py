"""The page shown while a model is opened: the progress of the job, and Cancel."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.heading import muted

WIDTH = 560  # pixels
BREAKS = re.compile(r"(?<=[/\\&?=,:;._-])(?=\w)")  # in sources, which have no spaces


class LoadingPage(QWidget):
    """A title, the progress text of the job, a busy bar and Cancel."""

    cancelled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("surface", "background")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._title, self._text = QLabel(), muted("")
        self._title.setProperty("role", "title")
        for label in (self._title, self._text):
            label.setWordWrap(True)
            label.setFixedWidth(WIDTH)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        bar = QProgressBar(textVisible=False)
        bar.setRange(0, 0)
        bar.setFixedWidth(280)
        cancel = QPushButton(tr("Cancel"))
        cancel.clicked.connect(self.cancelled)
        box = QVBoxLayout(self)
        box.setSpacing(10)
        box.addStretch(2)
        for widget in (self._title, self._text, bar, cancel):
            box.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        box.addStretch(3)

    def begin(self, title: str) -> None:
        """Show the page for a new job."""
        _set_text(self._title, title if len(title) < 160 else f"{title[:160]}…")
        self.show_progress(tr("starting; the first time takes a few seconds"))

    def show_progress(self, text: str) -> None:
        """Show the progress text of the job."""
        _set_text(self._text, text)


def _set_text(label: QLabel, text: str) -> None:
    """Set a text that is broken also within a source, at the height that its lines need."""
    label.setText(BREAKS.sub("\u200b", text))
    label.setFixedHeight(label.heightForWidth(WIDTH))
