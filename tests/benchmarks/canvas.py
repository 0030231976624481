"""CPU per frame of the canvas: pan, zoom, drag and rubber band at three sizes, everything open.

Cache refills are frames like others here: every frame of a gesture counts, and those after it until it is final.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtWidgets import QApplication

from app.canvas.gestures import Pan, RubberBand
from app.canvas.view import GraphCanvas
from tests.benchmarks.synthetic import transformer

SIZE = (1600, 900)
MACHINE = "2-core x86-64 VM"


def stepping(canvas: GraphCanvas, act: Callable[[int], None], count: int) -> list[float]:
    """Act and paint `count` times, then paint until nothing is missing."""
    found: list[float] = []
    for k in range(count):
        start = time.process_time()
        act(k)
        canvas.repaint()
        found.append((time.process_time() - start) * 1e3)
    canvas._rest.stop()
    canvas._zooming = False
    for _ in range(400):
        start = time.process_time()
        canvas.repaint()
        found.append((time.process_time() - start) * 1e3)
        if not canvas._again.isActive():
            break
        canvas._again.stop()
    return found


def settle(app: QApplication, canvas: GraphCanvas) -> None:
    """Wait for layout, rest and all tiles."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        app.processEvents()
        if not (canvas._relayout.busy or canvas._rest.isActive() or canvas._again.isActive()):
            return
        time.sleep(0.002)


def gestures(app: QApplication, canvas: GraphCanvas, scale: float) -> dict[str, list[float]]:
    """The frame times of each gesture, starting at `scale` in the middle of the graph."""
    scene = canvas.scene
    assert scene is not None
    found: dict[str, list[float]] = {}

    def home() -> None:
        canvas.camera.scale = scale
        canvas.centre(scene.layout.width / 2, scene.layout.height / 2)
        settle(app, canvas)

    home()
    found["pan"] = stepping(canvas, lambda k: (canvas.camera.pan(-11, -17), canvas.moved())[0], 120)
    home()
    found["zoom"] = stepping(
        canvas, lambda k: canvas.zoom_at(1.06 if k % 60 < 30 else 1 / 1.06, QPointF(700, 500)), 120
    )
    home()
    drag = Pan(canvas, QPointF(800, 450))
    found["drag"] = stepping(canvas, lambda k: drag.move(QPointF(800 + 9 * k % 500, 450 + 13 * k % 700)), 120)
    home()
    band = RubberBand(canvas, QPointF(200, 200))
    found["rubber band"] = stepping(canvas, lambda k: band.move(QPointF(210 + 10 * k, 210 + 5 * k)), 100)
    start = time.process_time()
    canvas.select_band(QRectF(200, 200, 1000, 500), False)
    canvas.repaint()
    found["rubber band"].append((time.process_time() - start) * 1e3)
    canvas.show_band(None)
    canvas.select(())
    return found


def summary(times: list[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    return {
        "p50": round(float(np.percentile(times, 50)), 2),
        "p99": round(float(np.percentile(times, 99)), 2),
        "max": round(max(times), 2),
    }


def measure(size: int) -> dict[str, object]:
    """All gestures at three zooms, for a graph of `size` nodes with everything open."""
    app = QApplication.instance() or QApplication([])
    canvas = GraphCanvas()
    canvas.resize(*SIZE)
    canvas.show()
    canvas.set_graph(transformer(size))
    settle(app, canvas)  # type: ignore[arg-type]
    canvas.open_all()
    settle(app, canvas)  # type: ignore[arg-type]
    assert canvas.scene is not None
    fit = min(SIZE[0] / canvas.scene.layout.width, SIZE[1] / canvas.scene.layout.height)
    result: dict[str, object] = {"nodes": len(canvas.scene.layout.nodes)}
    everything: list[float] = []
    for name, scale in (("fit", fit), ("0.1", 0.1), ("0.4", 0.4), ("1", 1.0)):
        found = gestures(app, canvas, scale)  # type: ignore[arg-type]
        result[name] = {k: summary(v) for k, v in found.items()}
        everything += [t for v in found.values() for t in v]
    result["all"] = summary(everything)
    canvas.close()
    canvas.deleteLater()
    return result


def main() -> None:
    """Print the figures; `--save` keeps them."""
    sizes = {f"{n // 1000}k": measure(n) for n in (1000, 10_000, 50_000)}
    report = {"what": "canvas frames, CPU ms", "date": str(date.today()), "machine": MACHINE, "view": SIZE, **sizes}
    text = json.dumps(report, indent=1)
    print(text)
    if "--save" in sys.argv:
        (Path(__file__).parent / "results" / "canvas.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
