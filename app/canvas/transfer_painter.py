"""Paints what devices send one another: wide edges, and chips on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from espalier.app.canvas.box_index import Indices
from espalier.app.canvas.primitives import font, pen
from espalier.app.canvas.transfers import TransferChip, TransferLayer
from espalier.app.theme import SECONDARY, TRANSFERS, Palette

LEAST = 1.4  # pixels of an edge at small zoom
REACH = 170.0  # canvas units that a chip can extend beyond its box


def paint_transfer_edges(
    painter: QPainter, layer: TransferLayer, edges: Indices, scale: float, draw: Callable[[Indices], None]
) -> None:
    """Paint the edges among `edges` on which something is sent; `draw` paints some with the painter's pen."""
    for k in edges.tolist():
        if k in layer.edges:
            painter.setPen(pen(TRANSFERS[layer.collective(k)], max(layer.width(k) * min(scale, 1.0), LEAST)))
            draw(np.array([k], np.int64))


def paint_transfer_chips(painter: QPainter, chips: Iterable[TransferChip], palette: Palette) -> None:
    """Paint chips; a mark where the text does not fit."""
    face = font(SECONDARY)
    for chip in chips:
        x, y, w, h = chip.box
        colour = TRANSFERS[chip.collective]
        painter.setBrush(QColor(palette.panel if chip.words else colour))
        painter.setPen(pen(colour if chip.words else palette.panel, 1.2))
        painter.drawRoundedRect(QRectF(x, y, w, h), h / 2, h / 2)
        if chip.words:
            painter.setFont(face)
            painter.setPen(QColor(palette.text))
            painter.drawText(QRectF(x, y, w, h), Qt.AlignmentFlag.AlignCenter, chip.words)
