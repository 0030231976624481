"""What the canvas shows of a graph: groups, edits, figures, problems, late layouts. Offscreen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas
from espalier.app.theme import LIGHT
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Adapter, Sparsity
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import LAYER, LINEAR, head, pixels, settle, spot, with_precision

pytestmark = pytest.mark.gui


def test_empty_canvas_says_so(qtbot: QtBot) -> None:
    """Without a model the canvas paints words and answers every call."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(400, 300)
    canvas.show()
    before = pixels(canvas.grab().toImage())
    assert len(np.unique(before)) > 5
    for act in (canvas.fit, canvas.open_all, canvas.close_all, lambda: canvas.zoom_by(2), lambda: canvas.reveal("x")):
        act()
    canvas.set_open("a", True)
    canvas.set_overlay("error", {"x": 1.0})
    canvas.set_problems({"x": "bad"})
    canvas.restore({"open": ["a"], "scale": 1.0, "centre": [0, 0]})
    assert canvas.find("x") == [] and canvas.selection() == ()


def test_groups_open_and_close(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """By call, by triangle and by double click; the head stays where it was on the screen."""
    canvas.set_folding(False)
    assert canvas.scene and LAYER in (canvas.open_groups or ())
    canvas.bring(canvas.scene.layout.tree.index["model_layers_0_input_norm"])
    settle(qtbot, canvas)
    before = head(canvas, LAYER)
    with qtbot.waitSignal(canvas.group_toggled) as told:
        qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=head(canvas, LAYER, 14))
    assert told.args == [LAYER, False] and canvas.selection() == ()
    settle(qtbot, canvas)
    assert abs(head(canvas, LAYER).y() - before.y()) <= 1
    hit = canvas.hit(QPointF(head(canvas, LAYER)))
    assert hit and hit.kind == "group"
    qtbot.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=head(canvas, LAYER, 60))
    settle(qtbot, canvas)
    assert LAYER in (canvas.open_groups or ())
    canvas.close_all()
    settle(qtbot, canvas)
    assert canvas.open_groups == frozenset() and len(canvas.scene.layout.groups) == 1
    canvas.open_all()
    settle(qtbot, canvas)
    assert len(canvas.scene.layout.nodes) == len(canvas.scene.graph) - len(canvas.scene.layout.tree.through)
    assert canvas.scene.layout.tree.through
    canvas.set_show_shapes(True)
    settle(qtbot, canvas)
    assert len(canvas.scene.layout.nodes) == len(canvas.scene.graph)


def test_reveal_opens_what_hides(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Selecting with reveal opens the groups around a hidden node and shows it."""
    canvas.close_all()
    settle(qtbot, canvas)
    canvas.select([LINEAR], reveal=True)
    settle(qtbot, canvas)
    assert canvas.selection() == (LINEAR,)
    assert canvas.rect().contains(spot(canvas, LINEAR)) and canvas.camera.scale >= 0.6
    assert [int(i) for i in canvas.marks.nodes] != []


def test_choice_edit_moves_nothing_and_repaints(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """An edited precision keeps the layout object and changes pixels of the badge and of the block's head alone."""
    assert canvas.scene and canvas.graph
    canvas.reveal(LINEAR)
    settle(qtbot, canvas)
    scene, before = canvas.scene, pixels(canvas.grab().toImage())
    edited = with_precision(canvas.graph, LINEAR)
    canvas.set_graph(edited, edited.delta(canvas.graph))
    settle(qtbot, canvas)
    after = pixels(canvas.grab().toImage())
    assert canvas.scene is scene and scene.graph is edited
    changed = before != after
    changed[head(canvas, LAYER).y() - 15 :][:30] = False  # it counts identical blocks
    rows, columns = np.nonzero(changed)
    x, y, w, h = scene.rect_of(scene.layout.tree.index[LINEAR]) or (0, 0, 0, 0)
    left, top = canvas.camera.to_screen(x, y)
    assert len(rows) and rows.min() >= top - 1 and rows.max() <= top + h + 1
    assert columns.min() >= left - 1 and columns.max() <= left + w * canvas.camera.scale + 1


def test_a_choice_edit_repaints_the_head_that_counts_identical_blocks(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Where one block's choices differ now from its twins', the head says so at once: as if all were painted anew."""
    assert canvas.scene and canvas.graph
    tree = canvas.scene.layout.tree
    assert tree.groups[tree.group_of(LAYER)].twins > 1
    canvas.reveal(LINEAR)
    settle(qtbot, canvas)
    before = canvas.grab().toImage()
    edited = with_precision(canvas.graph, LINEAR)
    canvas.set_graph(edited, edited.delta(canvas.graph))
    settle(qtbot, canvas)
    after = canvas.grab().toImage()
    spot = head(canvas, LAYER).y()
    strip = slice(spot - 8, spot + 8)
    assert (pixels(before)[strip] != pixels(after)[strip]).any()
    canvas.repaint_all()
    settle(qtbot, canvas)
    assert (pixels(canvas.grab().toImage())[strip] == pixels(after)[strip]).all()


def test_structural_edit_keeps_selection_and_open_groups(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Removing a node lays out again; what was selected and open stays so."""
    assert canvas.graph
    canvas.set_open(LAYER, False)
    canvas.select(["head", "input_ids"])
    nodes = dict(canvas.graph.nodes)
    head_node = nodes.pop("head")
    nodes["output_59"] = nodes.pop(list(nodes)[-1])
    nodes["output_59"] = replace(nodes["output_59"], id="output_59", args=head_node.args)
    with qtbot.waitSignal(canvas.selection_changed) as told:
        canvas.set_graph(Graph(nodes))
    settle(qtbot, canvas)
    assert told.args == [("input_ids",)]
    assert LAYER not in (canvas.open_groups or ()) and "model" in (canvas.open_groups or ())


def test_overlay_and_modes(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Values from outside colour the nodes and name the legend; None goes back."""
    assert canvas.scene and canvas.graph
    canvas.set_overlay("sensitivity", {LINEAR: 0.5, "head": 2.0, "unknown": 9.0})
    assert canvas.mode == "overlay" and canvas.scene.colours.legend.title == "sensitivity"
    assert (canvas.scene.colours.low, canvas.scene.colours.high) == (0.5, 2.0)
    index = canvas.scene.layout.tree.index
    codes, colours = canvas.scene.colours.codes, canvas.scene.colours.colours
    assert colours[codes[index["head"]]] == LIGHT.sequential(1.0) and colours[codes[index["input_ids"]]] == LIGHT.line
    canvas.set_overlay("sensitivity", {})
    assert "no values" in canvas.scene.colours.legend.title
    canvas.set_overlay("sensitivity", None)
    assert canvas.mode == "kind"
    pruned = replace(canvas.graph[LINEAR], sparsity={"weight": Sparsity("l1", 0.3, "local", None, 1)})
    canvas.set_graph(canvas.graph.replace(pruned))
    for mode in ("bits", "sparsity", "parameters", "kind"):
        canvas.set_mode(mode)
        settle(qtbot, canvas)
        assert canvas.mode == mode
    assert canvas.scene.figures.sparsity[index[LINEAR]] == 0.3


def test_problems_are_marked_and_told(canvas: GraphCanvas) -> None:
    """A node with a problem has a mark and a tool tip."""
    canvas.set_problems({"input_ids": "Its shape is not known.", "gone": "x"})
    assert canvas.scene and list(canvas.scene.problems.values()) == ["Its shape is not known."]
    assert "not known" in canvas.note_at(QPointF(spot(canvas, "input_ids")))


def test_an_adapter_is_told_by_the_tool_tip(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Its badge is left out of a narrow node."""
    adapted = replace(canvas.graph[LINEAR], adapters={"weight": Adapter(16, 16.0, 0.0, "a", "b")})
    canvas.set_graph(canvas.graph.replace(adapted))
    settle(qtbot, canvas)
    assert canvas.note_at(QPointF(spot(canvas, LINEAR))).endswith("\nLoRA r16")


def test_large_graphs_arrive_later(qtbot: QtBot) -> None:
    """A large layout is computed off the UI thread; a newer graph makes it stale; closing waits for it."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(800, 500)
    canvas.show()
    canvas.set_graph(transformer(6000))
    assert canvas.scene is None and canvas._layout_worker.busy
    canvas.grab()
    canvas.set_graph(transformer(1500))
    settle(qtbot, canvas)
    assert canvas.scene and 1400 < len(canvas.scene.graph) < 1600
    canvas.open_all()
    assert canvas.scene is not None
    canvas.set_graph(None)
    assert canvas.scene is None and not canvas._layout_worker.busy


def test_late_layout_of_an_older_graph_is_dropped(qtbot: QtBot) -> None:
    """A layout that ended just before a newer graph came does not take its place."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.set_graph(transformer(1500))
    older = canvas._layout_worker._future
    assert older is not None
    older.result()
    canvas.set_graph(transformer(700))
    settle(qtbot, canvas)
    assert canvas.scene and canvas.scene.graph is canvas.graph
