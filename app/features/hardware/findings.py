"""List of slang's diagnostics below the source text."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QListWidget, QListWidgetItem

from espalier.app.theme import ROW
from espalier.app.translation import tr
from espalier.app.widgets.source.source_text import Mark

VISIBLE = 2  # visible lines
DATA = Qt.ItemDataRole.UserRole


class Findings(QListWidget):
    """List of diagnostics, hidden while empty; emits `chosen` with the one to go to."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("bare", True)
        self.setUniformItemSizes(True)
        self.setAccessibleName(tr("Errors in the module"))
        self.itemActivated.connect(self._choose)
        self.itemClicked.connect(self._choose)
        self.hide()

    def show_marks(self, marks: Sequence[Mark]) -> None:
        """Show diagnostics."""
        self.clear()
        for mark in marks:
            where = tr("line {}: ", mark.line) if mark.line else tr("in the design: ")
            item = QListWidgetItem(f"✗ {where}{mark.text}")
            item.setToolTip(mark.text)
            item.setData(DATA, mark)
            self.addItem(item)
        self.setFixedHeight(min(len(marks), VISIBLE) * ROW + 4)
        self.setVisible(bool(marks))

    def _choose(self, item: QListWidgetItem) -> None:
        mark = item.data(DATA)
        if isinstance(mark, Mark) and mark.line:
            self.chosen.emit(mark)
