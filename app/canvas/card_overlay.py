"""Places the cards over the canvas and sets their texts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtWidgets import QMenu, QWidget

from espalier.app.canvas.cards import Card, LegendCard, Minimap
from espalier.app.canvas.colouring import MODES
from espalier.app.canvas.scene import Scene
from espalier.app.theme import PAD, Palette

OVERVIEW_FROM, LEGEND_FROM = (560, 360), 420  # pixels: minimum size of the view for minimap, height for legend
MARGIN = 24  # pixels between the graph and the edge of the view


class CardOverlay(QObject):
    """The breadcrumb, colour-by card, legend and minimap of one canvas."""

    all_wanted = Signal()
    group_wanted = Signal(int)
    mode_wanted = Signal(str)
    turn_wanted = Signal()

    def __init__(self, canvas: QWidget, palette: Palette, view: Callable[[], QRectF]) -> None:
        super().__init__(canvas)
        self.canvas = canvas
        self._visible = self._all_in_view = False
        self._mode, self._modes = "kind", dict(MODES)
        self.breadcrumb = Card(canvas, palette, "Path of the group in view")
        self.colour_by = Card(canvas, palette, "Colour by and flow direction")
        self.legend = LegendCard(canvas, palette)
        self.minimap = Minimap(canvas, palette, view)
        self.cards = (self.breadcrumb, self.colour_by, self.legend, self.minimap)
        self._trail: list[int] = []
        self._labels: list[str] = ["model"]
        self._first = 0
        self.breadcrumb.pressed.connect(self._go)
        self.colour_by.pressed.connect(self._choose)
        self.show(False)

    def show(self, visible: bool) -> None:
        """Show or hide the cards."""
        self._visible = visible
        for card in self.cards:
            card.setVisible(visible)

    def set_palette(self, palette: Palette) -> None:
        """Set the theme."""
        for card in (self.breadcrumb, self.colour_by, self.legend):
            card.set_palette(palette)

    def arrange(self) -> None:
        """Place every card in its corner; hide cards that the view has no room for."""
        width, height = self.canvas.width(), self.canvas.height()
        self._shorten(width - self.colour_by.width() - 3 * PAD)
        self.breadcrumb.move(PAD, PAD)
        self.colour_by.move(width - self.colour_by.width() - PAD, PAD)
        self.legend.move(PAD, height - self.legend.height() - PAD)
        self.minimap.move(width - self.minimap.width() - PAD, height - self.minimap.height() - PAD)
        self.minimap.setVisible(self._visible and not self._all_in_view and self._overview_fits())
        beside = self.minimap.width() + PAD if self._overview_fits() else 0
        self.legend.setVisible(
            self._visible and self.legend.width() + 2 * PAD + beside < width and height > LEGEND_FROM
        )
        self.colour_by.setVisible(self._visible and self.colour_by.width() + 2 * PAD < width)

    def _overview_fits(self) -> bool:
        return self.canvas.width() > OVERVIEW_FROM[0] and self.canvas.height() > OVERVIEW_FROM[1]

    def view_changed(self, all_in_view: bool) -> None:
        """Hide the minimap if the whole graph is in view; called when the view has come to rest."""
        if all_in_view != self._all_in_view:
            self._all_in_view = all_in_view
            self.arrange()

    def room(self, overview: bool) -> QRectF:
        """The area that the cards leave free: below the upper ones, above the legend, and left of the minimap if
        `overview`.
        """
        row = self.breadcrumb.height() + 2 * PAD
        legend = row if self.legend.isVisibleTo(self.canvas) else MARGIN
        right = self.minimap.width() + 2 * PAD if overview and self._overview_fits() else MARGIN
        width, height = self.canvas.width() - MARGIN - right, self.canvas.height() - row - legend
        return QRectF(MARGIN, row, max(width, 32), max(height, 32))

    def show_colouring(self, scene: Scene, mode: str, overlay: str | None) -> None:
        """Show the mode of the colours and their legend; `overlay`: the title of values set by another part."""
        arrow = "across" if scene.layout.horizontal else "down"
        self._mode, self._modes = mode, MODES | ({"overlay": overlay} if overlay else {})
        name = self._modes[mode]
        self.colour_by.set_pieces(
            [("Colour by ", False, False), (f"{name} ▾", True, True), ("   Flow ", False, False), (arrow, True, True)]
        )
        self.legend.set_legend(scene.colours.legend, bool(np.isfinite(scene.figures.sparsity).any()))
        self.arrange()

    def show_path(self, scene: Scene, group: int) -> None:
        """Show the path of the group that is in view or selected."""
        trail = scene.layout.tree.ancestors(group)
        if trail == self._trail and self.breadcrumb.pieces:
            return
        self._trail = trail
        self._labels = ["model", *(scene.layout.tree.groups[g].label for g in trail)]
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
        if piece == 3:
            self.turn_wanted.emit()
            return
        menu = QMenu(self.canvas)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for mode, title in self._modes.items():
            action = menu.addAction(title[:1].upper() + title[1:])
            action.setCheckable(True)
            action.setChecked(mode == self._mode)
            action.triggered.connect(lambda _=False, m=mode: self.mode_wanted.emit(m))
        menu.popup(self.colour_by.below(piece))
