"""Selecting on the canvas: click, rubber band, keyboard, find, and what a hit stands for. Offscreen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from pytestqt.qtbot import QtBot

from espalier.app.canvas.scene import Hit
from espalier.app.canvas.view import GraphCanvas
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import LAYER, LINEAR, drag, head, pixels, settle, spot

pytestmark = pytest.mark.gui


def test_click_selects_and_deselects(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """A click selects one node, with Ctrl one more or one less, on the ground nothing."""
    left, ctrl = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier
    with qtbot.waitSignal(canvas.selection_changed) as told:
        qtbot.mouseClick(canvas, left, pos=spot(canvas, "input_ids"))
    assert told.args == [("input_ids",)]
    qtbot.mouseClick(canvas, left, ctrl, spot(canvas, "model_embed_word"))
    assert canvas.selection() == ("input_ids", "model_embed_word")
    qtbot.mouseClick(canvas, left, ctrl, spot(canvas, "input_ids"))
    assert canvas.selection() == ("model_embed_word",)
    canvas.select(["no such node", "input_ids"])
    assert canvas.selection() == ("input_ids",)
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    assert canvas.selection() == ()


def test_rubber_band(canvas: GraphCanvas) -> None:
    """Shift and drag selects what the band touches; Esc in between leaves everything as it was."""
    canvas.fit()
    a, b = spot(canvas, "input_ids"), spot(canvas, "model_embed_position")
    shift = Qt.KeyboardModifier.ShiftModifier
    drag(canvas, QPoint(min(a.x(), b.x()) - 5, a.y()), QPoint(max(a.x(), b.x()) + 5, b.y()), shift)
    assert {"input_ids", "model_embed_word", "model_embed_position"} <= set(canvas.selection())
    assert canvas.marks.band is None


def test_closed_group_selects_its_members(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """A click on a closed group selects all that it hides."""
    canvas.set_folding(False)
    canvas.set_open(LAYER, False)
    settle(qtbot, canvas)
    assert canvas.scene
    canvas.show_group(canvas.scene.layout.tree.group_of(LAYER))
    settle(qtbot, canvas)
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=head(canvas, LAYER, 60))
    assert LINEAR in canvas.selection() and all("layers_1" not in i for i in canvas.selection())
    assert len(canvas.marks.groups) == 1


def test_find(canvas: GraphCanvas) -> None:
    """By part of the id or path, by op, by several words, by letters in order; nothing when nothing fits."""
    assert canvas.find("layers.0.attention.query") == [LINEAR]
    assert set(canvas.find("embedding")) == {"model_embed_word", "model_embed_position"}
    assert canvas.find("layers 0 query")[0] == LINEAR
    assert LINEAR in canvas.find("attquery")
    assert canvas.find("zzz") == [] and canvas.find("  ") == []


def test_keyboard(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Arrow keys walk along edges, Ctrl+A takes all, F fits, plus and minus zoom."""
    qtbot.keyClick(canvas, Qt.Key.Key_Down)
    assert canvas.selection() == ("input_ids",)
    qtbot.keyClick(canvas, Qt.Key.Key_Down)
    first = canvas.selection()[0]
    assert first in ("model_embed_word", "model_embed_position")
    qtbot.keyClick(canvas, Qt.Key.Key_Right if first.endswith("word") else Qt.Key.Key_Left)
    assert canvas.selection()[0] in ("model_embed_word", "model_embed_position") and canvas.selection()[0] != first
    qtbot.keyClick(canvas, Qt.Key.Key_Up)
    assert canvas.selection() == ("input_ids",)
    qtbot.keyClick(canvas, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert len(canvas.selection()) == len(canvas.graph or ())
    scale = canvas.camera.scale
    qtbot.keyClick(canvas, Qt.Key.Key_Plus)
    assert canvas.camera.scale == pytest.approx(scale * 1.25)
    qtbot.keyClick(canvas, Qt.Key.Key_F)
    assert canvas.camera.scale < scale


def test_activation(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """A double click on a node, or Return on the selected one, activates it."""
    with qtbot.waitSignal(canvas.node_activated) as told:
        qtbot.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=spot(canvas, "input_ids"))
    assert told.args == ["input_ids"]
    canvas.select(["head"])
    with qtbot.waitSignal(canvas.node_activated) as told:
        qtbot.keyClick(canvas, Qt.Key.Key_Return)
    assert told.args == ["head"]


def test_members_of_a_hit(canvas: GraphCanvas) -> None:
    """A node stands for itself, a group for all inside."""
    assert canvas.scene
    assert canvas.members(Hit("node", 0)) == ["input_ids"]
    place = canvas.scene.group_place[canvas.scene.layout.tree.group_of(LAYER)]
    assert LINEAR in canvas.members(Hit("group", place))


def test_stub_leads_to_its_other_end(qtbot: QtBot) -> None:
    """A click on the tag of a shared tensor selects and shows its source; on the source's tag, all users."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(900, 600)
    canvas.show()
    canvas.set_graph(transformer(120, mask=True))
    canvas.open_all()
    settle(qtbot, canvas)
    assert canvas.scene
    layout = canvas.scene.layout
    incoming = [not layout.tree.stubs[s].uses for s in layout.stubs.tolist()]
    for wanted, count in ((True, 1), (False, sum(incoming))):
        x, y, w, h = layout.stub_rects[incoming.index(wanted)].tolist()
        canvas.camera.scale = 1.0
        canvas.centre(x + w / 2, y + h / 2)
        settle(qtbot, canvas)
        qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=QPoint(450, 300))
        assert len(canvas.selection()) == count
        assert (canvas.selection() == ("attention_mask",)) == wanted


def test_pointing_at_a_stub_marks_all_its_ends(qtbot: QtBot) -> None:
    """On a closed block's tag: the source, and every tag and stub of the same tensor; elsewhere none."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(900, 600)
    canvas.show()
    canvas.set_folding(False)
    canvas.set_graph(transformer(120, mask=True))
    canvas.close_all()
    canvas.set_open("model", True)
    settle(qtbot, canvas)
    assert canvas.scene
    layout = canvas.scene.layout
    assert not canvas.scene.layout.group_open[canvas.scene.group_place[layout.tree.group_of("model.layers.2")]]
    stubs = [layout.tree.stubs[s] for s in layout.stubs.tolist()]
    blocks = sum(g.label.startswith("layers.") for g in layout.tree.groups)
    place = next(k for k, s in enumerate(stubs) if layout.tree.groups[s.group].label == "layers.2")
    x, y, w, h = layout.stub_rects[place].tolist()
    canvas.camera.scale = 1.0
    canvas.centre(x + w / 2, y + h / 2)
    settle(qtbot, canvas)
    before = pixels(canvas.grab().toImage())
    canvas.hover(QPointF(450, 300))
    assert len(canvas.marks.hover_stubs) == blocks + 1
    assert canvas.marks.hover == canvas.scene.rect_of(layout.tree.index["attention_mask"])
    assert "attention_mask: batch × seq × 128" in canvas.note_at(QPointF(450, 300))
    assert (pixels(canvas.grab().toImage()) != before).any()
    canvas.hover(QPointF(2, 300))
    assert not len(canvas.marks.hover_stubs)
    canvas.select(["attention_mask"])
    assert len(canvas.marks.stubs) == blocks + 1
