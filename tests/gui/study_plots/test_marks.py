"""Marks that are kept as a picture look as when they are drawn anew, few or many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QTransform

from espalier.app.features.search.charts.marks import Dots, Segments

pytestmark = pytest.mark.gui
AREA = QRectF(0, 0, 200, 80)
VIEW = QTransform(0.05, 0, 0, -20, 0, 70)
COLOURS = ("#ff0000", "#00ff00", "#0000ff")


class Nowhere:
    """A plot that shows nothing."""

    def addItem(self, item: Any, **_: Any) -> None:
        """Take it in."""


def drawn(item: Any, rows: np.ndarray) -> np.ndarray:
    picture = QImage(200, 80, QImage.Format.Format_RGB32)
    picture.fill(QColor("#ffffff"))
    painter = QPainter(picture)
    try:
        item.lay(painter, rows, VIEW, AREA)
    finally:
        painter.end()
    return np.frombuffer(picture.constBits(), np.uint8).reshape(80, 200, 4)[..., :3].copy()


def bars(many: int) -> Segments:
    """Bars of a tenth of a pixel, end to end, in three lanes."""
    made = Segments(Nowhere(), [QPen(QColor(c)) for c in COLOURS], 0.8)
    begin, lane = np.linspace(0, 3900, many), np.arange(many) % 3
    made.add(begin, lane, begin + 2, lane, np.zeros(many))
    return made


def test_very_many_bars_fill_their_lanes_as_few_do(qapp: Any) -> None:
    many = bars(6000)
    seen = drawn(many, many.rows)
    for lane in range(3):
        row = seen[round(70 - 20 * lane)]
        assert (row[:190] == (0, 0, 255)).all() and (row[198:] == 255).all()
    assert (seen[60] == 255).all()  # between two lanes


def test_a_rare_failure_is_seen_among_very_many(qapp: Any) -> None:
    made = bars(6000)
    made.rows[1500, 4] = 2
    assert (drawn(made, made.rows) == (255, 0, 0)).all(-1).any()


def test_marks_without_a_place_are_left_out_and_room_grows(qapp: Any) -> None:
    made = Dots(Nowhere(), 5, ((QColor("#0000ff"), None),))
    x = np.arange(500.0)
    x[::2] = np.nan
    made.add(x, x, np.zeros(500))
    made.add(np.array([1.0]), np.array([2.0]), np.zeros(1))
    assert len(made) == 251 and made.rows[-1].tolist() == [1.0, 2.0, 0.0]
    made.put([], [], [])
    assert len(made) == 0
