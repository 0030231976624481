"""Wires, edges, keys and titles on the canvas, with the pointer as a person uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QMenu, QPlainTextEdit, QPushButton, QWidgetAction
from pytestqt.qtbot import QtBot

from espalier.app.canvas.wires import Edge, edge_of, handle_of
from espalier.app.features.edits import offers
from espalier.app.features.edits.context_menu import NodeMenu
from espalier.app.features.edits.edge_menu import direct_user, edge_menu, fold_menu, group_menu
from espalier.app.features.edits.titles import TitleField
from espalier.app.features.outline.panel import OutlinePanel
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from tests.benchmarks.synthetic import Maker
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.edits.test_menu import menu_of, row, stack

pytestmark = pytest.mark.gui


@pytest.fixture
def blocks(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> Iterator[Window]:
    """The window with three blocks, all of them open and laid out."""
    open_small(window, runner, stack().project)
    window.canvas.open_all()
    qtbot.waitUntil(lambda: window.canvas.scene is not None and not window.canvas.waiting)
    yield window
    for menu in window.canvas.findChildren(QMenu):
        menu.close()


def handle(window: Window, node: str) -> QPoint:
    """The pixel of a node's handle, which is brought into view."""
    canvas = window.canvas
    assert canvas.scene is not None
    number = canvas.scene.layout.tree.index[node]
    rect = canvas.scene.rect_of(number)
    assert rect is not None
    canvas.camera.scale = 0.7
    canvas.centre(rect[0] + rect[2] / 2, rect[1] + rect[3] / 2)
    x, y = canvas.camera.to_screen(*handle_of(rect, canvas.scene.layout.horizontal))
    return QPoint(round(x), round(y))


def middle(window: Window, node: str) -> QPoint:
    """The pixel in the middle of a node."""
    canvas = window.canvas
    assert canvas.scene is not None
    rect = canvas.scene.rect_of(canvas.scene.layout.tree.index[node])
    assert rect is not None
    x, y = canvas.camera.to_screen(rect[0] + rect[2] / 2, rect[1] + rect[3] / 2)
    return QPoint(round(x), round(y))


def drag(window: Window, qtbot: QtBot, start: QPoint, end: QPoint) -> None:
    """Press, move, release; what is lit is looked at by the caller between."""
    canvas = window.canvas
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(canvas, start + QPoint(9, 9))
    qtbot.mouseMove(canvas, end)


@pytest.mark.slow
def test_only_nodes_that_can_take_a_result_light_up(blocks: Window, qtbot: QtBot) -> None:
    canvas, start = blocks.canvas, handle(blocks, "0_norm")
    drag(blocks, qtbot, start, start + QPoint(60, 60))
    wire, scene = canvas.marks.wire, canvas.scene
    assert wire is not None and scene is not None
    lit = {scene.layout.tree.ids[int(scene.layout.nodes[p])] for p in wire.ends.tolist()}
    graph = blocks.session.open_document.graph
    shape = graph["0_norm"].out
    before = graph.feeding("0_norm")
    for node in graph:  # by hand: takes such a tensor, none of those that it comes from, and not this very one alone
        takes = [graph[r.node].out for r in node.inputs if r.node != "0_norm"]
        legal = node.id not in before and shape in takes
        assert (node.id in lit) == legal, node.id
    assert "0_up" not in lit and "1_norm" in lit and "output" not in lit
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    assert canvas.marks.wire is None and not blocks.session.recipe.steps


@pytest.mark.slow
def test_a_wire_connects_and_is_one_undo(blocks: Window, qtbot: QtBot) -> None:
    start = handle(blocks, "0_norm")
    end = middle(blocks, "1_norm")
    drag(blocks, qtbot, start, end)
    qtbot.mouseRelease(blocks.canvas, Qt.MouseButton.LeftButton, pos=end)
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert (edit.tag, edit.node, edit.port, edit.source) == ("rewire", "1_norm", "data_in", "0_norm")
    assert blocks.canvas.marks.wire is None


@pytest.mark.slow
def test_a_wire_to_a_node_with_two_inputs_asks_which(blocks: Window, qtbot: QtBot) -> None:
    start, end = handle(blocks, "0_norm"), None
    end = middle(blocks, "add_1")
    drag(blocks, qtbot, start, end)
    qtbot.mouseRelease(blocks.canvas, Qt.MouseButton.LeftButton, pos=end)
    assert not blocks.session.recipe.steps
    (menu,) = blocks.canvas.findChildren(QMenu)
    texts = [a.text() for a in menu.actions()]
    assert texts[0] == "add_1: which input?" and len(texts) == 3
    menu.actions()[2].trigger()
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert (edit.node, edit.port) == ("add_1", "data_in_1")


@pytest.mark.slow
def test_dropped_on_the_ground_nothing_happens(blocks: Window, qtbot: QtBot) -> None:
    start = handle(blocks, "0_norm")
    drag(blocks, qtbot, start, QPoint(3, 3))
    qtbot.mouseRelease(blocks.canvas, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    assert blocks.canvas.marks.wire is None and not blocks.session.recipe.steps


@pytest.mark.slow
def test_a_recorded_model_says_why_there_is_no_wire(blocks: Window, qtbot: QtBot) -> None:
    graph = blocks.session.open_document.graph
    object.__setattr__(graph, "runs", "module")
    assert not offers.wire_takers(graph, "0_norm")
    drag(blocks, qtbot, handle(blocks, "0_norm"), QPoint(9, 9))
    assert "recorded" in blocks.banner.text


def test_an_edge_takes_a_module(blocks: Window, qtbot: QtBot) -> None:
    canvas = blocks.canvas
    scene, graph = canvas.scene, blocks.session.open_document.graph
    assert scene is not None
    edges = [edge_of(scene, k) for k in range(len(scene.layout.starts) - 1)]
    edge = next(e for e in edges if e.source == "0_norm")
    assert edge.user == "0_up", "the edge is that of its two nodes"
    assert all(any(r.node == e.source for r in graph[e.user].inputs) for e in edges if e.user)
    assert sum(bool(e.user) for e in edges) > 12
    menu = edge_menu(blocks.host, graph, edge)
    row(menu, "ReLU").trigger()  # type: ignore[attr-defined]
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert (edit.tag, edit.node, edit.user, edit.op) == ("insert_after", "0_norm", "0_up", "relu")


def test_a_right_click_on_an_edge_opens_its_menu(blocks: Window, qtbot: QtBot) -> None:
    canvas = blocks.canvas
    handle(blocks, "0_norm")
    scene = canvas.scene
    assert scene is not None
    number = next(k for k in range(len(scene.layout.starts) - 1) if edge_of(scene, k).source == "0_norm")
    points = scene.layout.points[scene.layout.starts[number] : scene.layout.starts[number + 1]]
    x, y = canvas.camera.to_screen(*((points[0] + points[1]) / 2).tolist())
    point = QPoint(round(x), round(y))
    QApplication.sendEvent(canvas, QContextMenuEvent(QContextMenuEvent.Reason.Mouse, point, canvas.mapToGlobal(point)))
    (menu,) = canvas.findChildren(QMenu, options=Qt.FindChildOption.FindDirectChildrenOnly)
    assert menu.actions()[0].text().startswith("0_norm → 0_up")


@pytest.mark.slow
def test_f2_gives_a_title_at_once(blocks: Window, qtbot: QtBot) -> None:
    handle(blocks, "0_act")
    blocks.canvas.select(("0_act",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_F2)
    (field,) = blocks.canvas.findChildren(TitleField)
    assert field.text() == "act"
    field.setText("Gate")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert blocks.session.open_document.graph["0_act"].annotation.title == "Gate", "no worker is needed"
    assert blocks.canvas.find("Gate") == ["0_act"]
    outline = blocks.docks.panels["outline"]
    assert isinstance(outline, OutlinePanel)
    qtbot.waitUntil(lambda: outline.model.tree is not None and not outline._loader.busy)
    assert outline.model.tree is not None
    assert outline.model.name(outline.model.tree.index["0_act"]) == "Gate"
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_F2)
    field = blocks.canvas.findChildren(TitleField)[-1]
    field.setText("other")
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert blocks.session.open_document.graph["0_act"].annotation.title == "Gate"
    blocks.session.undo()
    assert not blocks.session.open_document.graph["0_act"].annotation.title


@pytest.mark.slow
def test_texts_in_a_row_are_one_step(blocks: Window) -> None:
    menu = menu_of(blocks, "0_act")
    menu.scope.setCurrentIndex(1)
    row(menu, "red").trigger()  # type: ignore[attr-defined]
    menu = menu_of(blocks, "0_act")
    held = next(a.menu() for a in menu.actions() if a.text() == "Note")
    assert isinstance(held, QMenu)
    box = next(a.defaultWidget() for a in held.actions() if isinstance(a, QWidgetAction))
    field, button = box.findChild(QPlainTextEdit), box.findChild(QPushButton)
    assert isinstance(field, QPlainTextEdit) and isinstance(button, QPushButton)
    field.setPlainText("slow\nhere")
    button.click()
    graph = blocks.session.open_document.graph
    assert [graph[f"{i}_act"].annotation.colour for i in range(3)] == ["red"] * 3
    assert graph["0_act"].annotation.note == "slow\nhere" and len(blocks.session.recipe.steps) == 1
    row(menu_of(blocks, "0_act"), "blue").trigger()  # type: ignore[attr-defined]
    graph = blocks.session.open_document.graph
    assert [graph[f"{i}_act"].annotation.colour for i in range(3)] == ["blue", "red", "red"]


@pytest.mark.slow
def test_m_mutes_and_brings_back(blocks: Window, qtbot: QtBot, runner: list[FakeRunner]) -> None:
    from espalier.passes.base import Context
    from espalier.passes.jobs.kinds import ReplayJob, ReplayResult
    from espalier.passes.recipes.replay import replay

    blocks.canvas.select(("0_act", "1_act"))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_M)
    document = blocks.session.open_document
    info = next(j for j in runner[-1].waiting if isinstance(j.job, ReplayJob))
    done = replay(document.project.base, blocks.session.recipe, Context(document.store))
    runner[-1].waiting.remove(info)
    runner[-1].waiting.insert(0, info)
    runner[-1].finish(ReplayResult(done.graph, done.results, {}))
    graph = blocks.session.open_document.graph
    assert graph["0_act"].annotation.muted and graph["1_act"].annotation.muted
    blocks.canvas.select(("0_act",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_M)
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert (edit.tag, edit.node) == ("mute", "1_act"), "the other one stays muted"
    assert [a.text() for a in NodeMenu(blocks.host, graph, blocks.canvas).actions()].count("Unmute\tM") == 1
    blocks.canvas.select(("1_act",))
    assert row(NodeMenu(blocks.host, graph, blocks.canvas), "Unmute\tM").isEnabled()
    blocks.canvas.select(("0_act",))
    unmute = row(NodeMenu(blocks.host, graph, blocks.canvas), "Unmute\tM")
    assert not unmute.isEnabled() and "No step of the recipe" in unmute.toolTip(), (
        "its mute is in no step, as in a file's base"
    )


@pytest.mark.slow
def test_a_configuration_goes_from_node_to_node(blocks: Window, qtbot: QtBot) -> None:
    blocks.session.set_format(("0_up",), "weight", Integer(4, 2))
    blocks.canvas.select(("0_up",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert "integer" in QGuiApplication.clipboard().text()
    blocks.canvas.select(("1_up", "2_up"))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    graph = blocks.session.open_document.graph
    assert [graph[f"{i}_up"].precision["weight"].format for i in range(3)] == [Integer(4, 2)] * 3
    blocks.canvas.select(("0_up",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_X, Qt.KeyboardModifier.ControlModifier)
    assert not blocks.session.open_document.graph["0_up"].precision
    blocks.session.undo()
    assert blocks.session.open_document.graph["0_up"].precision


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "hello", "{", '{"espalier configuration": {"formats": {"weight": "exec(1)"}}}',
                                  '{"espalier configuration": {"pruned": {"weight": {"ratio": 9}}}}',
                                  "[" * 50_000, '{"espalier configuration": 3}'])  # fmt: skip
def test_anything_else_on_the_clipboard_is_refused(blocks: Window, qtbot: QtBot, text: str) -> None:
    QGuiApplication.clipboard().setText(text)
    blocks.canvas.select(("1_up",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert "no configuration on the clipboard" in blocks.banner.text and not blocks.session.recipe.steps


@pytest.mark.slow
def test_ctrl_d_puts_a_module_of_its_kind_behind(blocks: Window, qtbot: QtBot) -> None:
    blocks.canvas.select(("0_norm",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert (edit.tag, edit.node, edit.op) == ("insert_after", "0_norm", "LayerNorm")
    blocks.canvas.select(("0_up",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    assert "another shape" in blocks.banner.text


@pytest.mark.slow
def test_a_text_leaves_the_measured_score_valid(blocks: Window) -> None:
    from espalier.passes.running.splits import EvaluateOptions

    measures, options = blocks.session.measures, EvaluateOptions(data="demo:digits")
    measures.record(blocks.session.recipe, options, {"accuracy": 0.5, "loss": 1.0, "n": 10})
    row(menu_of(blocks, "0_act"), "red").trigger()  # type: ignore[attr-defined]
    assert blocks.session.recipe.steps and measures.has(blocks.session.recipe)
    blocks.session.set_format(("0_up",), "weight", Integer(4, 2))
    assert not measures.has(blocks.session.recipe)


@pytest.mark.slow
def test_a_new_layout_or_another_button_ends_a_wire(blocks: Window, qtbot: QtBot) -> None:
    """Its ends are places of the layout that goes."""
    canvas, start = blocks.canvas, handle(blocks, "0_norm")
    drag(blocks, qtbot, start, start + QPoint(60, 60))
    qtbot.mousePress(canvas, Qt.MouseButton.MiddleButton, pos=start + QPoint(60, 60))
    assert canvas.marks.wire is None
    qtbot.mouseRelease(canvas, Qt.MouseButton.MiddleButton, pos=start + QPoint(60, 60))
    start = handle(blocks, "0_norm")
    drag(blocks, qtbot, start, start + QPoint(60, 60))
    assert canvas.marks.wire is not None
    model = stack()
    model.edit_graph([{"bypass": {"node": "3"}}])  # type: ignore[attr-defined]
    canvas.set_graph(model.project.graph)
    qtbot.waitUntil(lambda: not canvas.waiting)
    assert canvas.marks.wire is None
    canvas.grab()


def test_a_mute_by_module_path_or_switched_off_is_told_apart(blocks: Window) -> None:
    from espalier.app.features.edits.recipe_edits import without_mute
    from espalier.model.document.recipe import Recipe, Step
    from espalier.passes.edits.mute import Mute
    from espalier.passes.transform.edit_graph import EditGraphOptions

    step = Step("edit_graph", EditGraphOptions((Mute("1.norm"),)))
    off = Step("edit_graph", EditGraphOptions((Mute("1_norm"),)), enabled=False)
    assert without_mute(Recipe((off, step)), ("1_norm", "1.norm")).steps == (off,)


def test_a_long_note_fits_the_screen() -> None:
    from espalier.app.canvas.wires import NOTE_LINES, NOTE_WIDTH, wrapped

    text = wrapped("x" * 4000 + "\n" * 200)
    assert len(text.splitlines()) == NOTE_LINES + 1 and max(map(len, text.splitlines())) <= NOTE_WIDTH
    assert wrapped("short\ntwo") == "short\ntwo"


def test_an_edge_through_hidden_shapes_leads_to_the_first_of_them() -> None:
    """What is inserted on it stands in front of the operation on shapes; without a way there is no place."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    up = m.add("linear", "net", x, name="up", weight=(8, 8))
    view = m.add("view", "net", up)
    end = m.add("relu", "net", m.add("transpose", "net", view))
    graph = Graph(m.nodes)
    assert direct_user(graph, Edge(up, 0, end)) == view
    assert direct_user(graph, Edge(x, 0, up)) == up
    assert direct_user(graph, Edge(x, 0, end)) == ""


@pytest.mark.slow
def test_the_menu_of_a_fold_opens_and_folds(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    """On a bar: that layer, all layers; then folding, also from the menu of a group of the chain."""
    open_small(window, runner, stack().project)
    canvas = window.canvas
    canvas.close_all()
    qtbot.waitUntil(lambda: canvas.scene is not None and not canvas.waiting)
    assert canvas.scene
    (fold,) = canvas.scene.layout.folds
    rows = {a.text().split("\t")[0]: a for a in fold_menu(window.host, fold, 1).actions()}
    assert not rows["Fold"].isEnabled() and "Open all 3" in rows
    name = next(text for text in rows if text.startswith("Open ") and "all" not in text)
    assert name.endswith(" 1")
    rows[name].trigger()
    opened = canvas.scene.layout.tree.groups[fold.chain.members[1]].path
    assert opened in (canvas.open_groups or ())
    group = {a.text().split("\t")[0]: a for a in group_menu(window.host, opened).actions()}
    next(action for text, action in group.items() if text.startswith("Fold ")).trigger()
    assert opened not in (canvas.open_groups or ())
