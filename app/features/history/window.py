"""The edits of the document in a list of its own window; a click undoes or redoes up to there, as one change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QDialog, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from espalier.app.number_text import moment
from espalier.app.translation import tr
from espalier.app.widgets.heading import muted

if TYPE_CHECKING:
    from espalier.app.session.session import Session

START = tr("Before these edits")
COUNT = Qt.ItemDataRole.UserRole  # of an item: how many edits are done there


class HistoryWindow(QDialog):
    """The list follows the document; the present state is selected, undone edits are grey."""

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        self.setWindowTitle(tr("History of edits"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(360, 420)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Edits"))
        box = QVBoxLayout(self)
        box.addWidget(muted(tr("A click goes to the state after that edit.")))
        box.addWidget(self.list, 1)
        self.list.itemClicked.connect(self._go)
        self.list.itemActivated.connect(self._go)
        session.changed.connect(self.refresh)
        session.arranged.connect(self.refresh)
        session.opened.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """List the edits again."""
        self.list.clear()
        document = self._session.document
        if document is None:
            return
        edits, done = document.history
        faint = self.palette().placeholderText()
        for count, text in enumerate([START, *(f"{e.label}\t{moment(e.when)}" for e in edits)]):
            label, _, when = text.partition("\t")
            item = QListWidgetItem(f"{label}   {when}".rstrip())
            item.setData(COUNT, count)
            if count > done:
                item.setForeground(faint)
                item.setToolTip(tr("Undone"))
            self.list.addItem(item)
        self.list.setCurrentRow(done)

    def _go(self, item: QListWidgetItem) -> None:
        count = item.data(COUNT)
        QTimer.singleShot(0, self, lambda: self._jump(count))  # the list is filled again, and the item goes

    def _jump(self, count: int) -> None:
        if self._session.document is not None:
            self._session.document.go_to(count)
