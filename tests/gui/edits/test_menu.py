"""Edits from the canvas: the context menu, its scope, the Delete key, and refusals."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu, QWidgetAction
from pytestqt.qtbot import QtBot
from torch import Tensor, nn

import espalier as es
from espalier.app.features.edits import actions, offers
from espalier.app.features.edits.context_menu import NodeMenu
from espalier.app.features.edits.recipe_edits import on_nodes
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.shell.window import Window
from espalier.app.step_text import result, summary
from espalier.app.widgets.selections_menu import fill_selections
from espalier.model.document.codec import encode
from espalier.model.document.selections import selections_of
from espalier.model.errors import EspalierError
from espalier.model.formats.integer import Integer
from espalier.model.graph.twins import twins
from espalier.passes.base import Report
from espalier.passes.edits.annotate import Tag
from espalier.passes.select import Select
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


class Block(nn.Module):
    """A pre-norm feed-forward with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(12), nn.Linear(12, 40), nn.GELU(), nn.Linear(40, 12)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


def stack() -> es.Model:
    """Three blocks and a head with an activation of its own."""
    net = nn.Sequential(Block(), Block(), Block(), nn.GELU(), nn.Linear(12, 2))
    return es.trace(net, torch.randn(2, 5, 12))


@pytest.fixture
def blocks(window: Window, runner: list[FakeRunner]) -> Window:
    """The window with the three blocks."""
    open_small(window, runner, stack().project)
    return window


def menu_of(window: Window, node: str) -> NodeMenu:
    """The menu of one node."""
    window.session.select((node,))
    assert window.session.document is not None
    return NodeMenu(window.host, window.session.document.graph, window.canvas)


def row(menu: QMenu, title: str) -> object:
    """A row of a menu or of its submenus."""
    for action in menu.actions():
        held = action.menu()
        if action.text() == title and held is None:
            return action
        if isinstance(held, QMenu) and (found := row(held, title)):
            return found
    return None


@pytest.mark.slow
def test_the_scope_holds_twins(blocks: Window) -> None:
    menu = menu_of(blocks, "1_act")
    assert [menu.scope.itemText(i) for i in range(menu.scope.count())] == [
        "this node", "its 3 twins, one a block", "all 4 gelu"]  # fmt: skip
    menu.scope.setCurrentIndex(1)
    row(menu, "ReLU").trigger()  # type: ignore[attr-defined]
    (step,) = blocks.session.recipe.steps
    assert step.pass_name == "edit_graph"
    (edit,) = step.options.edits
    assert edit.op == "relu" and set(edit.select.values) == {"0_act", "1_act", "2_act"}


def test_twins_of_functions_and_of_nested_blocks() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(12, 12), nn.Linear(12, 12)])

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.parts[1](torch.relu(self.parts[0](x)))) + torch.relu(x)

    graph = es.trace(nn.Sequential(Pair(), Pair(), Pair()), torch.randn(2, 12)).project.graph
    relus = [n.id for n in graph if n.op == "relu"]
    assert len(relus) == 9
    assert twins(graph, graph[relus[1]]) == tuple(relus[1::3]), "the second of each block"
    assert twins(graph, graph["1_parts_0"]) == ("0_parts_0", "1_parts_0", "2_parts_0")


def test_rows_that_cannot_be_say_why(blocks: Window) -> None:
    menu = menu_of(blocks, "0_up")
    bypass = next(a for a in menu.actions() if a.text().startswith("Bypass"))
    assert not bypass.isEnabled() and "nothing can stand for its result" in bypass.toolTip()
    assert row(menu, "Two Linears of rank 4") and not row(menu, "Two Linears of rank 8")
    last = menu_of(blocks, "4")
    output = next(a for a in last.actions() if a.text() == "Add as output")
    assert not output.isEnabled() and "output already" in output.toolTip()


def test_an_attribute_is_typed_in_the_menu(blocks: Window, qtbot: QtBot) -> None:
    menu = menu_of(blocks, "0_norm")
    held = next(a.menu() for a in menu.actions() if a.text() == "Set")
    assert isinstance(held, QMenu)
    fields = {f.accessibleName(): f for a in held.actions() if isinstance(a, QWidgetAction)
              for f in a.defaultWidget().findChildren(QLineEdit)}  # fmt: skip
    assert "eps" in fields and "normalized_shape" not in fields
    fields["eps"].setText("0.25")
    qtbot.keyClick(fields["eps"], Qt.Key.Key_Return)
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert (edit.name, edit.value, edit.node) == ("eps", 0.25, "0_norm")


@pytest.mark.slow
def test_right_click_selects_and_opens_the_menu(blocks: Window, qtbot: QtBot, qapp: QApplication) -> None:
    canvas = blocks.canvas
    qtbot.waitUntil(lambda: canvas.scene is not None and not canvas.waiting)
    canvas.reveal("1_act")
    qtbot.waitUntil(lambda: canvas.scene is not None and _number(blocks) in canvas.scene.place_of)
    assert canvas.scene is not None
    area = canvas.scene.rect_of(_number(blocks))
    assert area is not None
    spot = canvas.camera.to_screen(area[0] + area[2] / 2, area[1] + area[3] / 2)
    point = QPoint(round(spot[0]), round(spot[1]))
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, point, canvas.mapToGlobal(point))
    QApplication.sendEvent(canvas, event)
    assert blocks.session.selection == ("1_act",)
    (menu,) = canvas.findChildren(NodeMenu)
    assert menu.isVisible()
    menu.close()
    qtbot.waitUntil(lambda: not canvas.findChildren(NodeMenu))


@pytest.mark.slow
def test_delete_bypasses_or_says_why(blocks: Window, qtbot: QtBot) -> None:
    blocks.session.select(("0_up",))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_Delete)
    assert "nothing can stand" in blocks.banner.text and not blocks.session.recipe.steps
    blocks.session.select(("0_act", "3"))
    blocks.canvas.select(("0_act", "3"))
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_Delete)
    (edit,) = blocks.session.recipe.steps[0].options.edits
    assert edit.tag == "bypass" and set(edit.select.values) == {"0_act", "3"}


@pytest.mark.slow
def test_every_offer_that_is_not_refused_runs() -> None:
    """What the menu offers, `edit_graph` does."""
    model = stack()
    graph = model.project.graph
    count = 0
    for node in graph:
        if node.call not in ("call_module", "call_function"):
            continue
        rows = [offers.bypass(graph, [node.id]), offers.output(graph, node), *offers.replacements([node]),
                *offers.insertions(graph, [node])]  # fmt: skip
        for offer in rows:
            if not offer.reason:
                model.run("edit_graph", edits=[encode(on_nodes(offer.edit, [node.id]))])
                model.undo()
                count += 1
    assert count > 100


def _number(window: Window) -> int:
    assert window.canvas.scene is not None
    return window.canvas.scene.layout.tree.index["1_act"]


def test_what_stays_says_what_it_is_and_what_to_do() -> None:
    graph = stack().project.graph
    assert offers.bypass(graph, ["input"]).reason == "input is an input, so it stays. Select an operation."
    assert "is the output" in offers.bypass(graph, ["output"]).reason
    assert offers.bypass(graph, ["0_act", "0_up"]).reason.endswith("or edit its users first.")


def test_what_an_edit_added_is_a_signed_count() -> None:
    report = Report("edit_graph", (), {"edits": 1, "nodes_added": -1, "parameters_added": 5898240})
    assert result(report) == "−1 node · +5\u2009898\u2009240 parameters"


@pytest.mark.slow
def test_the_inspector_edits_twins_and_all_of_an_operation(blocks: Window) -> None:
    """Its scope is the selection: one step of the recipe names all of them, and "This node" leads back."""
    panel = blocks.docks.panels["inspector"]
    assert isinstance(panel, InspectorPanel)
    scope, session = panel.scope, blocks.session
    blocks.show_dock("inspector")
    session.select(("1_up",))
    shown = {name: b.text() for name, b in scope.buttons.items() if b.isVisible()}
    assert shown == {"This node": "This node", "twins": "3 twins", "alike": "All 7 linear"}
    scope.buttons["twins"].click()
    assert set(session.selection) == {"0_up", "1_up", "2_up"} and scope.buttons["twins"].isChecked()
    session.set_format(session.selection, "weight", Integer(4, 2))
    assert len(session.recipe.steps) == 1 and scope.isVisible(), "an edit keeps the scope"
    assert {n.id for n in session.open_document.graph if "weight" in n.precision} == {"0_up", "1_up", "2_up"}
    scope.buttons["alike"].click()
    assert len(session.selection) == 7
    scope.buttons["This node"].click()
    assert session.selection == ("1_up",)
    session.select(("4",))
    assert [n for n, b in scope.buttons.items() if b.isVisible()] == ["This node", "alike"], "the head has no twin"
    session.select(("1_up", "4"))
    assert not any(b.isVisible() for b in scope.buttons.values()), "a selection of the user's own has no scope"
    assert scope.saved_button.isVisible()
    session.select(())
    assert not scope.isVisible()


@pytest.mark.slow
def test_selections_are_saved_in_the_project(blocks: Window) -> None:
    """They come back with the file, without nodes that an edit took away; a damaged member is no error."""
    session, saved = blocks.session, blocks.session.saved_selections
    session.select(("0_up", "2_up"))
    saved.save("  the   ups ")
    session.select(("1_act",))
    saved.save("one & only")
    document = session.open_document
    assert selections_of(document.project) == {"the ups": ("0_up", "2_up"), "one & only": ("1_act",)}
    menu = QMenu(blocks)
    fill_selections(menu, saved, blocks, can_save=True)
    assert [a.text() for a in menu.actions() if a.menu() is None and a.text()] == [
        "the ups (2)", "one && only (1)", "Save this selection…"]  # fmt: skip
    menu.actions()[0].trigger()
    assert session.selection == ("0_up", "2_up")
    assert list(document.snapshot().extras) == ["selections.json"], "what the file keeps"
    for _ in range(3):
        fill_selections(menu, saved, blocks, can_save=True)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert len(menu.findChildren(QMenu)) == 1, "submenus of earlier openings are gone"
    saved.remove("the ups")
    assert list(selections_of(document.project)) == ["one & only"]
    for damaged in (b"{", b"[]", b'{"selections": [3, {"name": "", "nodes": []}, {"name": "a", "nodes": "b"}]}'):
        document.keep("selections.json", damaged)
        assert selections_of(document.project) == {}


@pytest.mark.slow
def test_edits_of_a_saved_selection_name_it(blocks: Window) -> None:
    """Where the user chose one, the steps of edits select by its name; any other selection is one of nodes."""
    session, saved = blocks.session, blocks.session.saved_selections
    inspector = blocks.docks.panels["inspector"]
    assert isinstance(inspector, InspectorPanel)
    session.select(("0_up", "0_act", "2_up"))
    saved.save("some & others, of which the name is long")
    saved.save("ups")
    assert inspector.scope.saved_button.text() == "ups ▾"
    session.set_format(("0_up", "2_up"), "weight", Integer(4, 2))
    session.set_format(session.selection, "data_in", Integer(8, 4))
    (step,) = session.recipe.steps
    (rule,) = step.options.rules
    assert rule.select == Select("saved", ("ups",), ("0_up", "0_act", "2_up")), "all that take a format take this"
    assert summary(step).startswith('saved selection "ups" (3 nodes)')
    session.set_format(("0_up",), "weight", Integer(8, 4))
    assert session.recipe.steps[-1].options.rules[-1].select == Select("name", ("0_up",)), "one of them alone"
    session.set_sparsity(("0_up", "2_up"), 0.5)
    assert session.recipe.steps[-1].options.select.values == ("ups",)
    actions.apply(blocks.host, Tag(colour="red"), session.selection)
    assert session.recipe.steps[-1].options.edits[0].select == rule.select
    session.select(("0_up", "2_up"))
    assert inspector.scope.saved_button.text() == "Saved ▾"
    session.set_format(("0_up", "2_up"), "weight", Integer(2, 1))
    assert session.recipe.steps[-1].options.rules[-1].select.by == "name"
    saved.select("some & others, of which the name is long")
    assert inspector.scope.saved_button.text() == "some && others, of whi… ▾"


@pytest.mark.slow
def test_a_step_follows_its_selection_only_when_asked(blocks: Window) -> None:
    session, saved = blocks.session, blocks.session.saved_selections
    panel = blocks.docks.panels["recipe"]
    assert isinstance(panel, RecipePanel)
    session.select(("0_up", "1_up"))
    saved.save("ups")
    session.set_format(session.selection, "weight", Integer(4, 2))
    assert "changed since" not in panel.model.lines[1].result
    session.select(("2_up",))
    saved.save("ups")
    assert panel.model.lines[1].result.endswith("ups changed since")
    graph = session.open_document.graph
    assert {n.id for n in graph if n.precision} == {"0_up", "1_up"}, "nothing changed by itself"
    panel.view.setCurrentIndex(panel.model.index(1))
    panel.renew()
    assert {n.id for n in session.open_document.graph if n.precision} == {"2_up"}
    assert "changed since" not in panel.model.lines[1].result
    saved.remove("ups")
    assert {n.id for n in session.open_document.graph if n.precision} == {"2_up"}
    session.undo()
    assert {n.id for n in session.open_document.graph if n.precision} == {"0_up", "1_up"}


@pytest.mark.slow
def test_a_pasted_recipe_takes_the_members_of_the_project(blocks: Window) -> None:
    session, problems = blocks.session, list[EspalierError]()
    session.problem.connect(problems.append)
    panel = blocks.docks.panels["recipe"]
    assert isinstance(panel, RecipePanel)
    text = '{"quantize": {"rules": [{"select": {"by": "saved", "values": ["ups"]}, "formats": {"weight": "int8"}}]}}'
    QGuiApplication.clipboard().setText(text)
    panel.paste()
    assert not session.recipe.steps and 'no saved selection "ups"' in problems[0].message
    session.select(("0_up", "1_up"))
    session.saved_selections.save("ups")
    panel.paste()
    assert session.recipe.steps[0].options.rules[0].select.nodes == ("0_up", "1_up")
    assert {n.id for n in session.open_document.graph if n.precision} == {"0_up", "1_up"}


@pytest.mark.slow
def test_twins_are_selected_by_the_menu(blocks: Window) -> None:
    blocks.session.select(("0_up", "2_act"))
    blocks.actions_table.run("select_twins")
    assert set(blocks.session.selection) == {f"{i}_{n}" for i in range(3) for n in ("up", "act")}
