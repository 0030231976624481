"""What slang finds in a module while it is written: a short list below the text."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from app.panels.hardware_text import Mark
from app.theme import ROW
from app.words import plural

MOST = 4  # lines that are seen at once
DATA = Qt.ItemDataRole.UserRole


class Findings(QWidget):
    """Hidden while nobody edits. `chosen`: a finding to go to."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rows = QLabel(), QListWidget()
        self.words.setContentsMargins(12, 3, 12, 3)
        self.rows.setProperty("bare", True)
        self.rows.setUniformItemSizes(True)
        self.rows.setAccessibleName("Errors in the module")
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.words)
        box.addWidget(self.rows)
        self.rows.itemActivated.connect(self._choose)
        self.rows.itemClicked.connect(self._choose)
        self.hide()

    def show_marks(self, marks: Sequence[Mark]) -> None:
        """Show what was found; nothing is good news."""
        self.rows.clear()
        for mark in marks:
            where = f"line {mark.line}: " if mark.line else "in the design: "
            item = QListWidgetItem(f"✗ {where}{mark.text}")
            item.setData(DATA, mark)
            self.rows.addItem(item)
        self._tell(f"✗ {plural(len(marks), 'error')}" if marks else "✓ no errors by slang", "bad" if marks else "good")
        self.rows.setFixedHeight(min(len(marks), MOST) * ROW + 4)
        self.rows.setVisible(bool(marks))

    def tell(self, words: str) -> None:
        """Say why nothing is known."""
        self.rows.clear()
        self.rows.hide()
        self._tell(words, "same")

    def clear(self) -> None:
        """Nobody edits."""
        self.rows.clear()
        self.hide()

    def _tell(self, words: str, role: str) -> None:
        self.words.setText(words)
        self.words.setProperty("tone", role)
        self.words.style().unpolish(self.words)
        self.words.style().polish(self.words)
        self.show()

    def _choose(self, item: QListWidgetItem) -> None:
        mark = item.data(DATA)
        if isinstance(mark, Mark) and mark.line:
            self.chosen.emit(mark)
