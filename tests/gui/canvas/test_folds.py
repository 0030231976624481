"""Folded chains of identical layers on the canvas: opening one, all, folding again, by mouse and by keys. Offscreen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from pytestqt.qtbot import QtBot

from espalier.app.canvas.fold_metrics import links_of
from espalier.app.canvas.sprites import NAMES_FROM
from espalier.app.canvas.view import GraphCanvas
from espalier.app.theme import CATEGORIES, SPARSITY
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import on_bar, on_card, pixels, settle, spot

pytestmark = pytest.mark.gui
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def folded(qtbot: QtBot) -> GraphCanvas:
    """A canvas of 900 × 700 with a transformer of nine layers, as it is first shown."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(900, 700)
    canvas.show()
    canvas.set_graph(transformer(200))
    settle(qtbot, canvas)
    return canvas


def titles(canvas: GraphCanvas) -> list[str]:
    """The titles of the cards."""
    assert canvas.scene
    return [fold.title for fold in canvas.scene.layout.folds]


def link(canvas: GraphCanvas, place: int, name: str) -> QPoint:
    """A pixel on a link of a card."""
    assert canvas.scene
    x, y, w, h = links_of(canvas.scene.layout.folds[place])[name]
    return on_card(canvas, place, x + w / 2, y + h / 2)


def test_a_deep_net_is_folded_at_first_and_opens_layer_by_layer(folded: GraphCanvas, qtbot: QtBot) -> None:
    """One card; a bar opens its layer with what is inside; Fold closes it; Open all leaves no card."""
    assert titles(folded) == ["layers ×9"]
    top = folded.camera.to_screen(0, float(folded.scene.layout.fold_rects[0, 1]))[1]  # type: ignore[union-attr]
    qtbot.mouseClick(folded, LEFT, pos=on_bar(folded, 0, 3))
    settle(qtbot, folded)
    assert titles(folded) == ["layers 0 … 2", "layers 4 … 8"] and folded.selection() == ()
    assert {"model.layers.3", "model.layers.3.attention"} <= (folded.open_groups or frozenset())
    assert folded.scene
    tree = folded.scene.layout.tree
    rect = folded.scene.rect_of_group(tree.group_of("model.layers.3"))
    assert rect and abs(folded.camera.to_screen(0, rect[1])[1] - top) <= 1  # the layer is where the card was
    folded.show_group(tree.group_of("model.layers.0"))
    settle(qtbot, folded)
    qtbot.mouseClick(folded, LEFT, pos=link(folded, 0, "Fold"))
    settle(qtbot, folded)
    assert titles(folded) == ["layers ×9"]
    folded.show_group(tree.group_of("model.layers.0"))
    settle(qtbot, folded)
    qtbot.mouseClick(folded, LEFT, pos=link(folded, 0, "Open all"))
    settle(qtbot, folded)
    assert titles(folded) == []


def test_a_click_on_the_card_selects_its_nodes_and_a_double_click_opens_all(folded: GraphCanvas, qtbot: QtBot) -> None:
    """On its title; the card is outlined."""
    folded.fit()
    qtbot.mouseClick(folded, LEFT, pos=on_card(folded, 0, 40, 14))
    assert folded.scene
    tree = folded.scene.layout.tree
    inside = [n.id for n in folded.graph or () if "layers" in n.module_path and tree.index[n.id] not in tree.through]
    assert sorted(folded.selection()) == sorted(inside)
    assert len(folded.marks.groups) == 1 and not len(folded.marks.bars)
    qtbot.mouseDClick(folded, LEFT, pos=on_card(folded, 0, 40, 14))
    settle(qtbot, folded)
    assert titles(folded) == []


def test_keys_open_and_fold(folded: GraphCanvas, qtbot: QtBot) -> None:
    """Return opens the layer of the selected node, Shift+Return folds it; then Return of a visible node tells so."""
    node = "model_layers_5_attention_query"
    folded.select([node])
    assert len(folded.marks.bars) == 1
    qtbot.keyClick(folded, Qt.Key.Key_Return)
    settle(qtbot, folded)
    assert titles(folded) == ["layers 0 … 4", "layers 6 … 8"]
    assert folded.rect().contains(spot(folded, node)) and len(folded.marks.nodes) == 1
    with qtbot.waitSignal(folded.node_activated):
        qtbot.keyClick(folded, Qt.Key.Key_Return)
    qtbot.keyClick(folded, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    settle(qtbot, folded)
    assert titles(folded) == ["layers ×9"]


def test_a_fold_of_layers_that_begin_above_the_view_is_seen_whole(folded: GraphCanvas, qtbot: QtBot) -> None:
    """As Shift+Return at the end of a long layer leaves it."""
    node = "model_layers_5_mlp_down"
    folded.select([node], reveal=True)
    settle(qtbot, folded)
    assert folded.scene
    x, y, w, h = folded.scene.rect_of(folded.scene.layout.tree.index[node])  # type: ignore[misc]
    folded.centre(x + w / 2, y + h / 2 + 250 / folded.camera.scale)  # near the top
    rect = folded.scene.rect_of_group(folded.scene.layout.tree.group_of("model.layers.5"))
    assert rect and rect[1] < folded.seen().top()
    qtbot.keyClick(folded, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    settle(qtbot, folded)
    assert titles(folded) == ["layers ×9"]
    card = QRectF(*folded.scene.layout.fold_rects[0].tolist())
    assert folded.seen().contains(card)


def test_selecting_from_elsewhere_opens_the_layer(folded: GraphCanvas, qtbot: QtBot) -> None:
    """As the outline, find and the node table do."""
    folded.select(["model_layers_7_mlp_up"], reveal=True)
    settle(qtbot, folded)
    assert titles(folded) == ["layers 0 … 6"] and folded.rect().contains(spot(folded, "model_layers_7_mlp_up"))


def test_the_view_is_kept(folded: GraphCanvas, qtbot: QtBot) -> None:
    """What is open and whether layers fold comes back; an older project without the setting folds."""
    qtbot.mouseClick(folded, LEFT, pos=on_bar(folded, 0, 3))
    settle(qtbot, folded)
    state = folded.view_state()
    other = GraphCanvas()
    qtbot.addWidget(other)
    other.resize(900, 700)
    other.show()
    other.set_graph(transformer(200))
    other.restore(state)
    settle(qtbot, other)
    assert titles(other) == titles(folded)
    other.set_folding(False)
    settle(qtbot, other)
    assert titles(other) == [] and not other.view_state()["folding"]
    other.restore({k: v for k, v in state.items() if k != "folding"})
    settle(qtbot, other)
    assert titles(other) == titles(folded)


def test_a_layer_that_differs_has_a_dot_and_the_right_click_a_menu(folded: GraphCanvas, qtbot: QtBot) -> None:
    """Another format of one node: the dot appears without a new layout, and the tool tip says it."""
    assert folded.scene and folded.graph
    before = folded.scene.layout
    picture = pixels(folded.grab().toImage())
    orange = int(SPARSITY[1:], 16)
    node = folded.graph["model_layers_2_mlp_up"]
    folded.set_graph(folded.graph.replace(replace(node, precision={"weight": Precision(Integer(4, 2))})))
    settle(qtbot, folded)
    after = pixels(folded.grab().toImage())
    assert folded.scene.layout is before
    assert (after & 0xFFFFFF == orange).sum() > (picture & 0xFFFFFF == orange).sum() + 20
    assert "layers 2" in folded.note_at(QPointF(on_bar(folded, 0, 2)))
    assert folded.note_at(QPointF(on_bar(folded, 0, 2))).endswith("differs in format")
    with qtbot.waitSignal(folded.fold_menu_requested) as told:
        menu = on_bar(folded, 0, 2)
        from PySide6.QtGui import QContextMenuEvent
        from PySide6.QtWidgets import QApplication

        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, menu, folded.mapToGlobal(menu))
        QApplication.sendEvent(folded, event)
    assert told.args[1] == 2 and all("layers_2" in i or "layers.2" in folded.graph[i].module_path
                                     for i in folded.selection())  # fmt: skip


def test_all_of_a_deep_net_is_legible(qtbot: QtBot) -> None:
    """At 1440 × 900 the window leaves the graph 837 × 500 pixels; names are painted, whatever the depth."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(837, 500)
    canvas.show()
    for size in (300, 5000):
        canvas.set_graph(None)
        canvas.set_graph(transformer(size, mask=True))
        settle(qtbot, canvas)
        canvas.fit()
        assert canvas.scene and canvas.seen().contains(QRectF(*canvas.scene.area))
        assert canvas.camera.scale >= NAMES_FROM and len(canvas.scene.layout.folds) == 1


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.38, 0.5, 0.8])
def test_cards_are_never_blank(folded: GraphCanvas, qtbot: QtBot, scale: float) -> None:
    """At every zoom the bars have the colour of their operation; nodes show text or colour."""
    assert folded.scene
    x, y, w, h = folded.scene.layout.fold_rects[0].tolist()
    folded.camera.scale = scale
    folded.centre(x + w / 2, y + h / 2)
    settle(qtbot, folded)
    picture = pixels(folded.grab().toImage()) & 0xFFFFFF
    assert (picture == int(CATEGORIES["linear"][1:], 16)).any()
    embedding = folded.scene.layout.node_rects[folded.scene.place_of[0]].tolist()
    left, top = folded.camera.to_screen(*embedding[:2])
    right, low = folded.camera.to_screen(embedding[0] + embedding[2], embedding[1] + embedding[3])
    card = picture[max(round(top), 0) : round(low) + 1, max(round(left), 0) : round(right) + 1]
    inner = card[1:-1, 3:-1] if scale >= 0.2 else card
    assert inner.size == 0 or len(np.unique(inner)) > 1 or inner.flat[0] != 0xFFFFFF


def test_arrow_keys_stop_on_folded_cards(folded: GraphCanvas, qtbot: QtBot) -> None:
    """Down goes to the card, all of whose nodes are selected, and past it; up returns; Enter opens its first layer."""
    scene = folded.scene
    assert scene is not None and len(scene.layout.folds) == 1
    tree = scene.layout.tree
    inside = {tree.ids[i] for group in scene.layout.folds[0].members for i in tree.members(group)}
    before = next(tree.ids[u] for u, v in tree.edges.tolist() if tree.ids[v] in inside and tree.ids[u] not in inside)
    folded.select((before,))
    qtbot.keyClick(folded, Qt.Key.Key_Down)
    assert set(folded.selection()) == inside
    qtbot.keyClick(folded, Qt.Key.Key_Down)
    after = set(folded.selection())
    assert after and after.isdisjoint(inside)
    qtbot.keyClick(folded, Qt.Key.Key_Up)
    assert set(folded.selection()) == inside
    qtbot.keyClick(folded, Qt.Key.Key_Return)
    settle(qtbot, folded)
    assert titles(folded) == ["layers 1 … 8"]
