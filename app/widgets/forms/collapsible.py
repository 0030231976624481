"""A collapsible section of a panel, whose content is created when it is first expanded."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget


class Collapsible(QWidget):
    """A heading with an arrow, and the widget that `make` returns below it."""

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

    def note(self, text: str) -> None:
        """Show a short summary of the content after the title."""
        self.head.setText(f"{self._title} · {text}" if text else self._title)

    def unfold(self) -> None:
        """Expand the section."""
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
