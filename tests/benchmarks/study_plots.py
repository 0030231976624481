"""CPU of a frame of each chart of a study at ten thousand trials: while trials arrive, and while it is worked with."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

from tests.benchmarks.record import report

TRIALS, LAYERS, FRAMES = 10_000, 16, 60
SIZE = (1200, 700)
TARGET = 16.0


def frames(application: QApplication, chart: Any, act: Callable[[int], None]) -> dict[str, float]:
    """Figures of `FRAMES` frames, ms of this process: the act, what it put off to the loop, and the painting."""
    found: list[float] = []
    for number in range(FRAMES):
        begun = time.process_time()
        act(number)
        application.processEvents()
        found.append(1e3 * (time.process_time() - begun))
    return summary(found)


def summary(found: list[float]) -> dict[str, float]:
    """Median, p99 and the longest, ms."""
    return {"p50": round(float(np.median(found)), 2), "p99": round(float(np.quantile(found, 0.99)), 2),
            "max": round(max(found), 2)}  # fmt: skip


def settle(application: QApplication, tile: Any) -> dict[str, float]:
    """From being told the study until it stands: the longest that events waited, and seconds of all."""
    held: list[float] = []
    begun = time.process_time()
    for _ in range(4000):
        start = time.process_time()
        application.processEvents()
        held.append(1e3 * (time.process_time() - start))
        if not getattr(tile.chart, "busy", False) and len(held) > 100 and max(held[-50:]) < 1:
            break
    return {**summary(held), "seconds": round(time.process_time() - begun, 3)}


def mouse(chart: Any, kind: QEvent.Type, at: QPointF, held: Qt.MouseButton) -> None:
    """A movement or a click of the left button."""
    target = chart.viewport() if hasattr(chart, "viewport") else chart
    button = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseMove else Qt.MouseButton.LeftButton
    event = QMouseEvent(kind, at, target.mapToGlobal(at), button, held, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(target, event)


def brushing(chart: Any) -> Callable[[int], None]:
    """Drag a brush down the axis of the first goal, farther each frame."""
    axis = len(chart.axes) - 2
    x, top = chart._x(axis), chart._y(0.97)
    mouse(chart, QEvent.Type.MouseButtonPress, QPointF(x, top), Qt.MouseButton.LeftButton)
    room = (chart._y(0.05) - top) / FRAMES
    return lambda k: mouse(chart, QEvent.Type.MouseMove, QPointF(x, top + (k + 1) * room), Qt.MouseButton.LeftButton)


def pointing(chart: Any) -> Callable[[int], None]:
    """Move the pointer across the chart."""
    wide, tall = chart.width(), chart.height()

    def move(number: int) -> None:
        at = QPointF(80 + number * (wide - 100) / FRAMES, tall * (0.3 + 0.005 * number))
        mouse(chart, QEvent.Type.MouseMove, at, Qt.MouseButton.NoButton)

    return move


def measure(application: QApplication, board: Any, kind: str, made: Any) -> dict[str, Any]:
    """One chart alone on the board."""
    tile = board.tiles[0]
    tile.show_kind(kind)
    board.show_study(made.trials(TRIALS, layers=LAYERS), made.GOALS, made.choices(LAYERS), baseline=made.BASELINE,
                     within=made.WITHIN)  # fmt: skip
    begun = time.process_time()
    tile.show_study(board.study)
    figures: dict[str, Any] = {"show_ms": round(1e3 * (time.process_time() - begun), 2)}
    figures["settling"] = settle(application, tile)
    more = [made.trial(TRIALS + k, layers=LAYERS) for k in range(FRAMES)]

    def arrive(number: int) -> None:
        board.append(more[number])
        board.draw_fresh()

    figures["appending"] = frames(application, tile.chart, arrive)
    settle(application, tile)
    figures["pointing"] = frames(application, tile.chart, pointing(tile.chart))
    if hasattr(tile.chart, "plot"):
        figures["panning"] = frames(application, tile.chart, lambda k: tile.chart.plot.vb.translateBy(x=5.0))
    if kind == "Parallel coordinates":
        figures["brushing"] = frames(application, tile.chart, brushing(tile.chart))
        mouse(tile.chart, QEvent.Type.MouseButtonRelease, QPointF(0, 0), Qt.MouseButton.NoButton)
    return figures


def main() -> None:
    """Every chart; or those that are named."""
    from espalier.app.features.search.charts.board import KINDS, StudyBoard
    from espalier.app.shell.application import make_application
    from tests.gui.search import made_study

    application = make_application()
    board = StudyBoard()
    board.lay_out(1)
    board.resize(*SIZE)
    board.show()
    wanted = [k for k in KINDS if k in sys.argv] or [k for k in KINDS if k != "Comparison"]
    charts = {kind: measure(application, board, kind, made_study) for kind in wanted}
    worst = max(f["p99"] for c in charts.values() for k, f in c.items() if k in ("appending", "pointing", "panning",
                                                                                 "brushing"))  # fmt: skip
    load = round(os.getloadavg()[0], 1)
    report("study_plots", {"trials": TRIALS, "choices": LAYERS + 3, "size": SIZE, "frames": FRAMES, "charts": charts,
                           "load": load, "worst_p99_ms": worst, "target_p99_ms": TARGET})  # fmt: skip
    board.close()


if __name__ == "__main__":
    main()
