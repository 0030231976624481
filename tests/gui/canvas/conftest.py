"""A canvas for its tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import LAYER, settle


@pytest.fixture
def canvas(qtbot: QtBot) -> Iterator[GraphCanvas]:
    """A canvas of 900 × 600 with a small transformer, settled."""
    made = GraphCanvas()
    qtbot.addWidget(made)
    made.resize(900, 600)
    made.show()
    made.set_graph(transformer(60))
    for path in ("model.embed", LAYER, f"{LAYER}.attention", f"{LAYER}.mlp"):
        made.set_open(path, True)
    settle(qtbot, made)
    yield made
