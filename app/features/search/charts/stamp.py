"""Small dots stamped into a picture: hundreds of thousands at once, and a few more at no cost."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QImage

from espalier.model.data.base import Array

SMALL = ((-1, 1), (-1, 1), (-1, 1))
ROUND = ((-1, 1), (-2, 2), (-2, 2), (-2, 2), (-1, 1))  # from, to of each row


class Stamps:
    """A transparent picture with dots of opaque colours; later ones lie above."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = max(width, 1), max(height, 1)
        self._pixels = np.zeros((self.height + 8, self.width + 8), np.uint32)

    def dots(self, x: Array, y: Array, colours: Array, small: bool) -> None:
        """Dots at pixels; those beside the picture are left out."""
        there = np.isfinite(x) & np.isfinite(y)
        there &= (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)
        column, row, colour = x[there].astype(np.intp) + 4, y[there].astype(np.intp) + 4, colours[there]
        rows = SMALL if small else ROUND
        flat, wide = self._pixels.reshape(-1), self._pixels.shape[1]
        place = row * wide + column
        for down, (left, right) in enumerate(rows, -(len(rows) // 2)):
            for across in range(left, right + 1):
                flat[place + (down * wide + across)] = colour

    def image(self) -> QImage:
        """The picture, of the memory as it is then."""
        wide = self._pixels.shape[1]
        inside = self._pixels.reshape(-1)[4 * wide + 4 :]
        return QImage(inside.data, self.width, self.height, 4 * wide, QImage.Format.Format_ARGB32_Premultiplied)


def argb(colours: list[str]) -> Array:
    """Colours as whole pixels."""
    return np.array([0xFF000000 | int(c[1:], 16) for c in colours], np.uint32)
