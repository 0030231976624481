"""Measures of the card of a fold: a title, one bar per group, and a line with what differs and the actions.

Free of Qt, so that layout, hit test, canvas and SVG agree. Positions are relative to the card's corner.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.captions import text_width
from espalier.app.theme import NODE_LABEL
from espalier.app.translation import tr

BEHIND = 8.0  # the two outlines behind the card, 4 each
PITCH, BAR, TALL, NUMBER = 28.0, 19.0, 46.0, 16.0  # between bars, width and height of a bar, height of its number
PER_ROW, MOST_ROWS, WIDE = 40, 6, 560.0  # bars of a row, rows, width of a row
SIDE, TOP, FOOT = 16.0, 34.0, 26.0
LEAST, COUNTS = 312.0, 214.0  # width of a card, of the counts beside its title
FULL_BITS, PER_BIT = 8.0, 5.0  # up to 8 bits a bar grows by 5 per bit, above by a quarter
OPEN_ALL, FOLD = tr("Open all"), tr("Fold")
_LINKS = {OPEN_ALL: (16.0, 56.0), FOLD: (82.0, 28.0)}  # distance of the right end from the card's right, width


def rows(count: int) -> tuple[int, int, float]:
    """(rows, bars per row, distance of two bars)."""
    number = min(max(ceil(count / PER_ROW), 1), MOST_ROWS)
    each = ceil(count / number)
    return number, each, min(PITCH, WIDE / each)


def card_size(count: int, title: str) -> tuple[float, float]:
    """Width and height of a card with the outlines behind it, without tags."""
    number, each, pitch = rows(count)
    need = max(2 * SIDE + each * pitch, title_width(title) + COUNTS, LEAST)
    return 8.0 * ceil(need / 8) + BEHIND, TOP + number * (TALL + NUMBER) + FOOT + BEHIND


def title_width(title: str) -> float:
    """The place of the title's end."""
    return 40.0 + text_width(title, NODE_LABEL + 1, True)


@lru_cache(maxsize=256)
def slots(count: int) -> NDArray[np.float64]:
    """The room of every bar: rows x, y, width, height, the bar standing on its lower edge."""
    _, each, pitch = rows(count)
    place = np.arange(count)
    wide = min(BAR, pitch * 0.72)
    x = SIDE + place % each * pitch + (pitch - wide) / 2
    y = TOP + place // each * (TALL + NUMBER)
    return np.stack([x, y, np.full(count, wide), np.full(count, TALL)], axis=1)


def bar_height(bits: float) -> float:
    """The height of a bar; 2 without a weight."""
    if bits != bits:
        return 2.0
    return max(PER_BIT * min(bits, FULL_BITS) + (min(bits, 32.0) - min(bits, FULL_BITS)) / 4, 2.0)


def bar_at(count: int, x: float, y: float) -> int:
    """The bar, with its number and the gap around it, at a point; -1 if there is none."""
    number, each, pitch = rows(count)
    column, row = int((x - SIDE) // pitch), int((y - TOP) // (TALL + NUMBER))
    place = row * each + column
    return place if 0 <= column < each and 0 <= row < number and place < count else -1


def every(count: int) -> int:
    """Every how many bars a number is written below."""
    _, _, pitch = rows(count)
    return max(1, ceil((7.0 * len(str(max(count - 1, 0))) + 6.0) / pitch))


def link_rect(link: str, width: float, height: float) -> tuple[float, float, float, float]:
    """The rectangle of OPEN_ALL or FOLD; `width` and `height` of the card without what lies behind it."""
    right, wide = _LINKS[link]
    return width - right - wide, height - FOOT, wide, FOOT - 6
