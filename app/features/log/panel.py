"""Log panel: timestamped lines about jobs, errors, edits and output of user code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.log.state import LIMIT, log_lines_of
from espalier.app.translation import tr
from espalier.app.widgets.lines import Lines

if TYPE_CHECKING:
    from espalier.app.session.session import Session


class LogPanel(QWidget):
    """The text of the log, append-only."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._follow = True
        self._text = Lines(LIMIT, tr("Nothing has happened yet."))
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self._text.setFont(font)
        box = QVBoxLayout(self)
        box.setContentsMargins(6, 4, 6, 4)
        box.addWidget(self._text)
        # Queued: when it is first shown, Qt sets the position again after it has set the range.
        bar = self._text.verticalScrollBar()
        bar.rangeChanged.connect(self._on_range_changed, Qt.ConnectionType.QueuedConnection)
        bar.actionTriggered.connect(self._on_scrolled)
        log = log_lines_of(session)
        self.add = log.add
        self._text.setPlainText("\n".join(log.lines))
        log.added.connect(self._show)

    def _on_range_changed(self) -> None:
        """Scroll to the newest line unless the user has scrolled up; also while the panel is hidden."""
        if self._follow:
            bar = self._text.verticalScrollBar()
            bar.setValue(bar.maximum())

    def _on_scrolled(self) -> None:
        bar = self._text.verticalScrollBar()
        self._follow = bar.sliderPosition() >= bar.maximum()

    @property
    def text(self) -> str:
        """All lines."""
        return self._text.toPlainText()

    def _show(self, text: str, replaces: bool) -> None:
        if replaces:
            cursor = QTextCursor(self._text.document().lastBlock())
            cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
            cursor.deletePreviousChar()
        self._text.add(text)
