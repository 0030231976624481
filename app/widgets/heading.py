"""The small heading of a dock: its name in words, and a close button that can be reached by keyboard."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from espalier.app.glossary import meaning


def heading(text: str) -> QLabel:
    """A section heading: small, muted, letter-spaced capitals."""
    label = QLabel(text.upper())
    label.setToolTip(meaning(text))
    label.setProperty("role", "heading")
    font = QFont(label.font())
    font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.7)
    label.setFont(font)
    return label


class Elided(QLabel):
    """A line that gives way: what does not fit ends in an ellipsis and stands in the tool tip."""

    def __init__(self, text: str, role: str, least: int = 60) -> None:
        super().__init__(text)
        self.setToolTip(text)
        self.setProperty("role", role)
        self.setMinimumWidth(least)
        self._whole = text

    def show_text(self, text: str) -> None:
        """Show another line."""
        self._whole = text
        self.setToolTip(text)
        self.updateGeometry()
        self._elide()

    def _elide(self) -> None:
        self.setText(self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideMiddle, self.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(self._whole) + 2, super().sizeHint().height())


class DockHeading(QWidget):
    """What stands at the top of a side dock."""

    def __init__(self, title: str, close: Callable[[], object]) -> None:
        super().__init__()
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._close = QToolButton()
        self._close.setText("×")
        self._close.setToolTip(f"Close {title} (View brings it back)")
        self._close.setAccessibleName(f"Close {title}")
        self._close.setProperty("quiet", True)
        self._close.clicked.connect(close)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 6, 2)
        row.addWidget(heading(title), 1)
        row.addWidget(self._close)


def column_of(spacing: int) -> QVBoxLayout:
    """A column with this much space between its parts."""
    box = QVBoxLayout()
    box.setSpacing(spacing)
    return box


def row_of(spacing: int) -> QHBoxLayout:
    """A row with this much space between its parts."""
    box = QHBoxLayout()
    box.setSpacing(spacing)
    return box


def warning() -> QLabel:
    """A hidden line for what went wrong."""
    label = QLabel()
    label.setWordWrap(True)
    label.setProperty("role", "bad")
    label.hide()
    return label


def say_as(label: QLabel, role: str) -> None:
    """Let a label be in the look of another role: `bad` where it tells what went wrong."""
    if label.property("role") != role:
        label.setProperty("role", role)
        label.style().unpolish(label)
        label.style().polish(label)


def muted(text: str, wrap: bool = True) -> QLabel:
    """A line of secondary text."""
    label = QLabel(text, wordWrap=wrap)
    label.setProperty("role", "muted")
    return label


def empty_state(text: str) -> QLabel:
    """What a panel says when it has nothing to show."""
    label = muted(text)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setMargin(24)
    return label


def link(text: str, act: Callable[[], object]) -> QPushButton:
    """A button that looks like a link."""
    button = QPushButton(text.replace("&", "&&"))
    button.setProperty("link", True)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.clicked.connect(lambda: act())
    return button
