"""The page shown while a model is opened: the progress of the job, and Cancel."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from espalier.app.widgets.heading import muted


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
            label.setFixedWidth(560)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        bar = QProgressBar(textVisible=False)
        bar.setRange(0, 0)
        bar.setFixedWidth(280)
        cancel = QPushButton("Cancel")
        cancel.clicked.connect(self.cancelled)
        box = QVBoxLayout(self)
        box.setSpacing(10)
        box.addStretch(2)
        for widget in (self._title, self._text, bar, cancel):
            box.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        box.addStretch(3)

    def begin(self, title: str) -> None:
        """Show the page for a new job."""
        self._title.setText(title if len(title) < 160 else f"{title[:160]}…")
        self.show_progress("starting; the first time takes a few seconds")

    def show_progress(self, text: str) -> None:
        """Show the progress text of the job."""
        self._text.setText(text)
