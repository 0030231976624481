"""Picture of a tiled tensor and of one enlarged tile with the thread of each element; a click selects both."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent

from espalier.app.features.kernels.charts.answers.picture import CENTRE, Picture, Sheet
from espalier.app.theme import rgb
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table
from espalier.kernels.bench.answers.tiles import Tiling, description

WORDS = 76.0  # pixels of the text below the tensor
INK = "#14171A"  # text on the threads' colours, pale in both themes
KEYS = {Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0), Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1)}
NUMBERED, GRIDDED = 15.0, 5.0  # pixels from which an element gets its thread's number, grid lines


class TilesPicture(Picture):
    """Emits `picked` with the tile and thread of a click or key."""

    NAME = tr("Tiles of a tensor, and the threads of a tile")
    LEAST = QSize(460, 150)
    picked = Signal(int, int)

    def __init__(self) -> None:
        self.tiling = Tiling()
        self.tile, self.reader = 0, 0
        self._tensor, self._enlarged = QRectF(), QRectF()
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setToolTip(tr("Click a tile at the left, an element at the right; ← → select threads, ↑ ↓ select tiles"))

    def show_tiling(self, tiling: Tiling, tile: int, thread: int) -> None:
        """Draw a tiling; tile and thread are clamped to it."""
        down, across = tiling.grid
        self.tiling = tiling
        self.tile = min(tile, down * across - 1)
        self.reader = min(thread, tiling.threads - 1)
        self.update()

    def draw(self, sheet: Sheet) -> None:
        """Draw the tensor at the left and the chosen tile at the right."""
        t, third = self.tiling, sheet.width * 0.36
        self._draw_tensor(sheet, QRectF(8, 6, third - 16, sheet.height - 12))
        box = QRectF(third + 8, 6, sheet.width - third - 16, sheet.height - 12)
        row, column = t.corner(self.tile)
        y = sheet.title(box.x(), box.y(), box.width(), tr("Tile {}", self.tile),
                        tr("from row {}, column {}; numbers and colours are threads", row, column))  # fmt: skip
        inner = QRectF(box.x(), y, box.width(), box.bottom() - y - 20)
        self._draw_tile(sheet, inner)
        mine = t.elements(self.tile, self.reader)
        elements = ", ".join(f"({i}, {j})" for i, j in mine[:12]) + (" …" if len(mine) > 12 else "")
        text = (
            tr("Thread {} reads {}", self.reader, elements)
            if mine
            else tr("Thread {} reads nothing: all its elements are masked", self.reader)
        )
        sheet.text(QRectF(box.x(), box.bottom() - 18, box.width(), 18), text, bold=True)

    def _draw_tensor(self, sheet: Sheet, box: QRectF) -> None:
        t = self.tiling
        down, across = t.grid
        y = sheet.title(
            box.x(), box.y(), box.width(), tr("Tensor"), tr("{} × {}, {} tiles", t.rows, t.columns, down * across)
        )
        room = max(box.bottom() - y - WORDS, (box.bottom() - y) / 2)
        scale = min(box.width() / (across * t.tile_columns), room / (down * t.tile_rows))
        below = y + down * t.tile_rows * scale + 6
        sheet.words(
            QRectF(box.x(), below, box.width(), box.bottom() - below), " ".join(description(t)), sheet.look.muted
        )
        self._tensor = QRectF(box.x(), y, t.columns * scale, t.rows * scale)
        sheet.box(QRectF(box.x(), y, across * t.tile_columns * scale, down * t.tile_rows * scale), sheet.look.group,
                  radius=0)  # fmt: skip
        sheet.box(self._tensor, sheet.look.chip, radius=0)
        wide, high = t.tile_columns * scale, t.tile_rows * scale
        if wide >= 3 and high >= 3:
            for i in range(down + 1):
                sheet.line(QPointF(box.x(), y + i * high), QPointF(box.x() + across * wide, y + i * high),
                           sheet.look.edge)  # fmt: skip
            for j in range(across + 1):
                sheet.line(QPointF(box.x() + j * wide, y), QPointF(box.x() + j * wide, y + down * high),
                           sheet.look.edge)  # fmt: skip
        chosen = QRectF(box.x() + self.tile % across * wide, y + self.tile // across * high, wide, high)
        sheet.box(chosen, sheet.look.accent_ground, sheet.look.accent, 2, 0)
        if wide >= 26 and high >= 16 and down * across <= 200:
            for n in range(down * across):
                at = QRectF(box.x() + n % across * wide, y + n // across * high, wide, high)
                sheet.text(at, str(n), sheet.look.accent if n == self.tile else sheet.look.muted, 10.5, CENTRE)

    def _draw_tile(self, sheet: Sheet, box: QRectF) -> None:
        t = self.tiling
        cell = min(box.width() / t.tile_columns, box.height() / t.tile_rows, 44.0)
        self._enlarged = QRectF(box.x(), box.y(), t.tile_columns * cell, t.tile_rows * cell)
        painter = sheet.painter
        painter.save()
        painter.setRenderHint(painter.RenderHint.SmoothPixmapTransform, False)
        painter.drawImage(self._enlarged, self._image(sheet))
        painter.restore()
        if cell >= GRIDDED:
            self._lines(sheet, cell)
        row, column = t.corner(self.tile)
        if cell >= NUMBERED:
            for i in range(t.tile_rows):
                for j in range(t.tile_columns):
                    valid = row + i < t.rows and column + j < t.columns
                    at = QRectF(box.x() + j * cell, box.y() + i * cell, cell, cell)
                    thread = t.thread(i, j)
                    text = str(thread) if valid else "–"
                    sheet.text(at, text, INK if valid else sheet.look.muted, 10.5, CENTRE,
                               bold=thread == self.reader)  # fmt: skip
        for i, j in t.taken(self.reader):
            at = QRectF(box.x() + j * cell, box.y() + i * cell, cell, cell)
            sheet.box(at.adjusted(1, 1, -1, -1) if cell > 8 else at, None, INK, 2 if cell > 8 else 1, 1)

    def _image(self, sheet: Sheet) -> QImage:
        """One pixel an element in its thread's colour; elements outside the tensor are grey."""
        t = self.tiling
        r, c = np.mgrid[: t.tile_rows, : t.tile_columns]
        down, across = r % t.thread_rows, c % t.thread_columns
        threads = down * t.thread_columns + across if t.order == "rows" else across * t.thread_rows + down
        last = max(t.threads - 1, 1)
        colours = np.array([rgb(sheet.look.sequential(0.25 + 0.75 * k / last)) for k in range(t.threads)], np.float32)
        pale = (0.55 * colours + 0.45 * np.array(rgb("#FFFFFF"), np.float32)).astype(np.uint8)
        pixels = pale[threads]
        row, column = t.corner(self.tile)
        pixels[(row + r >= t.rows) | (column + c >= t.columns)] = rgb(sheet.look.group)
        data = np.ascontiguousarray(pixels)
        return QImage(
            data.tobytes(), t.tile_columns, t.tile_rows, 3 * t.tile_columns, QImage.Format.Format_RGB888
        ).copy()

    def _lines(self, sheet: Sheet, cell: float) -> None:
        box, t = self._enlarged, self.tiling
        faint = QColor(sheet.look.panel)
        for i in range(t.tile_rows + 1):
            stamp = i % t.thread_rows == 0
            sheet.line(QPointF(box.left(), box.top() + i * cell), QPointF(box.right(), box.top() + i * cell),
                       INK if stamp else faint, 1.2 if stamp else 0.8)  # fmt: skip
        for j in range(t.tile_columns + 1):
            stamp = j % t.thread_columns == 0
            sheet.line(QPointF(box.left() + j * cell, box.top()), QPointF(box.left() + j * cell, box.bottom()),
                       INK if stamp else faint, 1.2 if stamp else 0.8)  # fmt: skip

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at, t = event.position(), self.tiling
        if self._tensor.contains(at):
            scale = self._tensor.width() / t.columns
            row, column = int((at.y() - self._tensor.y()) / scale), int((at.x() - self._tensor.x()) / scale)
            self.picked.emit(row // t.tile_rows * t.grid[1] + column // t.tile_columns, self.reader)
        elif self._enlarged.contains(at):
            cell = self._enlarged.width() / t.tile_columns
            row, column = int((at.y() - self._enlarged.y()) / cell), int((at.x() - self._enlarged.x()) / cell)
            self.picked.emit(self.tile, t.thread(min(row, t.tile_rows - 1), min(column, t.tile_columns - 1)))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus():  # not in exports
            painter = QPainter(self)
            painter.setPen(QColor(self.look.accent))
            painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 4, 4)
            painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        across, down = KEYS.get(Qt.Key(event.key()), (0, 0))
        if not (across or down):
            super().keyPressEvent(event)
            return
        count = self.tiling.grid[0] * self.tiling.grid[1]
        thread = min(max(self.reader + across, 0), self.tiling.threads - 1)
        self.picked.emit(min(max(self.tile + down, 0), count - 1), thread)

    def table(self) -> Table:
        """One row per element that a thread of the tile reads."""
        rows = [(self.tile, k, i, j) for k in range(self.tiling.threads) for i, j in self.tiling.elements(self.tile, k)]
        return ("tile", "thread", "row", "column"), rows
