"""The small heading of a dock: its name in words, and a close button that can be reached by keyboard."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QWidget


def heading(text: str) -> QLabel:
    """A section heading: small, muted, letter-spaced capitals."""
    label = QLabel(text.upper())
    label.setProperty("role", "heading")
    font = QFont(label.font())
    font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.7)
    label.setFont(font)
    return label


class DockHeading(QWidget):
    """What stands at the top of a side dock."""

    def __init__(self, title: str, close: Callable[[], object]) -> None:
        super().__init__()
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._close = QToolButton(text="×", toolTip=f"Close {title} (View brings it back)")
        self._close.setAccessibleName(f"Close {title}")
        self._close.setStyleSheet("QToolButton { padding: 0 5px; }")
        self._close.clicked.connect(close)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 6, 2)
        row.addWidget(heading(title), 1)
        row.addWidget(self._close)


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
    button = QPushButton(text)
    button.setProperty("link", True)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.clicked.connect(lambda: act())
    return button
