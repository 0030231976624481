"""Chips: a row of small toggle buttons that choose several of a few values."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.flow_layout import FlowLayout


class Chips(QWidget):
    """Chooses several values; `put` appends values that are missing."""

    edited = Signal()

    def __init__(self, values: Iterable[str] = (), noun: str = "") -> None:
        super().__init__()
        self._noun = noun
        self._flow = FlowLayout(self, spacing=4)
        self.buttons: dict[str, QPushButton] = {}
        for value in values:
            self._add(value)

    def _add(self, value: str) -> QPushButton:
        button = self.buttons[value] = QPushButton(tr(value.replace("_", " ")))
        button.setCheckable(True)
        button.setProperty("chip", True)
        button.setAccessibleName(f"{tr(self._noun)} {value}".strip())
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.clicked.connect(self.edited)
        self._flow.addWidget(button)
        return button

    def get(self) -> tuple[str, ...]:
        """The values of the checked chips, in the order of the chips."""
        return tuple(v for v, b in self.buttons.items() if b.isChecked())

    def put(self, values: Iterable[str]) -> None:
        """Check the chips of these values only."""
        wanted = tuple(values)
        for value in wanted:
            if value not in self.buttons:
                self._add(value)
        for value, button in self.buttons.items():
            button.setChecked(value in wanted)
