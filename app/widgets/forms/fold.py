"""A part of a panel that is folded away until it is wanted; what is in it is made when it is first opened."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget


class Fold(QWidget):
    """A heading with a triangle, and below it what `make` gives; `note` stands behind the title while it is folded."""

    opened = Signal()

    def __init__(self, title: str, make: Callable[[], QWidget]) -> None:
        super().__init__()
        self._title, self._make = title, make
        self.inside: QWidget | None = None
        self.head = QToolButton()
        self.head.setProperty("fold", True)
        self.head.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.head.setArrowType(Qt.ArrowType.RightArrow)
        self.head.setCheckable(True)
        self.head.setText(title)
        self.head.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.head.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.head.toggled.connect(self._toggle)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._column.addWidget(self.head)

    def note(self, words: str) -> None:
        """Say in short what is inside, such as what differs from the defaults."""
        self.head.setText(f"{self._title} · {words}" if words else self._title)

    def unfold(self) -> None:
        """Open it."""
        self.head.setChecked(True)

    def _toggle(self, on: bool) -> None:
        self.head.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        if on and self.inside is None:
            self.inside = self._make()
            self.inside.setContentsMargins(14, 0, 0, 6)
            self._column.addWidget(self.inside)
            self.opened.emit()
        if self.inside is not None:
            self.inside.setVisible(on)
