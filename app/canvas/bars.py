"""The bars above and below the canvas: breadcrumb, colours and flow; legend, minimap, fit and zoom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from espalier.app.canvas.cards import Card, LegendCard, Minimap
from espalier.app.canvas.colouring import MODES
from espalier.app.canvas.primitives import pen
from espalier.app.canvas.scene import Scene
from espalier.app.number_text import percent, plural
from espalier.app.theme import PAD, Palette
from espalier.app.translation import tr

ABOVE, BELOW = 35, 52  # pixels, heights of the bars
ZOOM = 92  # pixels, least width of "Fit 100 %", so that the minimap stays
TRAIL = 200  # pixels that are left to the breadcrumb
MARGIN = 24  # pixels between the graph and the edge of the view


class Bar(QWidget):
    """A strip of constant height; `resized`: its width has changed."""

    resized = Signal()

    def __init__(self, parent: QWidget, palette: Palette, height: int, at_top: bool) -> None:
        super().__init__(parent)
        self.tokens, self._at_top = palette, at_top
        self.setFixedHeight(height)
        self.hide()

    def sizeHint(self) -> QSize:
        """Any width; its own height."""
        return QSize(160, self.height())

    def set_palette(self, palette: Palette) -> None:
        """Set the theme."""
        self.tokens = palette
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.tokens.panel))
        painter.setPen(pen(self.tokens.line))
        line = self.height() - 1 if self._at_top else 0
        painter.drawLine(0, line, self.width(), line)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.resized.emit()
        super().resizeEvent(event)


class CanvasBars(QObject):
    """The contents of both bars of one canvas."""

    all_wanted = Signal()
    group_wanted = Signal(int)
    mode_wanted = Signal(str)
    turn_wanted = Signal()
    plain_wanted = Signal()  # remove the bars on nodes
    shapes_wanted = Signal()

    def __init__(self, canvas: QWidget, palette: Palette, view: Callable[[], QRectF]) -> None:
        super().__init__(canvas)
        self.canvas = canvas
        self._visible = False
        self._mode, self._modes = "kind", dict(MODES)
        self.above, self.below = Bar(canvas, palette, ABOVE, True), Bar(canvas, palette, BELOW, False)
        self.breadcrumb = Card(self.above, palette, tr("Path of the group in view"))
        self.shapes = Card(self.above, palette, tr("Operations on shapes"))
        self.colour_by = Card(self.above, palette, tr("Colour by and flow direction"))
        self.legend = LegendCard(self.below, palette)
        self.minimap = Minimap(self.below, palette, view)
        self.zoom = Card(self.below, palette, tr("Fit the graph, and the zoom"))
        self.cards = (self.breadcrumb, self.shapes, self.colour_by, self.legend, self.minimap, self.zoom)
        self._trail: list[int] = []
        self._labels: list[str] = [tr("model")]
        self._first = 0
        self.breadcrumb.pressed.connect(self._go)
        self.shapes.pressed.connect(self.shapes_wanted)
        self.colour_by.pressed.connect(self._choose)
        self.zoom.pressed.connect(self.all_wanted)
        self.above.resized.connect(self.arrange)
        self.below.resized.connect(self.arrange)
        self.show_zoom(1.0)
        self.show(False)

    def show(self, visible: bool) -> None:
        """Show or hide what the bars hold; the bars themselves stay."""
        self._visible = visible
        for card in self.cards:
            card.setVisible(visible)
        self.arrange()

    def set_palette(self, palette: Palette) -> None:
        """Set the theme."""
        for part in (self.above, self.below, self.breadcrumb, self.shapes, self.colour_by, self.legend, self.zoom):
            part.set_palette(palette)

    def arrange(self) -> None:
        """Place everything; hide what a narrow bar has no room for: the breadcrumb's beginning, shapes, the legend."""
        right = self.above.width()
        for card, kept in ((self.colour_by, 0), (self.shapes, TRAIL)):
            fits = card.width() + kept <= right and bool(card.pieces)
            card.setVisible(self._visible and fits)
            right -= card.width() if fits else 0
            card.move(right, (ABOVE - card.height()) // 2)
        self._shorten(right)
        self.breadcrumb.move(0, (ABOVE - self.breadcrumb.height()) // 2)
        right = self.below.width()
        for card in (self.zoom, self.minimap):
            fits = card.width() <= right
            card.setVisible(self._visible and fits)
            right -= card.width() if fits else 0
            card.move(right, (BELOW - card.height() + 1) // 2)
        self.legend.set_room(right - PAD)
        if not self.legend.holds and self.legend.told and self.minimap.isVisibleTo(self.below):
            self.minimap.setVisible(False)  # what colours stand for comes before where the view is
            self.legend.set_room(right + self.minimap.width() - PAD)
        self.legend.move(0, (BELOW - self.legend.height() + 1) // 2)
        self.legend.setVisible(self._visible and self.legend.holds)

    def room(self) -> QRectF:
        """The area of the canvas for the graph."""
        width, height = self.canvas.width() - 2 * MARGIN, self.canvas.height() - 2 * MARGIN
        return QRectF(MARGIN, MARGIN, max(width, 32), max(height, 32))

    def show_zoom(self, scale: float) -> None:
        """Show the scale of the view."""
        before = self.zoom.width()
        self.zoom.set_pieces([(tr("Fit"), True, True), (f"   {percent(scale, 0)}", False, False)], ZOOM)
        if self.zoom.width() != before:
            self.arrange()

    def show_shapes(self, hidden: int, shown: bool) -> None:
        """Tell how many operations on shapes are hidden, with a switch; nothing where there are none."""
        words = tr("{} hidden  ", plural(hidden, "shape op")) if hidden else tr("Shape ops  ")
        pieces = [(words, False, False), (tr("hide") if shown else tr("show"), True, True)]
        self.shapes.set_pieces(pieces if hidden or shown else [])
        self.shapes.setToolTip(
            tr("Operations that only move values, such as view and transpose; edges run through them.")
        )
        self.arrange()

    def show_colouring(self, scene: Scene, mode: str, overlay: str | None) -> None:
        """Show the mode of the colours and their legend; `overlay`: the title of values set by another part."""
        arrow = tr("right") if scene.layout.horizontal else tr("down")
        self._mode, self._modes = mode, MODES | ({"overlay": overlay} if overlay else {})
        name = self._modes[mode]
        self.colour_by.set_pieces(
            [
                (tr("Colour by "), False, False),
                (f"{name} ▾", True, True),
                (tr("   Flow "), False, False),
                (arrow, True, True),
            ]
        )
        if scene.sizes is not None:
            self.colour_by.set_pieces(
                [
                    *self.colour_by.pieces,
                    (tr("   Bars {} ", scene.sizes.legend), False, False),
                    (tr("remove"), True, True),
                ]
            )
        pruned = bool(np.isfinite(scene.figures.sparsity).any())
        legend = replace(scene.colours.legend, edges=scene.transfers.legend if scene.transfers else ())
        self.legend.set_legend(legend, pruned, bool(scene.layout.folds))
        self.arrange()

    def show_path(self, scene: Scene, group: int) -> None:
        """Show the path of the group that is in view or selected."""
        trail = scene.layout.tree.ancestors(group)
        if trail == self._trail and self.breadcrumb.pieces:
            return
        self._trail = trail
        self._labels = [tr("model"), *(scene.layout.tree.groups[g].label for g in trail)]
        self.arrange()

    def _shorten(self, width: float) -> None:
        """Show the whole path, or its end after an ellipsis if it is wider than `width`."""
        for first in range(len(self._labels)):
            self._first = first
            pieces = [("… › ", False, False)] if first else []
            for k, label in enumerate(self._labels[first:], first):
                last = k == len(self._labels) - 1
                pieces += [(label, last, True), *([] if last else [(" › ", False, False)])]
            self.breadcrumb.set_pieces(pieces)
            if self.breadcrumb.width() <= width:
                break
        self.breadcrumb.setVisible(self._visible and self.breadcrumb.width() <= width)

    def _go(self, piece: int) -> None:
        place = self._first + (piece - (self._first > 0)) // 2
        if place == 0:
            self.all_wanted.emit()
        else:
            self.group_wanted.emit(self._trail[place - 1])

    def _choose(self, piece: int) -> None:
        if piece in (3, 5):
            (self.turn_wanted if piece == 3 else self.plain_wanted).emit()
            return
        menu = QMenu(self.canvas)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for mode, title in self._modes.items():
            action = menu.addAction(title[:1].upper() + title[1:])
            action.setCheckable(True)
            action.setChecked(mode == self._mode)
            action.triggered.connect(lambda _=False, m=mode: self.mode_wanted.emit(m))
        menu.popup(self.colour_by.below(piece))


class CanvasFrame(QWidget):
    """A canvas between its bars."""

    def __init__(self, canvas: QWidget, bars: CanvasBars) -> None:
        super().__init__()
        self.canvas = canvas
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(bars.above)
        column.addWidget(canvas, 1)
        column.addWidget(bars.below)
        bars.above.show()
        bars.below.show()
        self.setFocusProxy(canvas)
