"""Many lying bars of a few colours in a plot, in lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QTransform
from typing_extensions import override

from espalier.app.canvas.primitives import draw_rects
from espalier.app.features.search.charts.kept import Kept, pixels
from espalier.app.features.search.charts.stamp import argb
from espalier.model.data.base import Array

MANY = 2000  # bars from which each pixel of a lane is drawn once
LEVELS = 24  # rows of a strip, shared out among the colours that meet in a column
LEAST = 1.4  # levels of a colour that is there
APART = 3  # pixels of a bar from which it leaves some room to the next one


class Bars(Kept):
    """Bars of `colours`: columns begin, lane, end and which colour; `tall` is the part of a lane."""

    def __init__(self, plot: Any, colours: Sequence[str], tall: float) -> None:
        super().__init__(plot, 4)
        self.colours, self.tall = tuple(colours), tall

    @override
    def lay(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        if len(rows) > MANY:
            self._strips(painter, rows, view, area)
        else:
            self.outline(painter, rows, view, area)

    @override
    def outline(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        left, top = pixels(view, rows[:, 0], rows[:, 1] + self.tall / 2)
        right, foot = pixels(view, rows[:, 2], rows[:, 1] - self.tall / 2)
        seen = (right > area.left()) & (left < area.right()) & (foot > area.top()) & (top < area.bottom())
        left, right = np.maximum(left[seen], area.left()), np.minimum(right[seen], area.right())
        wide = np.maximum(right - left - (right - left > APART), 1.0)
        boxes = np.stack([left, top[seen], wide, (foot - top)[seen]], 1)
        painter.setPen(Qt.PenStyle.NoPen)
        for kind, colour in enumerate(self.colours):
            painter.setBrush(QColor(colour))
            draw_rects(painter, boxes[rows[seen, 3] == kind])

    def _strips(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        """A strip a lane: where bars share a column of pixels, each colour has its part of the height."""
        wide, lanes = int(area.width()) + 1, rows[:, 1].astype(int)
        left, right = (pixels(view, rows[:, k], rows[:, 1])[0] - area.left() for k in (0, 2))
        seen = (right > 0) & (left < wide)
        begin = np.clip(np.floor(left), 0, wide - 1).astype(int)
        end = np.clip(np.ceil(right).astype(int), begin + 1, wide)
        many = np.zeros((len(self.colours), int(lanes.max()) + 1, wide))
        for kind in range(len(self.colours)):
            mine = seen & (rows[:, 3] == kind)
            first, cells = lanes[mine] * (wide + 1), many.shape[1] * (wide + 1)
            edges = np.bincount(first + begin[mine], minlength=cells) - np.bincount(first + end[mine], minlength=cells)
            many[kind] = edges.reshape(-1, wide + 1)[:, :-1].cumsum(1)
        for lane, strip in enumerate(stacked(many, argb(list(self.colours)))):
            top, foot = (round(view.m22() * (lane + s * self.tall / 2) + view.dy()) for s in (1, -1))
            picture = QImage(strip.data, wide, LEVELS, 4 * wide, QImage.Format.Format_ARGB32_Premultiplied)
            painter.drawImage(QRectF(area.left(), top, wide, max(foot - top, 1)), picture)


def stacked(many: Array, colours: Array) -> Array:
    """Pictures of lanes (lane × level × column), the first colour lowest, of how many bars of each meet in a column.

    A single bar among very many has a level as well.
    """
    upto = np.where(many > 0, np.maximum(many, LEAST / LEVELS * many.sum(0)), 0).cumsum(0)
    total = upto[-1]
    level = (np.arange(LEVELS)[::-1, None] + 0.5) / LEVELS * np.maximum(total, 1)[:, None]
    kind = (level[None] >= upto[:, :, None]).sum(0)
    return np.where(total[:, None] > 0, colours[np.minimum(kind, len(colours) - 1)], 0).astype(np.uint32)
