"""Another state of the graph shown on the canvas for a while: what a budget or a trial would choose."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
from tests.gui.canvas.steps import LAYER, LINEAR, settle, with_precision

pytestmark = pytest.mark.gui


def badge(canvas: GraphCanvas) -> str:
    assert canvas.scene is not None
    return canvas.scene.figures.badges[canvas.scene.layout.tree.index[LINEAR]]


def test_a_preview_shows_and_goes(canvas: GraphCanvas, qtbot: QtBot) -> None:
    graph = canvas.graph
    assert graph is not None and canvas.scene is not None
    before, scene = badge(canvas), canvas.scene
    canvas.preview(with_precision(graph, LINEAR))
    assert badge(canvas) != before and canvas.graph is graph, "the document's graph stays known"
    assert canvas.scene is scene, "nothing is laid out anew"
    canvas.preview(None)
    assert badge(canvas) == before and canvas.scene.graph is graph


@pytest.mark.parametrize("mode", ["kind", "bits"])
def test_a_preview_stays_while_groups_open(canvas: GraphCanvas, qtbot: QtBot, mode: str) -> None:
    graph = canvas.graph
    assert graph is not None
    canvas.set_mode(mode)
    before = badge(canvas)
    canvas.preview(with_precision(graph, LINEAR))
    shown = badge(canvas)
    canvas.set_open(LAYER, False)
    settle(qtbot, canvas)
    assert badge(canvas) == shown != before
    canvas.preview(None)
    canvas.set_open(LAYER, True)
    settle(qtbot, canvas)
    assert badge(canvas) == before


def test_an_edit_ends_a_preview(canvas: GraphCanvas, qtbot: QtBot) -> None:
    graph = canvas.graph
    assert graph is not None
    wanted = with_precision(graph, LINEAR)
    before = badge(canvas)
    canvas.preview(wanted)
    shown = badge(canvas)
    canvas.set_graph(graph, graph.delta(graph))
    assert badge(canvas) == before
    canvas.preview(wanted)
    canvas.set_graph(wanted, wanted.delta(graph))
    assert badge(canvas) == shown
    canvas.preview(wanted)
    canvas.set_graph(None)
    assert canvas.scene is None
    canvas.preview(wanted)
    canvas.preview(None)
