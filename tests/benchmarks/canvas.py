"""CPU per frame of the canvas: pan, zoom, drag and rubber band at three sizes, everything open; search and overlay.

Cache refills are frames like others here: every frame of a gesture counts, and those after it until it is final.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtWidgets import QApplication

from espalier.app.canvas.arranging import pin_of
from espalier.app.canvas.boxes import Item
from espalier.app.canvas.gestures import Pan, RubberBand
from espalier.app.canvas.moving import Move
from espalier.app.canvas.view import GraphCanvas
from espalier.model.document.arrangement import Arrangement, Frame
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from tests.benchmarks.record import report
from tests.benchmarks.synthetic import transformer

SIZE = (1600, 900)
PINS = 100
QUERIES = ("attention.query", "layers 40 up", "attquery", "zzzz")


def stepping(canvas: GraphCanvas, act: Callable[[int], None], count: int) -> list[float]:
    """Act and paint `count` times, then paint until nothing is missing."""
    found: list[float] = []
    for k in range(count):
        start = time.process_time()
        act(k)
        canvas.repaint()
        found.append((time.process_time() - start) * 1e3)
    canvas._rest_timer.stop()
    canvas._zooming = False
    for _ in range(400):
        start = time.process_time()
        canvas.repaint()
        found.append((time.process_time() - start) * 1e3)
        if not canvas._repaint_timer.isActive():
            break
        canvas._repaint_timer.stop()
    return found


def settle(app: QApplication, canvas: GraphCanvas) -> None:
    """Wait for layout, rest and all tiles."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        app.processEvents()
        if not (canvas._layout_worker.busy or canvas._rest_timer.isActive() or canvas._repaint_timer.isActive()):
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


def selecting(app: QApplication, canvas: GraphCanvas) -> list[float]:
    """Ending a rubber band round everything, and the frame that shows it: all open, then all blocks closed."""
    found: list[float] = []
    for opened in (frozenset({"model"}), None):
        canvas.open_all() if opened is None else canvas._set_open(opened)
        settle(app, canvas)
        canvas.fit()
        settle(app, canvas)
        for add in (False, True, False):
            canvas.select(())
            start = time.process_time()
            canvas.select_band(QRectF(0, 0, *SIZE), add)
            canvas.repaint()
            found.append((time.process_time() - start) * 1e3)
    canvas.select(())
    return found


def searching(canvas: GraphCanvas) -> list[float]:
    """Every letter typed of some queries: exact ones, one in two words, letters in order, nothing found."""
    texts = [q[:n] for q in QUERIES for n in range(1, len(q) + 1)]
    return [timed(lambda q=q: canvas.find(q)) for q in texts]


def overlaying(canvas: GraphCanvas) -> list[float]:
    """Taking over a figure for every node, and the frames until it is shown."""
    assert canvas.graph
    found: list[float] = []
    for k in range(5):
        values = {name: float(i * (k + 1) % 997) for i, name in enumerate(canvas.graph.nodes)}
        found += stepping(canvas, lambda _, v=values: canvas.set_overlay("error", v), 1)
    canvas.set_overlay("error", None)
    return found


def editing(canvas: GraphCanvas) -> list[float]:
    """Taking over another precision of one layer in view, and the frames until it is shown."""
    assert canvas.graph
    name = next(n.id for n in canvas.graph if n.op == "linear")
    canvas.camera.scale = 1.0
    canvas.reveal(name)
    found: list[float] = []
    for k in range(20):
        before = canvas.graph
        after = before.replace(replace(before[name], precision={"weight": Precision(Integer(8, k % 7))}))
        delta = after.delta(before)
        stepping(canvas, lambda _: None, 1)
        found.append(sum(stepping(canvas, lambda _, g=after, d=delta: canvas.set_graph(g, d), 1)))
    return found


def moving(app: QApplication, canvas: GraphCanvas) -> dict[str, dict[str, float]]:
    """Dragging a node among pinned ones and frames, and dropping it: other places, scene and tiles."""
    scene = canvas.scene
    assert scene is not None
    canvas.may_move, layout = True, scene.layout
    ids = [layout.tree.ids[n] for n in layout.nodes.tolist()]
    places = np.linspace(0, len(ids) - 1, min(PINS, len(ids))).astype(int).tolist()
    pins = [pin_of(layout, Item("node", k), *(layout.node_rects[k, :2] + 30).tolist()) for k in places]
    frames = [Frame(f"frame {k}", tuple(ids[k : k + 8])) for k in places[:: max(len(places) // 10, 1)]]
    arrangement = Arrangement(tuple(pins), tuple(frames))
    canvas.set_arrangement(arrangement)
    canvas.camera.scale = 1.0
    canvas.reveal(ids[places[len(places) // 2]])
    settle(app, canvas)
    begin, drag, drop = list[float](), list[float](), list[float]()
    for k in range(5):
        gesture = Move(canvas, QPointF(400, 300), [Item("node", places[len(places) // 2 + k])])
        begin.append(max(stepping(canvas, lambda _, g=gesture: g.move(QPointF(410, 300)), 1)))
        drag += stepping(canvas, lambda j, g=gesture: g.move(QPointF(400 + 7 * j % 300, 300 + 5 * j % 200)), 60)
        pinned = canvas.marks.moving.pins() if canvas.marks.moving else ()
        canvas.put_down(False)
        arrangement = arrangement.with_pins(pinned)
        drop.append(max(stepping(canvas, lambda _, a=arrangement: canvas.set_arrangement(a), 1)))
    canvas.set_arrangement(Arrangement())
    return {"drag": summary(drag), "begin": summary(begin), "drop": summary(drop)}


def timed(act: Callable[[], object]) -> float:
    """CPU milliseconds."""
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1e3


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
    result["rubber band ends"] = summary(selecting(app, canvas))  # type: ignore[arg-type]
    result |= {f"boxes moved, {PINS} pinned: {k}": v for k, v in moving(app, canvas).items()}  # type: ignore[arg-type]
    result["search, a letter typed"] = summary(searching(canvas))
    result["overlay"] = summary(overlaying(canvas))
    result["precision of one layer"] = summary(editing(canvas))
    canvas.close()
    canvas.deleteLater()
    return result


def main() -> None:
    """Print the figures; `--keep` keeps them."""
    sizes = {f"{n // 1000}k": measure(n) for n in (1000, 10_000, 50_000)}
    report("canvas", {"what": "canvas, CPU ms", "view": SIZE, "target_p99": 16.0, **sizes})


if __name__ == "__main__":
    main()
