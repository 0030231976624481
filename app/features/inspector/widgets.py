"""Small widgets of the inspector: elided label, rows of facts, sparsity slider."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QSlider, QWidget

from espalier.app.features.inspector.terms import TERMS
from espalier.app.figures.facts import Fact
from espalier.app.glossary import meaning
from espalier.app.theme import SPARSITY
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens

ROW = 22


class ElidedLabel(QLabel):
    """One line of elided text, with the full text as tooltip."""

    def __init__(self, role: str = "", align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft) -> None:
        super().__init__()
        if role:
            self.setProperty("role", role)
        self._align = align
        self.mode = Qt.TextElideMode.ElideRight
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def show_text(self, text: str, full: str = "") -> None:
        """Set the text, and the tooltip if it differs."""
        self.setText(text)
        self.setToolTip(full or text)

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), max(self.fontMetrics().height() + 2, 16))

    def minimumSizeHint(self) -> QSize:
        return QSize(20, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        text = self.fontMetrics().elidedText(self.text(), self.mode, self.width())
        painter.drawText(self.rect(), self._align | Qt.AlignmentFlag.AlignVCenter, text)


class FactRows(QWidget):
    """Rows with name at the left and value at the right; labels are reused."""

    def __init__(self) -> None:
        super().__init__()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(0)
        self._grid.setColumnStretch(1, 1)
        self._rows: list[tuple[QLabel, ElidedLabel]] = []
        self.facts: tuple[Fact, ...] = ()

    def show_facts(self, facts: Sequence[Fact]) -> None:
        """Show rows of facts."""
        self.facts = tuple(facts)
        while len(self._rows) < len(facts):
            self._add()
        for i, (name, value) in enumerate(self._rows):
            shown = i < len(facts)
            name.setVisible(shown)
            value.setVisible(shown)
            if shown:
                name.setText(tr(facts[i].name))
                name.setToolTip(TERMS.get(term := facts[i].name.rstrip(" 0123456789")) or meaning(term))
                value.show_text(facts[i].value, facts[i].full)

    def _add(self) -> None:
        name, value = QLabel(), ElidedLabel(align=Qt.AlignmentFlag.AlignRight)
        name.setProperty("role", "muted")
        for label in (name, value):
            label.setFixedHeight(ROW)
        number = len(self._rows)
        self._grid.addWidget(name, number, 0)
        self._grid.addWidget(value, number, 1)
        self._rows.append((name, value))


class ShareSlider(QSlider):
    """Slider of 0 … 100 % in tenths; a click jumps to its position."""

    HANDLE = 7.0

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setRange(0, 1000)
        self.setSingleStep(10)
        self.setPageStep(50)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()  # scrolls the panel

    def sizeHint(self) -> QSize:
        return QSize(120, 20)

    def minimumSizeHint(self) -> QSize:
        return QSize(60, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter = tokens(self), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        middle, room = self.height() / 2, self.width() - 2 * self.HANDLE
        x = self.HANDLE + room * self.value() / self.maximum()
        painter.setBrush(QColor(palette.chip))
        painter.drawRoundedRect(QRectF(0, middle - 2, self.width(), 4), 2, 2)
        colour = QColor(SPARSITY) if self.isEnabled() else QColor(palette.line)
        painter.setBrush(colour)
        painter.drawRoundedRect(QRectF(0, middle - 2, x, 4), 2, 2)
        painter.setPen(QPen(QColor(palette.accent) if self.hasFocus() else colour, 2))
        painter.setBrush(QColor(palette.panel))
        painter.drawEllipse(QPointF(x, middle), self.HANDLE - 1, self.HANDLE - 1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self._move_to(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self._move_to(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.setSliderDown(False)

    def _move_to(self, event: QMouseEvent) -> None:
        room = max(self.width() - 2 * self.HANDLE, 1)
        share = (event.position().x() - self.HANDLE) / room
        value = round(share * 100) * 10 if not event.modifiers() & Qt.KeyboardModifier.ShiftModifier else share * 1000
        self.setValue(round(min(max(value, 0), 1000)))
