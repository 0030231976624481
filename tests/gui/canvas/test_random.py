"""The canvas used at random. Offscreen."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
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

    acts: tuple[Callable[[], object], ...] = (
        lambda: canvas.set_graph(chance.choice(graphs)),
        edit,
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
    for _ in range(80):
        chance.choice(acts)()
    settle(qtbot, canvas)
    assert (canvas.scene.graph if canvas.scene else None) is canvas.graph
