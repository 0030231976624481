"""The canvas as a user meets it: select, open and close, find, colour, remember. Offscreen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.canvas.scene import Hit
from app.canvas.view import GraphCanvas
from app.theme import DARK, LIGHT
from model.formats.integer import Integer
from model.graph import Graph
from model.meta import Precision, Sparsity
from tests.benchmarks.synthetic import transformer

pytestmark = pytest.mark.gui
LAYER = "model.layers.0"
LINEAR = "model_layers_0_attention_query"


@pytest.fixture
def canvas(qtbot: QtBot) -> Iterator[GraphCanvas]:
    """A canvas of 900 × 600 with a small transformer, settled."""
    made = GraphCanvas()
    qtbot.addWidget(made)
    made.resize(900, 600)
    made.show()
    made.set_graph(transformer(60))
    made.open_group("model.embed")
    settle(qtbot, made)
    yield made


def settle(qtbot: QtBot, canvas: GraphCanvas) -> None:
    """Wait for layout and painting."""
    canvas.repaint()
    qtbot.waitUntil(
        lambda: not (canvas._relayout.busy or canvas._rest.isActive() or canvas._again.isActive()), timeout=15_000
    )
    canvas.repaint()


def spot(canvas: GraphCanvas, node: str) -> QPoint:
    """The pixel in the middle of a node."""
    assert canvas.scene
    rect = canvas.scene.rect_of(canvas.scene.layout.tree.index[node])
    assert rect
    x, y = canvas.camera.to_screen(rect[0] + rect[2] / 2, rect[1] + rect[3] / 2)
    return QPoint(round(x), round(y))


def head(canvas: GraphCanvas, path: str, dx: float = 40.0) -> QPoint:
    """A pixel on the head of a group."""
    assert canvas.scene
    tree = canvas.scene.layout.tree
    x, y, _, _ = canvas.scene.layout.group_rects[canvas.scene.group_place[tree.group_of(path)]]
    a, b = canvas.camera.to_screen(x + dx, y + 15)
    return QPoint(round(a), round(b))


def drag(canvas: GraphCanvas, start: QPoint, end: QPoint, modifier: Qt.KeyboardModifier) -> None:
    """Press, move, release."""
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    for kind, at, button in (
        (QEvent.Type.MouseButtonPress, start, left),
        (QEvent.Type.MouseMove, (start + end) / 2, none),
        (QEvent.Type.MouseMove, end, none),
        (QEvent.Type.MouseButtonRelease, end, left),
    ):
        place = QPointF(at)
        QApplication.sendEvent(canvas, QMouseEvent(kind, place, canvas.mapToGlobal(place), button, left, modifier))


def pixels(image: QImage) -> np.ndarray:
    """The picture as an array of rows."""
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), image.width()).copy()


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
    canvas.open_group("a")
    canvas.set_overlay("error", {"x": 1.0})
    canvas.set_problems({"x": "bad"})
    canvas.restore({"open": ["a"], "scale": 1.0, "centre": [0, 0]})
    assert canvas.find("x") == [] and canvas.selection() == ()


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


def test_drag_pans_and_escape_undoes(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Dragging moves the picture with the pointer; a cancelled drag puts it back."""
    x, y = canvas.camera.x, canvas.camera.y
    drag(canvas, QPoint(300, 300), QPoint(340, 330), Qt.KeyboardModifier.NoModifier)
    assert (canvas.camera.x - x) * canvas.camera.scale == pytest.approx(-40)
    assert (canvas.camera.y - y) * canvas.camera.scale == pytest.approx(-30)
    x, y = canvas.camera.x, canvas.camera.y
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(300, 300))
    qtbot.mouseMove(canvas, QPoint(380, 380))
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    assert (canvas.camera.x, canvas.camera.y) == (x, y)


def test_groups_open_and_close(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """By call, by triangle and by double click; the head stays where it was on the screen."""
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
    assert len(canvas.scene.layout.nodes) == len(canvas.scene.graph)


def test_closed_group_selects_its_members(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """A click on a closed group selects all that it hides."""
    canvas.close_group(LAYER)
    settle(qtbot, canvas)
    assert canvas.scene
    canvas.show_group(canvas.scene.layout.tree.group_of(LAYER))
    settle(qtbot, canvas)
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=head(canvas, LAYER, 60))
    assert LINEAR in canvas.selection() and all("layers_1" not in i for i in canvas.selection())
    assert len(canvas.marks.groups) == 1


def test_reveal_opens_what_hides(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Selecting with reveal opens the groups around a hidden node and shows it."""
    canvas.close_all()
    settle(qtbot, canvas)
    canvas.select([LINEAR], reveal=True)
    settle(qtbot, canvas)
    assert canvas.selection() == (LINEAR,)
    assert canvas.rect().contains(spot(canvas, LINEAR)) and canvas.camera.scale >= 0.6
    assert [int(i) for i in canvas.marks.nodes] != []


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


def wheel(canvas: GraphCanvas, at: QPointF, pixels: QPoint, angle: QPoint, modifier: Qt.KeyboardModifier) -> None:
    """One turn of the wheel, or a stroke on a touchpad."""
    event = QWheelEvent(
        at,
        canvas.mapToGlobal(at),
        pixels,
        angle,
        Qt.MouseButton.NoButton,
        modifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, event)


def test_wheel_zooms_at_the_pointer_and_touchpad_pans(canvas: GraphCanvas) -> None:
    """The canvas point under the pointer stays there."""
    at, none = QPointF(200, 150), Qt.KeyboardModifier.NoModifier
    before, scale = canvas.camera.to_canvas(200, 150), canvas.camera.scale
    wheel(canvas, at, QPoint(), QPoint(0, 120), none)
    assert canvas.camera.scale > scale and canvas.camera.to_canvas(200, 150) == pytest.approx(before)
    scale, x = canvas.camera.scale, canvas.camera.x
    wheel(canvas, at, QPoint(10, 0), QPoint(20, 0), none)
    assert canvas.camera.scale == scale and canvas.camera.x == pytest.approx(x - 10 / scale)
    wheel(canvas, at, QPoint(0, 20), QPoint(0, 40), Qt.KeyboardModifier.ControlModifier)
    assert canvas.camera.scale > scale


def test_activation(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """A double click on a node, or Return on the selected one, activates it."""
    with qtbot.waitSignal(canvas.node_activated) as told:
        qtbot.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=spot(canvas, "input_ids"))
    assert told.args == ["input_ids"]
    canvas.select(["head"])
    with qtbot.waitSignal(canvas.node_activated) as told:
        qtbot.keyClick(canvas, Qt.Key.Key_Return)
    assert told.args == ["head"]


def test_choice_edit_moves_nothing_and_repaints(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """An edited precision keeps the layout object, changes the badge's pixels, and only those nearby."""
    assert canvas.scene and canvas.graph
    canvas.reveal(LINEAR)
    settle(qtbot, canvas)
    scene, before = canvas.scene, pixels(canvas.grab().toImage())
    edited = with_precision(canvas.graph, LINEAR)
    canvas.set_graph(edited, edited.delta(canvas.graph))
    settle(qtbot, canvas)
    after = pixels(canvas.grab().toImage())
    assert canvas.scene is scene and scene.graph is edited
    rows, columns = np.nonzero(before != after)
    x, y, w, h = scene.rect_of(scene.layout.tree.index[LINEAR]) or (0, 0, 0, 0)
    left, top = canvas.camera.to_screen(x, y)
    assert len(rows) and rows.min() >= top - 1 and rows.max() <= top + h + 1
    assert columns.min() >= left - 1 and columns.max() <= left + w * canvas.camera.scale + 1


def with_precision(graph: Graph, node: str) -> Graph:
    """The graph with int 4/2 weights in one node."""
    return graph.replace(replace(graph[node], precision={"weight": Precision(Integer(4, 2))}))


def test_structural_edit_keeps_selection_and_open_groups(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Removing a node lays out again; what was selected and open stays so."""
    assert canvas.graph
    canvas.close_group(LAYER)
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


def test_view_state_round_trip(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """What is remembered as JSON brings another canvas to the same view."""
    canvas.close_group(LAYER)
    canvas.set_horizontal(True)
    canvas.set_mode("bits")
    settle(qtbot, canvas)
    canvas.zoom_by(0.7)
    canvas.select(["head"])
    state = json.loads(json.dumps(canvas.view_state()))
    other = GraphCanvas()
    qtbot.addWidget(other)
    other.resize(900, 600)
    other.show()
    other.set_graph(canvas.graph)
    other.restore(state)
    settle(qtbot, other)
    found = other.view_state()
    assert found.pop("centre") == pytest.approx(state.pop("centre"))
    assert found == state


def test_large_graphs_arrive_later(qtbot: QtBot) -> None:
    """A large layout is computed off the UI thread; a newer graph makes it stale; closing waits for it."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(800, 500)
    canvas.show()
    canvas.set_graph(transformer(6000))
    assert canvas.scene is None and canvas._relayout.busy
    canvas.grab()
    canvas.set_graph(transformer(1500))
    settle(qtbot, canvas)
    assert canvas.scene and 1400 < len(canvas.scene.graph) < 1600
    canvas.open_all()
    assert canvas.scene is not None
    canvas.set_graph(None)
    assert canvas.scene is None and not canvas._relayout.busy


def test_late_layout_of_an_older_graph_is_dropped(qtbot: QtBot) -> None:
    """A layout that ended just before a newer graph came does not take its place."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.set_graph(transformer(1500))
    older = canvas._relayout._future
    assert older is not None
    older.result()
    canvas.set_graph(transformer(700))
    settle(qtbot, canvas)
    assert canvas.scene and canvas.scene.graph is canvas.graph


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
        lambda: qtbot.keyClick(canvas, chance.choice(list(canvas.WAYS))),
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


def test_high_dpi_tiles(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """On a screen of ratio 2 the tiles have twice the pixels and the picture is the same."""
    picture = QImage(1800, 1200, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(2.0)
    picture.fill(QColor("#F6F7F9"))
    for _ in range(60):
        draw_on(canvas, picture)
    tile = next(iter(canvas.tiles.done.values()))
    assert tile.width() == 512 and tile.devicePixelRatio() == 2.0
    canvas.chrome.show(False)
    settle(qtbot, canvas)
    picture.setDevicePixelRatio(1.0)
    small = picture.scaled(900, 600, mode=Qt.TransformationMode.SmoothTransformation)
    fine, plain = (pixels(p) & 0xFF for p in (small, canvas.grab().toImage()))
    assert np.abs(fine.astype(int) - plain.astype(int)).mean() < 3


def draw_on(canvas: GraphCanvas, picture: QImage) -> None:
    """Paint the canvas's tiles onto a picture of another pixel ratio."""
    from PySide6.QtCore import QSizeF
    from PySide6.QtGui import QPainter

    painter = QPainter(picture)
    assert canvas.scene
    canvas.tiles.show(painter, canvas.scene, canvas.camera, QSizeF(canvas.size()), False)
    painter.end()


def test_tiles_agree_with_one_painting(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """The tiled picture is what painting the whole view at once gives: no seams."""
    canvas.camera.scale, canvas.camera.x, canvas.camera.y = 1.0, 0.0, 0.0
    canvas.moved()
    settle(qtbot, canvas)
    canvas.chrome.show(False)
    tiled = pixels(canvas.grab().toImage())
    from PySide6.QtGui import QPainter

    whole = QImage(900, 600, QImage.Format.Format_RGB32)
    whole.fill(QColor(LIGHT.background))
    painter = QPainter(whole)
    assert canvas.scene
    canvas.kit.paint(painter, canvas.scene, (0, 0, 900, 600), 1.0, 1.0)
    painter.end()
    assert (tiled != pixels(whole)).mean() < 0.002


def test_palette_changes_every_colour(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Dark is dark, cards included."""
    canvas.set_palette(DARK)
    settle(qtbot, canvas)
    picture = pixels(canvas.grab().toImage())
    light = ((picture & 0xFF) > 200).mean()
    assert light < 0.1


def test_render_writes_a_picture(canvas: GraphCanvas, tmp_path: Path) -> None:
    """The whole graph as PNG, whatever is in view."""
    file = tmp_path / "graph.png"
    assert canvas.render(str(file), (640, 480))
    image = QImage(str(file))
    assert (image.width(), image.height()) == (640, 480) and len(np.unique(pixels(image))) > 20
    assert not canvas.render(str(tmp_path / "no" / "x.png"), (64, 48))


def test_cards(canvas: GraphCanvas, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breadcrumb and direction are pressed; the overview moves the view; all have names for screen readers."""
    chrome = canvas.chrome
    assert all(card.accessibleName() for card in chrome.cards)
    canvas.reveal(LINEAR)
    canvas.tell_place()
    texts = [p[0] for p in chrome.breadcrumb.pieces]
    assert texts[0] == "model"
    scale = canvas.camera.scale
    chrome.breadcrumb.pressed.emit(0)
    assert canvas.camera.scale < scale
    chrome.colour_by.pressed.emit(3)
    settle(qtbot, canvas)
    assert canvas.horizontal
    x = canvas.camera.x
    qtbot.mouseClick(chrome.minimap, Qt.MouseButton.LeftButton, pos=QPoint(140, 49))
    assert canvas.camera.x != x


def test_hover_shows_the_shape(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Over an edge its shape is known; leaving takes the mark away."""
    assert canvas.scene
    layout = canvas.scene.layout
    points = layout.points[layout.starts[0] : layout.starts[1]]
    canvas.camera.scale = 1.0
    canvas.centre(*points[:2].mean(axis=0).tolist())
    settle(qtbot, canvas)
    canvas.hover(QPointF(*canvas.camera.to_screen(*points[:2].mean(axis=0).tolist())))
    assert canvas.marks.hover_edge is not None
    assert canvas.scene.shape(canvas.marks.hover_edge) == "batch × seq × 128"
    QApplication.sendEvent(canvas, QEvent(QEvent.Type.Leave))
    assert canvas.marks.hover_edge is None


def test_first_look_follows_the_size_until_the_view_is_moved(qtbot: QtBot) -> None:
    """A graph that arrives before the window has its size is still seen from its beginning."""
    canvas = GraphCanvas()
    qtbot.addWidget(canvas)
    canvas.set_graph(transformer(60))
    canvas.resize(900, 600)
    canvas.show()
    settle(qtbot, canvas)
    assert canvas.rect().contains(spot(canvas, "input_ids"))
    canvas.zoom_by(0.5)
    scale = canvas.camera.scale
    canvas.resize(800, 500)
    assert canvas.camera.scale == scale


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


def test_members_of_a_hit(canvas: GraphCanvas) -> None:
    """A node stands for itself, a group for all inside."""
    assert canvas.scene
    assert canvas.members(Hit("node", 0)) == ["input_ids"]
    place = canvas.scene.group_place[canvas.scene.layout.tree.group_of(LAYER)]
    assert LINEAR in canvas.members(Hit("group", place))
