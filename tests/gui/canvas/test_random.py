"""The canvas used at random. Offscreen."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
from espalier.model.document.arrangement import Arrangement, Frame
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import settle, with_precision

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("seed", range(6))
def test_random_use_never_fails(qtbot: QtBot, seed: int) -> None:
    """Whatever is done in whatever order, the canvas shows the last graph and never raises."""
    chance = random.Random(seed)
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(600, 400)
    canvas.show()
    graphs = (transformer(40), transformer(120, mask=True), transformer(800), None)

    def ids() -> list[str]:
        known = list(canvas.graph.nodes) if canvas.graph else ["none"]
        return chance.sample(known, min(3, len(known)))

    def edit() -> None:
        if canvas.graph:
            canvas.set_graph(with_precision(canvas.graph, ids()[0]))

    def drag() -> None:
        """Press, move, and release or press Escape; wherever that is."""
        start = QPoint(chance.randint(0, 599), chance.randint(0, 399))
        qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
        qtbot.mouseMove(canvas, start + QPoint(chance.randint(-80, 80), chance.randint(-80, 80)))
        if chance.random() < 0.3:
            chance.choice([canvas.open_all, canvas.close_all, edit, canvas.repaint])()
        if chance.random() < 0.3:
            qtbot.keyClick(canvas, Qt.Key.Key_Escape)
        qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=start + QPoint(5, 5))

    def arrange() -> None:
        """Other frames, also of nodes that are gone; sometimes no pins."""
        frames = tuple(Frame("f" * chance.randint(1, 40), (*ids(), "gone")) for _ in range(chance.randint(0, 3)))
        pins = canvas.arrangement.pins if chance.random() < 0.8 else ()
        canvas.set_arrangement(Arrangement(pins, frames))

    canvas.may_move = True
    canvas.boxes_moved.connect(lambda pins: canvas.set_arrangement(canvas.arrangement.with_pins(pins)))
    acts: tuple[Callable[[], object], ...] = (
        lambda: canvas.set_graph(chance.choice(graphs)),
        edit,
        drag,
        drag,
        arrange,
        lambda: canvas.set_folding(chance.random() < 0.5),
        lambda: canvas.click(QPointF(chance.randint(0, 599), chance.randint(0, 399)), chance.random() < 0.5),
        lambda: canvas.hover(QPointF(chance.randint(0, 599), chance.randint(0, 399))),
        lambda: qtbot.keyClick(canvas, chance.choice(list(canvas.DIRECTIONS))),
        canvas.open_all,
        canvas.close_all,
        lambda: canvas.select(ids(), reveal=True),
        lambda: canvas.set_mode(chance.choice(["bits", "kind", "overlay"])),
        lambda: canvas.set_overlay("x", chance.choice([None, {i: chance.random() for i in ids()}])),
        lambda: canvas.set_horizontal(chance.random() < 0.5),
        lambda: canvas.set_show_scalars(chance.random() < 0.5),
        lambda: canvas.restore(canvas.view_state()),
        lambda: canvas.zoom_by(chance.choice([0.3, 3])),
        lambda: canvas.set_problems(dict.fromkeys(ids(), "a problem")),
        canvas.repaint,
        QApplication.processEvents,
    )
    for _ in range(100):
        chance.choice(acts)()
    settle(qtbot, canvas)
    assert canvas.scene is None or canvas.scene.arrangement == canvas.arrangement
    assert (canvas.scene.graph if canvas.scene else None) is canvas.graph
