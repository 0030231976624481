"""Zoomable map of a weight's sparsity: kept elements by magnitude, pruned ones orange, kept shares at the edges."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.inspector.figures.masks import Picture, Region
from espalier.app.number_text import count, figure, percent
from espalier.app.theme import SPARSITY, Palette, rgb
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import write_widget
from espalier.app.widgets.drag_handle import offer_picture
from espalier.app.widgets.forms.fields import tokens

STRIP, GAP = 10, 3  # pixels of the edge bars and their gap
LEAST = 4  # minimum visible elements
STEP = 1.3


class MaskMap(QWidget):
    """Emits `wanted(region, cells)` for the picture to draw, given by `show_picture`; `eager`: the wheel zooms without
    Ctrl.
    """

    wanted = Signal(object, object)

    def __init__(self, eager: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.picture: Picture | None = None
        self.region: Region | None = None
        self._shape = (0, 0)
        self._eager, self._grabbed = eager, QPoint()
        self._image: QImage | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Map of the weight's sparsity"))
        self.handle = offer_picture(self, write_widget)

    def sizeHint(self) -> QSize:
        return QSize(260, 150)

    # -- content

    def show_shape(self, shape: tuple[int, int] | None) -> None:
        """Set the weight's shape, or None; the region is kept if the shape is the same."""
        if shape is None:
            self.picture = self.region = self._image = None
        elif shape != self._shape or self.region is None:
            self.region = Region(0, shape[0], 0, shape[1])
            self.picture = self._image = None
        self._shape = shape or (0, 0)
        self._ask()

    def show_picture(self, picture: Picture) -> None:
        """Draw a picture."""
        self.picture = picture
        self._image = _image_of(picture, tokens(self))
        self.update()

    def _ask(self) -> None:
        if self.region is not None and self._frame().width() > 0 and self._frame().height() > 0:
            self.wanted.emit(self.region, self.cells())
        self.update()

    def cells(self) -> tuple[int, int]:
        """Rows and columns of cells that fit: one per pixel."""
        frame = self._frame()
        return max(frame.height(), 1), max(frame.width(), 1)

    def whole(self) -> None:
        """Show the whole weight."""
        self.region = None
        self.show_shape(self._shape if self._shape[0] else None)

    @property
    def zoomed(self) -> bool:
        """Whether only a part is visible."""
        return self.region is not None and (self.region.high, self.region.wide) != self._shape

    # -- painting

    def _frame(self) -> QRect:
        """Rectangle of the cells."""
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
        """Rectangle of a region in the view, to move an old picture until the new one arrives."""
        assert self.region is not None
        frame = self._frame()
        across, down = frame.width() / self.region.wide, frame.height() / self.region.high
        left, top = (part.left - self.region.left) * across, (part.top - self.region.top) * down
        return QRectF(left, top, part.wide * across, part.high * down)

    def _strips(self, painter: QPainter, picture: Picture, frame: QRect, look: Palette) -> None:
        """Draw kept shares of rows at the right and of columns below."""
        painter.setPen(Qt.PenStyle.NoPen)
        right, below = frame.right() + 1 + GAP, frame.bottom() + 1 + GAP
        painter.fillRect(right, 0, STRIP, frame.height(), QColor(look.chip))
        painter.fillRect(0, below, frame.width(), STRIP, QColor(look.chip))
        bar, down, across = QColor(look.bar), frame.height() / len(picture.rows), frame.width() / len(picture.columns)
        for i, share in enumerate(picture.rows.tolist()):
            painter.fillRect(QRectF(right, i * down, STRIP * share, max(down, 1.0)), bar)
        for i, share in enumerate(picture.columns.tolist()):
            painter.fillRect(QRectF(i * across, below + STRIP * (1 - share), max(across, 1.0), STRIP * share), bar)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and self.picture:
            self.show_picture(self.picture)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._ask()

    # -- navigation

    def zoom(self, factor: float, across: float = 0.5, down: float = 0.5) -> None:
        """Zoom out by `factor` around the point at these shares of the frame."""
        region = self.region
        if region is None:
            return
        top, bottom = _around(region.top, region.bottom, self._shape[0], factor, down)
        left, right = _around(region.left, region.right, self._shape[1], factor, across)
        self._set_region(Region(top, bottom, left, right))

    def pan(self, rows: int, columns: int) -> None:
        """Pan by rows and columns, up to the edge."""
        region = self.region
        if region is not None:
            rows = min(max(rows, -region.top), self._shape[0] - region.bottom)
            columns = min(max(columns, -region.left), self._shape[1] - region.right)
            self._set_region(
                Region(region.top + rows, region.bottom + rows, region.left + columns, region.right + columns)
            )

    def _set_region(self, region: Region) -> None:
        if region != self.region:
            self.region = region
            self._ask()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if not (self._eager or event.modifiers() & Qt.KeyboardModifier.ControlModifier):
            event.ignore()  # scrolls the panel
            return
        frame, at = self._frame(), event.position()
        factor = STEP ** (-event.angleDelta().y() / 120)
        self.zoom(factor, at.x() / max(frame.width(), 1), at.y() / max(frame.height(), 1))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._grabbed = event.position().toPoint()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.whole()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position().toPoint()
        if event.buttons() & Qt.MouseButton.LeftButton and self.region is not None:
            frame, moved = self._frame(), self._grabbed - at
            rows = int(moved.y() * self.region.high / max(frame.height(), 1))
            columns = int(moved.x() * self.region.wide / max(frame.width(), 1))
            if rows or columns:
                self._grabbed = at
                self.pan(rows, columns)
        else:
            QToolTip.showText(event.globalPosition().toPoint(), self.tooltip_at(at), self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        region, key = self.region, event.key()
        rows, columns = (max(region.high // 8, 1), max(region.wide // 8, 1)) if region else (0, 0)
        moves = {Qt.Key.Key_Left: (0, -columns), Qt.Key.Key_Right: (0, columns),
                 Qt.Key.Key_Up: (-rows, 0), Qt.Key.Key_Down: (rows, 0)}  # fmt: skip
        if key in moves:
            self.pan(*moves[Qt.Key(key)])
        elif event.text() in ("+", "=", "-", "0"):
            self.whole() if event.text() == "0" else self.zoom(STEP if event.text() == "-" else 1 / STEP)
        else:
            super().keyPressEvent(event)

    # -- tooltip

    def tooltip_at(self, at: QPoint) -> str:
        """Tooltip of the element or cell at a position."""
        picture, frame = self.picture, self._frame()
        if picture is None or picture.region != self.region or not frame.contains(at):
            return ""
        high, wide = picture.kept.shape
        i, j = min(at.y() * high // frame.height(), high - 1), min(at.x() * wide // frame.width(), wide - 1)
        rows = _span(picture.region.top, picture.region.high, high, i)
        columns = _span(picture.region.left, picture.region.wide, wide, j)
        where = f"{_range(tr('output'), tr('outputs'), *rows)}, {_range(tr('input'), tr('inputs'), *columns)}"
        if picture.values is not None:
            return f"{where}: {figure(float(picture.values[i, j]))}{'' if picture.kept[i, j] else tr(', pruned')}"
        number = (rows[1] - rows[0]) * (columns[1] - columns[0])
        kept = round(float(picture.kept[i, j]) * number)
        return tr("{}: {} of {} kept ({})", where, count(kept), count(number), percent(kept / number, 0))


def _around(first: int, last: int, size: int, factor: float, share: float) -> tuple[int, int]:
    """A range scaled by `factor`, clamped to 0 … size."""
    length = min(max(round((last - first) * factor), min(LEAST, size)), size)
    start = round(first + (last - first - length) * min(max(share, 0.0), 1.0))
    start = min(max(start, 0), size - length)
    return start, start + length


def _span(first: int, length: int, cells: int, cell: int) -> tuple[int, int]:
    """The element range of a cell, as cut in figures.masks."""
    return first + length * cell // cells, first + length * (cell + 1) // cells


def _range(one: str, many: str, first: int, last: int) -> str:
    return f"{one} {first}" if last - first == 1 else f"{many} {first}–{last - 1}"


def _image_of(picture: Picture, look: Palette) -> QImage:
    """Image: kept elements from background to accent by magnitude, pruned ones orange by share."""
    low, high, gone = (np.asarray(rgb(c), np.float32) for c in (look.chip, look.accent, SPARSITY))
    shade = np.sqrt(picture.shade)[..., None]
    stays = low * 0.55 + high * 0.45 + (high - (low * 0.55 + high * 0.45)) * shade
    faint = low * 0.45 + gone * 0.55
    pixels = faint + (stays - faint) * picture.kept[..., None]
    data = np.ascontiguousarray(pixels.round().astype(np.uint8))
    image = QImage(data.data, data.shape[1], data.shape[0], 3 * data.shape[1], QImage.Format.Format_RGB888)
    return image.copy()  # QImage does not own the bytes
