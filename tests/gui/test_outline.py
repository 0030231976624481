"""The outline: the tree, its filter, its chips, and the selection that it shares with the canvas."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QModelIndex, QPoint, Qt
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.view import GraphCanvas
from espalier.app.features.outline.model import CHIPS, OutlineModel
from espalier.app.features.outline.panel import OutlinePanel
from espalier.app.session.session import Session
from espalier.model.formats.integer import Integer
from tests.benchmarks.synthetic import transformer
from tests.gui.bert import KEY, QUERY, open_bert
from tests.gui.conftest import FakeRunner
from tests.patience import budget

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[OutlinePanel]:
    """The outline of a session with the traced model."""
    made = OutlinePanel(session)
    made.resize(262, 700)
    made.show()
    open_bert(session, runner)
    yield made
    made.close()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def names(model: OutlineModel, parent: QModelIndex | None = None) -> list[str]:
    above = parent or QModelIndex()
    return [str(model.index(r, 0, above).data()) for r in range(model.rowCount(above))]


def index_of(panel: OutlinePanel, node: str) -> QModelIndex:
    item = panel.model.item_of(node)
    assert item is not None
    return panel.model.index_of(item)


def test_an_empty_outline_says_so(qtbot: QtBot, session: Session) -> None:
    made = OutlinePanel(session)
    assert made.empty.isVisibleTo(made) and not made.view.isVisibleTo(made)
    made.deleteLater()


def test_the_tree_follows_the_modules(panel: OutlinePanel) -> None:
    assert {"input_ids", "embeddings", "encoder", "pooler"} <= set(names(panel.model))
    index = index_of(panel, KEY)
    path = []
    while index.isValid():
        path.append(str(index.data()))
        index = index.parent()
    assert path[0] == "key" and path[-1] == "encoder" and "layer.0" in path


def test_the_model_is_a_sound_qt_model(panel: OutlinePanel) -> None:
    tester = QAbstractItemModelTester(panel.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    panel.field.setText("dense")
    panel.field.setText("")
    panel.view.expandAll()
    tester.deleteLater()


def test_shape_operations_are_hidden_until_asked_for(panel: OutlinePanel) -> None:
    assert panel.model.item_of("view") is None and panel.shapes.isVisible()
    graph = panel.model.graph
    assert graph and panel.model.hidden == len(build(graph, show_shapes=False).through), "as many as the canvas hides"
    panel.shapes.click()
    assert panel.model.item_of("view") is not None


def test_the_filter_finds_by_name_operation_and_path(panel: OutlinePanel) -> None:
    panel.field.setText("self KEY")
    assert panel.model.item_of(KEY) is not None and panel.model.item_of(QUERY) is None
    panel.field.setText("layernorm")
    assert panel.model.item_of("embeddings_LayerNorm") is not None
    panel.field.setText("transpose")
    assert panel.model.item_of("transpose") is not None, "a filter finds hidden operations too"
    panel.field.setText("enclaykey")
    assert panel.model.item_of(KEY) is not None, "letters in order"


def test_nothing_found_is_said_in_words(panel: OutlinePanel) -> None:
    panel.field.setText("zzzz")
    assert panel.empty.isVisible() and panel.empty.text() == "No node matches “zzzz”."
    QTest.keyClick(panel.field, Qt.Key.Key_Escape)
    assert panel.view.isVisible() and not panel.field.text()


def test_a_click_selects_in_the_session(panel: OutlinePanel, session: Session) -> None:
    panel.view.expandAll()
    at = panel.view.visualRect(index_of(panel, "embeddings_word_embeddings")).center()
    QTest.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert session.selection == ("embeddings_word_embeddings",)


def test_a_group_selects_all_that_is_in_it(panel: OutlinePanel, session: Session) -> None:
    group = index_of(panel, KEY).parent()
    panel.view.setCurrentIndex(group)
    assert {KEY, QUERY} < set(session.selection)
    assert panel.view.selectionModel().selectedIndexes() == [group]


def test_ctrl_adds_and_removes(panel: OutlinePanel, session: Session) -> None:
    session.select((KEY,))
    at = panel.view.visualRect(index_of(panel, QUERY)).center()
    click = (panel.view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier, at)
    QTest.mouseClick(*click)
    assert set(session.selection) == {KEY, QUERY}
    QTest.mouseClick(*click)
    assert session.selection == (KEY,)


def test_a_selection_from_elsewhere_is_shown(panel: OutlinePanel, session: Session) -> None:
    panel.view.collapseAll()
    session.select((KEY,))
    index = index_of(panel, KEY)
    assert panel.view.selectionModel().isSelected(index)
    assert panel.view.viewport().rect().intersects(panel.view.visualRect(index))


def test_a_group_selected_elsewhere_marks_its_row(panel: OutlinePanel, session: Session) -> None:
    group = index_of(panel, KEY).parent()
    session.select(tuple(panel.model.nodes_of(group.internalId())))
    assert panel.view.selectionModel().selectedIndexes() == [group]


def test_double_click_and_enter_reveal(panel: OutlinePanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    with qtbot.waitSignal(panel.reveal) as heard:
        QTest.keyClick(panel.view, Qt.Key.Key_Return)
    assert heard.args == [KEY]
    at = panel.view.visualRect(index_of(panel, KEY)).center()
    with qtbot.waitSignal(panel.reveal):
        QTest.mouseDClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=at)


def test_an_edit_changes_only_its_rows(panel: OutlinePanel, session: Session) -> None:
    changed: list[str] = []
    panel.model.dataChanged.connect(lambda a, b, roles: changed.append(str(a.data())))
    session.set_format((KEY,), "weight", Integer(8, 4))
    assert changed[0] == "key" and "query" not in changed
    assert index_of(panel, KEY).data(CHIPS).label == "int 8/4"
    assert index_of(panel, KEY).parent().data(CHIPS).label == "mixed"
    session.undo()
    assert index_of(panel, KEY).parent().data(CHIPS).label == "fp32"


def test_identical_blocks_are_counted(panel: OutlinePanel) -> None:
    index = index_of(panel, KEY)
    while str(index.data()) != "layer.0":
        index = index.parent()
    assert index.data(CHIPS).twins == 2


def test_open_groups_stay_open_through_a_structural_edit(panel: OutlinePanel, session: Session) -> None:
    session.select((KEY,))
    from espalier.passes.base import NoOptions

    session.run_pass("remove_dropout", NoOptions())
    assert panel.model.item_of("embeddings_dropout") is None
    assert panel.view.selectionModel().isSelected(index_of(panel, KEY))


def test_select_all_of_a_kind(panel: OutlinePanel, session: Session) -> None:
    panel.select_kind(KEY)
    assert session.document is not None
    assert len(session.selection) == sum(1 for n in session.document.graph if n.op == "linear")


def test_the_menu_opens_and_goes(panel: OutlinePanel) -> None:
    panel._menu(QPoint(30, 30))
    (menu,) = panel.findChildren(QMenu)
    assert "Select all of this kind" in [a.text() for a in menu.actions()]
    menu.close()


def test_six_thousand_nodes_fill_at_once() -> None:
    graph, model = transformer(6000), OutlineModel()
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        model.load(graph)
        best = min(best, time.process_time() - start)
    assert best < budget(0.05)
    assert model.filter("query") > 200


@pytest.fixture
def canvas(qtbot: QtBot, panel: OutlinePanel, session: Session) -> Iterator[GraphCanvas]:
    """A canvas of the same session, which the outline follows."""
    made = GraphCanvas()
    qtbot.addWidget(made)
    made.resize(800, 600)
    made.show()
    panel.follow(made)
    assert session.document
    made.set_graph(session.document.graph)
    yield made


def expanded(panel: OutlinePanel) -> set[str]:
    """Paths of the groups that are open in the outline."""
    model = panel.model
    return {model.group_path(i) for i in model.group_items() if panel.view.isExpanded(model.index_of(i))}


def shared_groups(panel: OutlinePanel, canvas: GraphCanvas) -> set[str]:
    """Paths of the groups that both know."""
    assert canvas.scene
    known = {g.path for g in canvas.scene.layout.tree.groups[1:]}
    return known & {panel.model.group_path(i) for i in panel.model.group_items()}


def test_outline_and_canvas_hold_the_same_groups_open(panel: OutlinePanel, canvas: GraphCanvas) -> None:
    """Whoever opens or closes, by whatever means; each change is told once, without an echo."""
    both = shared_groups(panel, canvas)
    assert len(both) >= 6
    told: list[object] = []
    canvas.open_changed.connect(told.append)

    def same(step: int) -> bool:
        return expanded(panel) & both == (canvas.open_groups or frozenset()) & both and len(told) == step

    assert same(0)
    canvas.close_all()
    assert same(1) and not expanded(panel)
    item = next(i for i in panel.model.group_items() if panel.model.group_path(i) == "encoder")
    panel.view.setExpanded(panel.model.index_of(item), True)
    assert same(2) and "encoder" in (canvas.open_groups or ())
    canvas.reveal(KEY)
    assert same(3) and {"encoder", "encoder.layer.0"} <= expanded(panel)
    panel.view.setExpanded(panel.model.index_of(item), False)
    assert same(4) and "encoder" not in (canvas.open_groups or ())
    panel.set_all_open(True)
    assert same(5) and expanded(panel) == {panel.model.group_path(i) for i in panel.model.group_items()}
    panel.set_all_open(False)
    assert same(6) and not canvas.open_groups


def test_what_was_closed_stays_closed_when_the_rows_are_made_again(panel: OutlinePanel, canvas: GraphCanvas) -> None:
    panel.set_all_open(False)
    panel.shapes.click()
    assert panel.shapes.get() and not expanded(panel) and not canvas.open_groups


def test_a_filter_leaves_the_canvas_alone(panel: OutlinePanel, canvas: GraphCanvas) -> None:
    """What opens to show matches is no wish; what the canvas did meanwhile shows when the filter is gone."""
    canvas.close_all()
    panel.field.setText("key")
    assert expanded(panel) and not canvas.open_groups
    canvas.set_open("encoder", True)
    panel.field.clear()
    assert expanded(panel) & shared_groups(panel, canvas) == canvas.open_groups


def test_a_large_selection_marks_rows_at_once(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> None:
    """Every second of many nodes, all groups open: their rows look selected, at a price that does not explode."""
    made = OutlinePanel(session)
    qtbot.addWidget(made)
    made.resize(262, 700)
    made.show()
    open_bert(session, runner)
    graph = transformer(8000)
    made.model.load(graph)
    made.view.expandAll()
    chosen = tuple(graph.nodes)[::2]
    before = made.view.grab().toImage()
    begun = time.process_time()
    made.rows.show(chosen)
    assert time.process_time() - begun < budget(0.5)
    assert made.view.marked == {made.model.item_of(n) for n in chosen} - {None}
    assert made.view.grab().toImage() != before
    made.rows.show(chosen[:1])
    assert not made.view.marked and len(made.view.selectionModel().selectedIndexes()) == 1
