"""Labels, links and headings that panels share."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from espalier.app.glossary import meaning
from espalier.app.translation import tr


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
    """A line that is elided in the middle if it does not fit; the tool tip has the whole text."""

    def __init__(self, text: str, role: str, min_width: int = 60) -> None:
        super().__init__(text)
        self.setToolTip(text)
        self.setProperty("role", role)
        self.setMinimumWidth(min_width)
        self._text = text

    def show_text(self, text: str) -> None:
        """Set the text."""
        self._text = text
        self.setToolTip(text)
        self.updateGeometry()
        self._elide()

    def _elide(self) -> None:
        line = " ".join(self._text.splitlines())  # line breaks would make it as high as they are many
        self.setText(self.fontMetrics().elidedText(line, Qt.TextElideMode.ElideMiddle, self.contentsRect().width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def sizeHint(self) -> QSize:
        margins = self.contentsMargins()
        width = self.fontMetrics().horizontalAdvance(self._text) + 2 + margins.left() + margins.right()
        return QSize(width, super().sizeHint().height())


class DockHeading(QWidget):
    """The title bar of a side dock, with a close button that has the keyboard focus."""

    def __init__(self, title: str, close: Callable[[], object]) -> None:
        super().__init__()
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._close = QToolButton()
        self._close.setText("×")
        self._close.setToolTip(tr("Close {} (View → Panels shows it again)", title))
        self._close.setAccessibleName(tr("Close {}", title))
        self._close.setProperty("quiet", True)
        self._close.clicked.connect(close)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 6, 2)
        row.addWidget(heading(title), 1)
        row.addWidget(self._close)
        self._unfolded = True

    def unfold(self, unfolded: bool) -> None:
        """Give the bar its height, or none; another bar in its place would end the drag of the dock."""
        self._unfolded = unfolded
        self.setMaximumHeight(self.maximumWidth() if unfolded else 0)
        self.setEnabled(unfolded)  # else the button takes the focus
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        return super().sizeHint() if self._unfolded else QSize(0, 0)

    def minimumSizeHint(self) -> QSize:
        return super().minimumSizeHint() if self._unfolded else QSize(0, 0)


def column_of(spacing: int) -> QVBoxLayout:
    """A vertical layout with `spacing` pixels."""
    box = QVBoxLayout()
    box.setSpacing(spacing)
    return box


def row_of(spacing: int) -> QHBoxLayout:
    """A horizontal layout with `spacing` pixels."""
    box = QHBoxLayout()
    box.setSpacing(spacing)
    return box


def warning() -> QLabel:
    """A hidden label for an error."""
    label = QLabel()
    label.setWordWrap(True)
    label.setProperty("role", "bad")
    label.hide()
    return label


def set_role(label: QLabel, role: str) -> None:
    """Set the role of a label, which styles it: "bad" or "wrong" for errors."""
    if label.property("role") != role:
        label.setProperty("role", role)
        label.style().unpolish(label)
        label.style().polish(label)


def muted(text: str, wrap: bool = True) -> QLabel:
    """A label with secondary text."""
    label = QLabel(text, wordWrap=wrap)
    label.setProperty("role", "muted")
    return label


def empty_state(text: str) -> QLabel:
    """The centred text of an empty panel."""
    label = muted(text)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setMargin(24)
    return label


def button(text: str, act: Callable[[], object], tooltip: str) -> QPushButton:
    """A button with a tooltip."""
    made = QPushButton(text.replace("&", "&&"))
    made.setToolTip(tooltip)
    made.clicked.connect(lambda: act())
    return made


def link(text: str, act: Callable[[], object]) -> QPushButton:
    """A button that looks like a link."""
    button = QPushButton(text.replace("&", "&&"))
    button.setProperty("link", True)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.clicked.connect(lambda: act())
    return button
