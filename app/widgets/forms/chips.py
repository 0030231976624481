"""Chips: small buttons beside each other that are pressed or not, for a handful of values."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from espalier.app.widgets.forms.flow import Flow


class Chips(QWidget):
    """Several of a few words; those that were put and are not among them are added behind."""

    edited = Signal()

    def __init__(self, values: Iterable[str] = (), noun: str = "") -> None:
        super().__init__()
        self._noun = noun
        self._flow = Flow(self, spacing=4)
        self.buttons: dict[str, QPushButton] = {}
        for value in values:
            self._add(value)

    def _add(self, value: str) -> QPushButton:
        button = self.buttons[value] = QPushButton(value.replace("_", " "))
        button.setCheckable(True)
        button.setProperty("chip", True)
        button.setAccessibleName(f"{self._noun} {value}".strip())
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.clicked.connect(self.edited)
        self._flow.addWidget(button)
        return button

    def get(self) -> tuple[str, ...]:
        """The values whose chips are pressed, in the order of the chips."""
        return tuple(v for v, b in self.buttons.items() if b.isChecked())

    def put(self, values: Iterable[str]) -> None:
        """Press these and no others."""
        wanted = tuple(values)
        for value in wanted:
            if value not in self.buttons:
                self._add(value)
        for value, button in self.buttons.items():
            button.setChecked(value in wanted)
