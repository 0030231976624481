"""The bar of the tabs: names, close buttons, and a dot where a long job runs."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QIcon, QMouseEvent, QPixmap
from PySide6.QtWidgets import QTabBar, QToolButton

from espalier.app.translation import tr
from espalier.app.widgets.icons import tinted

LONGEST = 220  # pixels of the text of a tab
ICON = 16  # pixels


class TabBar(QTabBar):
    """Signals the index of a tab that is to be closed; the caller owns what the tabs are about."""

    close_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setDocumentMode(True)
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setMovable(True)
        self.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.setAccessibleName(tr("Open documents"))
        empty = QPixmap(ICON, ICON)
        empty.fill(Qt.GlobalColor.transparent)
        self._no_icon = QIcon(empty)  # keeps the width of a tab

    def insert(self, index: int) -> None:
        """Insert a tab with a close button."""
        self.blockSignals(True)  # it has no button yet
        self.insertTab(index, "")
        self.blockSignals(False)
        button = QToolButton()
        button.setText("×")
        button.setToolTip(tr("Close this tab"))
        button.setProperty("quiet", True)
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.clicked.connect(lambda: self.close_wanted.emit(self._index_of(button)))
        self.setTabButton(index, QTabBar.ButtonPosition.RightSide, button)

    def close_button(self, index: int) -> QToolButton:
        """The close button of a tab."""
        button = self.tabButton(index, QTabBar.ButtonPosition.RightSide)
        assert isinstance(button, QToolButton)
        return button

    def _index_of(self, button: QToolButton) -> int:
        return next(i for i in range(self.count()) if self.close_button(i) is button)

    def take(self, index: int) -> None:
        """Remove a tab that is not in front, without a signal."""
        self.blockSignals(True)
        self.removeTab(index)
        self.blockSignals(False)

    def show_document(self, index: int, name: str, source: str, colour: str) -> None:
        """Show the name of a document; `colour`: of the dot for a running job, or empty."""
        text = self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, LONGEST).replace("&", "&&")
        if text != self.tabText(index):
            self.setTabText(index, text)
        self.setTabIcon(index, tinted("running", colour, colour, ICON) if colour else self._no_icon)
        self.setTabToolTip(index, f"{source or name}{tr(' · a job is running') if colour else ''}")
        self.close_button(index).setAccessibleName(tr("Close {}", name))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The middle button closes a tab."""
        index = self.tabAt(event.position().toPoint())
        if event.button() == Qt.MouseButton.MiddleButton and index >= 0:
            self.close_wanted.emit(index)
            return
        super().mouseReleaseEvent(event)
