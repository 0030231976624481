"""The field that chooses a state: positions of the recipe, pins, trials, or another file."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QSizePolicy

from espalier.app.features.compare.state.choices import StateChoice
from espalier.app.translation import tr

FILE = tr("Another file…")
UNPIN = tr("Remove this pin")
WIDTH = 220  # preferred width in pixels


class StateBox(QComboBox):
    """Lists the present choices whenever it opens.

    `chosen`: a StateChoice; `file_wanted`: another file; `unpin_wanted`: remove the pin of this name.
    """

    chosen = Signal(object)
    file_wanted = Signal()
    unpin_wanted = Signal(str)

    def __init__(self, name: str, choices: Callable[[], list[list[StateChoice]]]) -> None:
        super().__init__()
        self._choices = choices
        self._shown: StateChoice | None = None
        self.setAccessibleName(tr("State {}", name))
        self.setPlaceholderText(tr("Choose a state"))
        self.setMinimumWidth(120)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMaximumWidth(WIDTH * 2)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(18)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.activated.connect(self._activate)

    def show_choice(self, choice: StateChoice | None) -> None:
        """Show a choice."""
        if choice != self._shown or not self.count():
            self._shown = choice
            self.fill()

    def fill(self) -> None:
        """List the choices, and select the shown one."""
        self.clear()
        groups = self._choices()
        for group in groups:
            if self.count():
                self.insertSeparator(self.count())
            for choice in group:
                self.addItem(choice.title, choice)
        if self.count():
            self.insertSeparator(self.count())
        current = self._shown
        if current is not None and current.kind == "file":
            self.addItem(current.title, current)
            self.setItemData(self.count() - 1, current.name, Qt.ItemDataRole.ToolTipRole)
        self.addItem(FILE)
        if current is not None and current.kind == "pin":
            self.addItem(UNPIN)
        rows = range(self.count())
        index = next((i for i in rows if current is not None and self._key(i) == current.key), -1)
        self.setCurrentIndex(index)
        self.setToolTip(self.currentText())

    def _key(self, index: int) -> tuple[str, str] | None:
        choice = self.itemData(index)
        return choice.key if isinstance(choice, StateChoice) else None

    def showPopup(self) -> None:
        self.fill()
        super().showPopup()

    def _activate(self, index: int) -> None:
        choice = self.itemData(index)
        if isinstance(choice, StateChoice):
            self.chosen.emit(choice)
        elif self.itemText(index) == FILE:
            self.fill()
            self.file_wanted.emit()
        elif self.itemText(index) == UNPIN and self._shown is not None:
            self.unpin_wanted.emit(self._shown.name)
