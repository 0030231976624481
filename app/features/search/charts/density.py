"""Many thousand lines as one picture: how many cross each pixel, and their mean shade; lines come and go exactly.

Held as differences down each column, so that a line costs two numbers a column however steep it is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PySide6.QtGui import QImage

from espalier.app.theme import Palette, mix, rgb
from espalier.model.data.base import Array

DEPTHS, SHADES = 16, 16  # of a pixel, by the logarithm of the lines that cross it; colours told apart
FEW = 1 / 16  # of a picture's pixels, up to which those of lines are counted one by one
ALONE, FAINTEST = 0.95, 0.42  # opacity of a line alone, and among a hundred; thinner where there are more


class Density:
    """A picture `width` × `height` of lines that run from left to right."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = max(width, 1), max(height, 1)
        self._lines = np.zeros((self.width, self.height + 1), np.int32)
        self._shades = np.zeros((self.width, self.height + 1), np.int32)
        self.count = 0

    def add(self, left: int, right: int, y0: Array, y1: Array, shades: Array, sign: int = 1) -> None:
        """Lines from (left, y0) to (right, y1) in pixels from the top; `sign` −1 takes them away again."""
        left, right = max(left, 0), min(right, self.width)
        if right <= left or not len(y0):
            return
        wide, tall = right - left, self.height + 1
        part = np.linspace(0.0, 1.0, wide + 1, dtype=np.float32)
        y = (y0[:, None] + (y1 - y0)[:, None] * part).astype(np.int32)
        np.clip(y, 0, self.height - 1, out=y)
        column = np.arange(wide, dtype=np.int32) * tall
        top = (np.minimum(y[:, :-1], y[:, 1:]) + column).ravel()
        end = (np.maximum(y[:, :-1], y[:, 1:]) + column + 1).ravel()
        weights = np.repeat(shades, wide)
        for target, weighed in ((self._lines, None), (self._shades, weights)):
            part_of = target[left:right].reshape(-1)  # a view: rows are contiguous
            if len(top) < FEW * wide * tall:
                np.add.at(part_of, top, sign if weighed is None else sign * weighed)
                np.subtract.at(part_of, end, sign if weighed is None else sign * weighed)
            else:
                drawn = np.bincount(top, weighed, wide * tall) - np.bincount(end, weighed, wide * tall)
                part_of += (sign * drawn).astype(np.int32)

    def image(self, colours: list[int], left: int = 0, right: int | None = None) -> QImage:
        """The picture in the `colours_of` a theme, or a stripe of it."""
        part = slice(left, self.width if right is None else right)
        lines = self._lines[part].cumsum(axis=1, dtype=np.int32)[:, :-1].astype(np.float32)
        shades = self._shades[part].cumsum(axis=1, dtype=np.int32)[:, :-1].astype(np.float32)
        np.divide(shades, lines, out=shades, where=lines > 0)
        depth = lines.view(np.int32)
        depth >>= 22  # exponent and first bit of the mantissa: twice the logarithm to 2, in one step
        depth -= (127 << 1) - 1
        np.clip(depth, 0, DEPTHS - 1, out=depth)
        depth *= SHADES
        depth += shades.astype(np.int32)
        wide = -(-len(depth) // 4) * 4  # rows of a picture are whole words
        cells = np.zeros((self.height, wide), np.uint8)
        cells[:, : len(depth)] = depth.T
        made = QImage(cells.data, len(depth), self.height, wide, QImage.Format.Format_Indexed8)
        made.setColorTable(colours)
        return made.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)


def colours_of(look: Palette, many: int, grey: bool = False) -> list[int]:
    """Depth by shade as ARGB: deeper where more lines cross, and each fainter where there are many."""
    one = ALONE - (ALONE - FAINTEST) * min(many, 100) / 100
    return _table(look, round(one if many < 100 else max(FAINTEST * (100 / many) ** 0.35, 0.06), 3), grey)


@lru_cache(maxsize=32)
def _table(look: Palette, one: float, grey: bool) -> list[int]:
    lines = 2.0 ** (np.arange(DEPTHS - 1) / 2)
    alpha = np.append(0.0, 1 - (1 - one) ** lines) * (0.35 if grey else 1.0)
    stops = [rgb(look.edge if grey else mix(look.scale, k / (SHADES - 1))) for k in range(SHADES)]
    return [round(255 * a) << 24 | r << 16 | g << 8 | b for a in alpha.tolist() for r, g, b in stops]
