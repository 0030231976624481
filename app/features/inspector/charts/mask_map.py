"""The sparsity of a weight as a map: kept elements by magnitude, dropped ones orange, sums at the edges; zoomable."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.inspector.figures.masks import Picture, Region
from espalier.app.theme import SPARSITY, Palette, rgb
from espalier.app.widgets.forms.fields import tokens
from espalier.app.words import count, figure, percent

STRIP, GAP = 10, 3  # pixels of the sums at the edges
LEAST = 4  # elements that stay in sight
STEP = 1.3


class MaskMap(QWidget):
    """Asks for what it needs to draw by `wanted(region, cells)`; `show_picture` answers. `eager`: the wheel zooms even
    without the focus.
    """

    wanted = Signal(object, object)

    def __init__(self, eager: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.picture: Picture | None = None
        self.region: Region | None = None
        self._shape = (0, 0)
        self._eager, self._held = eager, QPoint()
        self._image: QImage | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Map of the weight's sparsity")

    def sizeHint(self) -> QSize:
        return QSize(260, 150)

    # -- what is shown

    def show_shape(self, shape: tuple[int, int] | None) -> None:
        """Another weight, of this many rows and columns; None for none. A region stays where the shape does."""
        if shape is None:
            self.picture = self.region = self._image = None
        elif shape != self._shape or self.region is None:
            self.region = Region(0, shape[0], 0, shape[1])
            self.picture = self._image = None
        self._shape = shape or (0, 0)
        self._ask()

    def show_picture(self, picture: Picture) -> None:
        """Draw an answer."""
        self.picture = picture
        self._image = _drawn(picture, tokens(self))
        self.update()

    def _ask(self) -> None:
        if self.region is not None and self._frame().width() > 0 and self._frame().height() > 0:
            self.wanted.emit(self.region, self.cells())
        self.update()

    def cells(self) -> tuple[int, int]:
        """The rows and columns of cells that there is room for: one a pixel."""
        frame = self._frame()
        return max(frame.height(), 1), max(frame.width(), 1)

    def whole(self) -> None:
        """Show the whole weight."""
        self.region = None
        self.show_shape(self._shape if self._shape[0] else None)

    @property
    def zoomed(self) -> bool:
        """Whether only a part is shown."""
        return self.region is not None and (self.region.high, self.region.wide) != self._shape

    # -- painting

    def _frame(self) -> QRect:
        """Where the cells are."""
        return QRect(0, 0, self.width() - STRIP - GAP, self.height() - STRIP - GAP)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look, frame = QPainter(self), tokens(self), self._frame()
        painter.fillRect(frame, QColor(look.chip))
        if self.picture is None or self._image is None or self.region is None:
            return
        painter.save()
        painter.setClipRect(frame)
        painter.drawImage(self._placed(self.picture.region), self._image)
        painter.restore()
        if self.picture.region == self.region:
            self._strips(painter, self.picture, frame, look)
        painter.setPen(QColor(look.accent if self.hasFocus() else look.line))
        painter.drawRect(frame.adjusted(0, 0, -1, -1))

    def _placed(self, part: Region) -> QRectF:
        """Where a region lies on the screen, so that an old picture is moved until the new one is there."""
        assert self.region is not None
        frame = self._frame()
        across, down = frame.width() / self.region.wide, frame.height() / self.region.high
        left, top = (part.left - self.region.left) * across, (part.top - self.region.top) * down
        return QRectF(left, top, part.wide * across, part.high * down)

    def _strips(self, painter: QPainter, found: Picture, frame: QRect, look: Palette) -> None:
        """Kept shares of rows at the right, of columns below."""
        painter.setPen(Qt.PenStyle.NoPen)
        right, below = frame.right() + 1 + GAP, frame.bottom() + 1 + GAP
        painter.fillRect(right, 0, STRIP, frame.height(), QColor(look.chip))
        painter.fillRect(0, below, frame.width(), STRIP, QColor(look.chip))
        bar, down, across = QColor(look.bar), frame.height() / len(found.rows), frame.width() / len(found.columns)
        for i, share in enumerate(found.rows.tolist()):
            painter.fillRect(QRectF(right, i * down, STRIP * share, max(down, 1.0)), bar)
        for i, share in enumerate(found.columns.tolist()):
            painter.fillRect(QRectF(i * across, below + STRIP * (1 - share), max(across, 1.0), STRIP * share), bar)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and self.picture:
            self.show_picture(self.picture)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._ask()

    # -- moving about

    def zoom(self, factor: float, across: float = 0.5, down: float = 0.5) -> None:
        """Show `factor` times as much, keeping the point at these shares of the frame in its place."""
        held = self.region
        if held is None:
            return
        top, bottom = _around(held.top, held.bottom, self._shape[0], factor, down)
        left, right = _around(held.left, held.right, self._shape[1], factor, across)
        self._go(Region(top, bottom, left, right))

    def pan(self, rows: int, columns: int) -> None:
        """Move by so many elements, up to the edge."""
        held = self.region
        if held is not None:
            rows = min(max(rows, -held.top), self._shape[0] - held.bottom)
            columns = min(max(columns, -held.left), self._shape[1] - held.right)
            self._go(Region(held.top + rows, held.bottom + rows, held.left + columns, held.right + columns))

    def _go(self, region: Region) -> None:
        if region != self.region:
            self.region = region
            self._ask()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if not (self._eager or event.modifiers() & Qt.KeyboardModifier.ControlModifier):
            event.ignore()  # the panel around it scrolls
            return
        frame, at = self._frame(), event.position()
        factor = STEP ** (-event.angleDelta().y() / 120)
        self.zoom(factor, at.x() / max(frame.width(), 1), at.y() / max(frame.height(), 1))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._held = event.position().toPoint()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.whole()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position().toPoint()
        if event.buttons() & Qt.MouseButton.LeftButton and self.region is not None:
            frame, moved = self._frame(), self._held - at
            rows = int(moved.y() * self.region.high / max(frame.height(), 1))
            columns = int(moved.x() * self.region.wide / max(frame.width(), 1))
            if rows or columns:
                self._held = at
                self.pan(rows, columns)
        else:
            QToolTip.showText(event.globalPosition().toPoint(), self.words_at(at), self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        held, key = self.region, event.key()
        rows, columns = (max(held.high // 8, 1), max(held.wide // 8, 1)) if held else (0, 0)
        moves = {Qt.Key.Key_Left: (0, -columns), Qt.Key.Key_Right: (0, columns),
                 Qt.Key.Key_Up: (-rows, 0), Qt.Key.Key_Down: (rows, 0)}  # fmt: skip
        if key in moves:
            self.pan(*moves[Qt.Key(key)])
        elif event.text() in ("+", "=", "-", "0"):
            self.whole() if event.text() == "0" else self.zoom(STEP if event.text() == "-" else 1 / STEP)
        else:
            super().keyPressEvent(event)

    # -- words

    def words_at(self, at: QPoint) -> str:
        """What lies under the pointer: an element, or a cell of several."""
        found, frame = self.picture, self._frame()
        if found is None or found.region != self.region or not frame.contains(at):
            return ""
        high, wide = found.kept.shape
        i, j = min(at.y() * high // frame.height(), high - 1), min(at.x() * wide // frame.width(), wide - 1)
        rows = _span(found.region.top, found.region.high, high, i)
        columns = _span(found.region.left, found.region.wide, wide, j)
        where = f"{_range('output', *rows)}, {_range('input', *columns)}"
        if found.values is not None:
            return f"{where}: {figure(float(found.values[i, j]))}{'' if found.kept[i, j] else ', dropped'}"
        number = (rows[1] - rows[0]) * (columns[1] - columns[0])
        kept = round(float(found.kept[i, j]) * number)
        return f"{where}: {count(kept)} of {count(number)} kept ({percent(kept / number, 0)})"


def _around(first: int, last: int, size: int, factor: float, share: float) -> tuple[int, int]:
    """A range `factor` times as long, within 0 … size."""
    length = min(max(round((last - first) * factor), min(LEAST, size)), size)
    start = round(first + (last - first - length) * min(max(share, 0.0), 1.0))
    start = min(max(start, 0), size - length)
    return start, start + length


def _span(first: int, length: int, cells: int, cell: int) -> tuple[int, int]:
    """The elements of a cell, as app.figures.masks cuts them."""
    return first + length * cell // cells, first + length * (cell + 1) // cells


def _range(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if last - first == 1 else f"{noun}s {first}–{last - 1}"


def _drawn(found: Picture, look: Palette) -> QImage:
    """Kept: from the ground to the accent by magnitude; dropped: orange, by share."""
    low, high, gone = (np.asarray(rgb(c), np.float32) for c in (look.chip, look.accent, SPARSITY))
    shade = np.sqrt(found.shade)[..., None]
    stays = low * 0.55 + high * 0.45 + (high - (low * 0.55 + high * 0.45)) * shade
    faint = low * 0.45 + gone * 0.55
    pixels = faint + (stays - faint) * found.kept[..., None]
    data = np.ascontiguousarray(pixels.round().astype(np.uint8))
    image = QImage(data.data, data.shape[1], data.shape[0], 3 * data.shape[1], QImage.Format.Format_RGB888)
    return image.copy()  # it does not keep the bytes
