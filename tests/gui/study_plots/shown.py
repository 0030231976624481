"""A made study on a board, and the mouse on its charts."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest

from espalier.app.features.search.charts.board import StudyBoard
from tests.gui.search.made_study import BASELINE, GOALS, WITHIN, choices, trials

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def show(board: StudyBoard, count: int = 60, kind: str = "History") -> Any:
    """A made study of so many trials; the chart of this kind."""
    board.tiles[0].show_kind(kind)
    board.show_study(trials(count), GOALS, choices(), baseline=BASELINE, within=WITHIN)
    return board.tiles[0].chart


def target(chart: Any) -> Any:
    """The widget that takes the mouse."""
    return chart.viewport() if hasattr(chart, "viewport") else chart


def spot(chart: Any, place: int) -> QPoint:
    """Where a plotted trial lies on the widget."""
    x, y, places = chart.spots()
    found = int(np.flatnonzero(places == place)[0])
    scene = chart.plot.vb.mapViewToScene(QPointF(float(x[found]), float(y[found])))
    return chart.mapFromScene(scene)


def drag(chart: Any, begin: QPoint, end: QPoint, keys: Qt.KeyboardModifier = NONE) -> None:
    QTest.mousePress(target(chart), LEFT, keys, begin)
    QTest.mouseMove(target(chart), end)
    QTest.mouseRelease(target(chart), LEFT, keys, end)
