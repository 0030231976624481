"""What the centre shows while the first model is opened: what is being done, and a way out."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from espalier.app.widgets.heading import muted


class LoadingPage(QWidget):
    """A title, a line that follows the job, a bar, Cancel."""

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
        stop = QPushButton("Cancel")
        stop.clicked.connect(self.cancelled)
        box = QVBoxLayout(self)
        box.setSpacing(10)
        box.addStretch(2)
        for widget in (self._title, self._text, bar, stop):
            box.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        box.addStretch(3)

    def begin(self, title: str) -> None:
        """Start with a new title."""
        self._title.setText(title if len(title) < 160 else f"{title[:160]}…")
        self.tell("starting: the first time takes a few seconds")

    def tell(self, text: str) -> None:
        """Follow the job."""
        self._text.setText(text)
