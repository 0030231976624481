"""Groups of two canvases: layers that are opened or folded in one are so in the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from espalier.app.canvas.fold_metrics import links_of
from espalier.app.canvas.view import GraphCanvas
from espalier.app.features.compare.canvases import CanvasPair
from espalier.app.figures.difference import compared
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import on_bar, on_card, settle

pytestmark = pytest.mark.gui
LEFT = Qt.MouseButton.LeftButton
NODE = "model_layers_2_attention_query"


@pytest.fixture
def pair(qtbot: QtBot) -> CanvasPair:
    """A transformer of nine layers beside itself with one weight in int8."""
    graph = transformer(200)
    changed = graph.replace(replace(graph[NODE], precision={"weight": Precision(Integer(8, 4))}))
    pair = CanvasPair()
    qtbot.addWidget(pair)
    pair.resize(1800, 700)
    pair.show()
    pair.show_comparison(compared(graph, changed))
    both(pair, qtbot)
    return pair


def both(pair: CanvasPair, qtbot: QtBot) -> None:
    """Wait for both layouts."""
    for canvas in (*pair.canvases, *pair.canvases):
        settle(qtbot, canvas)


def titles(canvas: GraphCanvas) -> list[str]:
    """The titles of the cards of folded layers."""
    assert canvas.scene
    return [fold.title for fold in canvas.scene.layout.folds]


def test_a_bar_and_the_links_of_a_card_act_on_both_graphs(pair: CanvasPair, qtbot: QtBot) -> None:
    a, b = pair.canvases
    assert titles(a) == titles(b) == ["layers ×9"]
    qtbot.mouseClick(a, LEFT, pos=on_bar(a, 0, 3))
    both(pair, qtbot)
    assert titles(a) == titles(b) == ["layers 0 … 2", "layers 4 … 8"]
    assert a.open_groups == b.open_groups, "what is inside the layer is open, too"
    for name, expected in (("Fold", ["layers ×9"]), ("Open all", [])):
        b.show_group(b.scene.layout.tree.group_of("model.layers.0"))
        both(pair, qtbot)
        x, y, w, h = links_of(b.scene.layout.folds[0])[name]
        qtbot.mouseClick(b, LEFT, pos=on_card(b, 0, x + w / 2, y + h / 2))
        both(pair, qtbot)
        assert titles(a) == titles(b) == expected


def test_a_changed_node_is_revealed_in_both_graphs_at_one_place(pair: CanvasPair, qtbot: QtBot) -> None:
    a, b = pair.canvases
    pair.show_nodes((NODE,), 1)
    both(pair, qtbot)
    assert titles(a) == titles(b) == ["layers 0 … 1", "layers 3 … 8"]
    rects = [c.scene.rect_of(c.scene.layout.tree.index[NODE]) for c in (a, b)]
    places = [c.camera.to_screen(*rect[:2]) for c, rect in zip((a, b), rects, strict=True)]
    assert places[0] == pytest.approx(places[1], abs=1)


def test_groups_are_not_linked_where_navigation_is_not(pair: CanvasPair, qtbot: QtBot) -> None:
    a, b = pair.canvases
    pair.set_linked(False)
    qtbot.mouseClick(a, LEFT, pos=on_bar(a, 0, 3))
    both(pair, qtbot)
    assert len(titles(a)) == 2 and titles(b) == ["layers ×9"]
