"""What the bars of the canvas hold: lines of pieces (breadcrumb, colour-by, zoom), legend and minimap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
)
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.colouring import KIND, Legend
from espalier.app.canvas.layout import Layout
from espalier.app.canvas.primitives import draw_rects, font, pen
from espalier.app.canvas.scene import Scene
from espalier.app.theme import PAD, SMALL, SPARSITY, Palette
from espalier.app.translation import tr

HEIGHT = 27
MINIMAP = (152, 40)  # pixels
LEGEND_ROW, LEGEND_ROWS = 20, 2
SCALE = (88, 40)  # pixels of a scale, and where there is little room
FRAME = 3  # pixels around the minimap and inside its border


class Card(QWidget):
    """One line of text pieces, some of which are clickable. `pressed`: index of a piece."""

    pressed = Signal(int)

    def __init__(self, parent: QWidget, palette: Palette, name: str) -> None:
        super().__init__(parent)
        self.tokens = palette
        self.setAccessibleName(name)
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setMouseTracking(True)
        self.pieces: list[tuple[str, bool, bool]] = []  # (text, bold, clickable)
        self.boxes: list[QRectF] = []
        self.hover = self.focused = -1
        self.ringed = False

    def set_palette(self, palette: Palette) -> None:
        """Set the theme."""
        self.tokens = palette
        self.update()

    def set_pieces(self, pieces: list[tuple[str, bool, bool]], least: int = 0) -> None:
        """Set the pieces and resize the card to fit, at least to a width of `least`."""
        if pieces == self.pieces:
            return
        self.pieces = pieces
        x, self.boxes = float(PAD), []
        for text, strong, _ in pieces:
            width = QFontMetricsF(font(SMALL + 0.5, strong)).horizontalAdvance(text) + 1
            self.boxes.append(QRectF(x, 0, width, HEIGHT))
            x += width
        self.setAccessibleDescription("".join(p[0] for p in pieces))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if any(p[2] for p in pieces) else Qt.FocusPolicy.NoFocus)
        self.resize(QSize(max(int(x + PAD), least), HEIGHT))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        self.paint_ground(painter)
        for k, ((text, strong, link), box) in enumerate(zip(self.pieces, self.boxes, strict=True)):
            lit = link and k in (self.hover, self.focused if self.ringed else -1)
            ink = self.tokens.accent if lit else self.tokens.text if strong else self.tokens.muted
            painter.setFont(font(SMALL + 0.5, strong))
            painter.setPen(QColor(ink))
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        painter.end()

    def paint_ground(self, painter: QPainter) -> None:
        """Paint the focus ring."""
        if self.ringed:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(pen(self.tokens.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(3.5, 1.5, -3.5, -1.5), 6, 6)

    def _piece(self, spot: QPointF) -> int:
        for k, box in enumerate(self.boxes):
            if self.pieces[k][2] and box.adjusted(-3, 0, 3, 0).contains(spot):
                return k
        return -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        piece = self._piece(event.position())
        if piece != self.hover:
            self.hover = piece
            hand = Qt.CursorShape.PointingHandCursor if piece >= 0 else Qt.CursorShape.ArrowCursor
            self.setCursor(hand)
            self.update()

    def leaveEvent(self, event: object) -> None:
        self.hover = -1
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        piece = self._piece(event.position())
        if piece >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.pressed.emit(piece)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.ringed = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.ringed = False
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        links = [k for k, p in enumerate(self.pieces) if p[2]]
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        if not links:
            return super().keyPressEvent(event)
        if step:
            place = links.index(self.focused) + step if self.focused in links else 0
            self.focused = links[place % len(links)]
            self.update()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.pressed.emit(self.focused if self.focused in links else links[0])
        else:
            super().keyPressEvent(event)

    def below(self, piece: int) -> QPoint:
        """The screen position below a piece, for its menu."""
        return self.mapToGlobal(QPoint(int(self.boxes[piece].left()), HEIGHT))


class LegendCard(Card):
    """The legend of the node colours, in one or two rows. `holds`: whether the room holds any of it."""

    def __init__(self, parent: QWidget, palette: Palette) -> None:
        super().__init__(parent, palette, tr("Legend"))
        self.legend = Legend("")
        self.holds = True
        self._marks = (False, False)
        self._room = 0
        self._items: list[tuple[float, int, str, str]] = []  # x, row, text, colour or mark
        self._scale_at, self._scale_width = (0.0, 0), SCALE[0]  # x and row of the scale, pixels

    def set_legend(self, legend: Legend, sparsity: bool, folds: bool) -> None:
        """Show a legend; `sparsity`: explain the sparsity bars too; `folds`: and the dots of layers that differ."""
        if (legend, (sparsity, folds)) != (self.legend, self._marks):
            self.legend, self._marks = legend, (sparsity, folds)
            self._flow()

    def set_room(self, width: int) -> None:
        """The width there is; entries beyond two rows are in the tool tip alone."""
        if width != self._room:
            self._room = width
            self._flow()

    @property
    def told(self) -> bool:
        """Whether it explains more than the kinds of operations, whose names are on the nodes."""
        return self.legend.title != KIND or bool(self.legend.edges)

    def _entries(self) -> list[tuple[str, str]]:
        sparsity, folds = self._marks
        marks = [(tr("sparsity"), _BAR)] * sparsity + [(tr("differs"), _DOT)] * folds
        edges = [(text, f"{_LINE}{colour}") for text, colour in self.legend.edges]
        own = [*self.legend.swatches, *(marks if self.legend.swatches else marks[sparsity:])]
        return [*edges, *own] if self.legend.title == KIND else [*own, *edges]  # kinds are on the nodes, too

    def _flow(self) -> None:
        """Place the entries, in a second row where the first is full."""
        metrics = QFontMetricsF(font(SMALL))
        title = "" if self.legend.swatches and self.legend.title == KIND else self.legend.title
        start = PAD + (metrics.horizontalAdvance(title) + 10 if title else 0.0)
        x, row, end = start, 0, start
        words = metrics.horizontalAdvance(self.legend.low) + metrics.horizontalAdvance(self.legend.high)
        self._scale_at, self._scale_width = (start, 0), SCALE[0]
        if self.legend.low and start + words + SCALE[0] + 24 > self._room:  # below the title
            self._scale_at = x, row = float(PAD), 1
            self._scale_width = SCALE[0] if x + words + SCALE[0] + 24 <= self._room else SCALE[1]
        ends = words + self._scale_width + 24
        x += ends if self.legend.low else 0.0
        end = max(end, x)
        self._items, entries = [], self._entries()
        widest = max((16 + metrics.horizontalAdvance(text) + 12 for text, _ in entries), default=0.0)
        begin = start if start + widest <= self._room else float(PAD)  # of a second row
        for text, colour in entries:
            wide = 16 + metrics.horizontalAdvance(text) + 12
            if x + wide > self._room and row + 1 < LEGEND_ROWS and (x > start or begin < start):
                x, row = begin, row + 1
            if x + wide > self._room:
                break
            self._items.append((x, row, text, colour))
            x += wide
            end = max(end, x)
        self._title, self.holds = title, end <= self._room and bool(self._items or self.legend.low or not entries)
        told = f"{self.legend.title}: " + (", ".join(t for t, _ in entries) or self._range())
        self.setAccessibleDescription(told)
        self.setToolTip(told if len(self._items) < len(entries) else "")
        self.resize(int(end), LEGEND_ROW * (row + 1))
        self.update()

    def _range(self) -> str:
        return tr("{} to {}", self.legend.low, self.legend.high) if self.legend.low else ""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font(SMALL))
        self._text(painter, PAD, 0, self._title)
        for x, row, text, colour in self._items:
            top = LEGEND_ROW * row
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(SPARSITY if colour in (_BAR, _DOT) else colour.removeprefix(_LINE)))
            if colour == _LINE:  # on the width of edges
                self._text(painter, x, top, text)
                continue
            if colour.startswith(_LINE):
                painter.drawRect(QRectF(x - 2, top + 8, 14, 4))
            elif colour == _DOT:
                painter.drawEllipse(QPointF(x + 6, top + LEGEND_ROW / 2), 4, 4)
            else:
                painter.drawRoundedRect(
                    QRectF(x - 1, top + 8, 12, 4) if colour == _BAR else QRectF(x, top + 5, 10, 10), 2, 2
                )
            self._text(painter, x + 15, top, text)
        if self.legend.low:
            self._scale(painter)
        painter.end()

    def _text(self, painter: QPainter, x: float, top: float, text: str) -> None:
        painter.setPen(QColor(self.tokens.muted))
        painter.drawText(QRectF(x, top, 800, LEGEND_ROW), Qt.AlignmentFlag.AlignVCenter, text)

    def _scale(self, painter: QPainter) -> None:
        metrics = QFontMetricsF(font(SMALL))
        x, top = self._scale_at[0], LEGEND_ROW * self._scale_at[1]
        self._text(painter, x, top, self.legend.low)
        x += metrics.horizontalAdvance(self.legend.low) + 6
        blend = QLinearGradient(x, 0, x + self._scale_width, 0)
        for k, colour in enumerate(self.tokens.scale):
            blend.setColorAt(k / (len(self.tokens.scale) - 1), QColor(colour))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(blend)
        painter.drawRoundedRect(QRectF(x, top + 5, self._scale_width, 10), 2, 2)
        self._text(painter, x + self._scale_width + 6, top, self.legend.high)


_BAR, _DOT, _LINE = "bar", "dot", "line "  # marks of the legend in place of a colour, or before it


class Minimap(QWidget):
    """The whole graph in small, with a frame around the view; a click or drag moves the view."""

    moved = Signal(float, float)

    def __init__(self, parent: QWidget, palette: Palette, view: Callable[[], QRectF]) -> None:
        super().__init__(parent)
        self.tokens, self._view = palette, view
        self.setAccessibleName(tr("Minimap"))
        self.resize(MINIMAP[0] + 2 * FRAME, MINIMAP[1] + 2 * FRAME)
        self._picture: QPixmap | None = None
        self._shown: tuple[Layout | None, Palette | None] = (None, None)
        self._scale, self._left, self._top = 1.0, 0.0, 0.0

    def set_scene(self, scene: Scene | None, palette: Palette) -> None:
        """Repaint the minimap if the layout or the palette has changed."""
        shown = (scene.layout if scene else None, palette)
        if shown[0] is self._shown[0] and shown[1] is self._shown[1]:
            return
        self.tokens, self._shown = palette, shown
        self._picture = self._paint(scene) if scene else None
        self.update()

    def _paint(self, scene: Scene) -> QPixmap:
        ratio = self.devicePixelRatioF()
        picture = QPixmap(int(self.width() * ratio), int(self.height() * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(Qt.GlobalColor.transparent)
        width, height = max(scene.layout.width, 1), max(scene.layout.height, 1)
        self._scale = min((self.width() - 4 * FRAME) / width, (self.height() - 4 * FRAME) / height)
        self._left = (self.width() - width * self._scale) / 2 - scene.layout.left * self._scale
        self._top = (self.height() - height * self._scale) / 2 - scene.layout.top * self._scale
        painter = QPainter(picture)
        self._boxes(painter, scene.layout.group_rects[scene.layout.group_open], self.tokens.group)
        self._boxes(painter, scene.layout.group_rects[~scene.layout.group_open], self.tokens.muted)
        self._boxes(painter, scene.layout.fold_rects, self.tokens.muted)
        self._boxes(painter, scene.layout.node_rects, self.tokens.muted)
        painter.end()
        return picture

    def _boxes(self, painter: QPainter, rects: np.ndarray, colour: str) -> None:
        rects = rects[:: len(rects) // 3000 + 1] * self._scale
        rects[:, :2] += (self._left, self._top)
        rects[:, 2:] = np.maximum(rects[:, 2:], 1.0)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        draw_rects(painter, rects)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(pen(self.tokens.line))
        painter.setBrush(QColor(self.tokens.panel))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(FRAME - 0.5, FRAME - 0.5, 0.5 - FRAME, 0.5 - FRAME), 4, 4)
        if self._picture is not None:
            painter.drawPixmap(0, 0, self._picture)
            view, k = self._view(), self._scale
            frame = QRectF(self._left + view.x() * k, self._top + view.y() * k, view.width() * k, view.height() * k)
            frame = frame.intersected(QRectF(self.rect()).adjusted(4, 4, -4, -4))
            if frame.width() < 4:
                frame.adjust(-2, 0, 2, 0)
            if frame.height() < 4:
                frame.adjust(0, -2, 0, 2)
            painter.setPen(pen(self.tokens.accent, 1.4))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(frame)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._go(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._go(event.position())

    def _go(self, spot: QPointF) -> None:
        self.moved.emit((spot.x() - self._left) / self._scale, (spot.y() - self._top) / self._scale)
