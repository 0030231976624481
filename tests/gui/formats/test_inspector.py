"""The inspector: what it says of a selection, and how it stands."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFont
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.figures.facts import NO_SELECTION, node_facts, weight_of
from espalier.app.session.session import Session
from espalier.model.formats.integer import Integer
from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta, Weight
from tests.gui.bert import ATTENTION, KEY, NORM
from tests.gui.formats.inspecting import choose, facts

pytestmark = pytest.mark.gui


@pytest.mark.slow
def test_without_selection_it_tells_of_the_model(panel: InspectorPanel) -> None:
    assert panel.hint.text() == NO_SELECTION and panel.hint.isVisible()
    assert facts(panel)["inputs"] == "input_ids, attention_mask"
    assert not panel.precision.isVisible() and not panel.pruning.isVisible()


def test_without_a_model_it_says_so(qtbot: QtBot, session: Session) -> None:
    made = InspectorPanel(session)
    assert made.title.text() == "No model" and not made.pruning.isVisibleTo(made)
    made.close()
    made.deleteLater()


def test_facts_of_a_linear(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    assert panel.title.text() == "key"
    assert panel.path.text() == "encoder.layer.0.attention.self.key"
    known = facts(panel)
    assert known["Linear"] == "32 → 32, bias"
    assert known["input"] == "batch × seq × 32"
    assert known["parameters"] == "1\u2009056"
    assert known["MACs"] == "32\u2009768"
    assert known["source"].startswith("modeling_bert.py:")


@pytest.mark.parametrize(("kind", "shape"), [("Conv1D", (32, 96)), ("Linear", (96, 32))])
def test_a_layer_leads_from_its_inputs_to_its_outputs_however_stored(kind: str, shape: tuple[int, ...]) -> None:
    node = Node("c_attn", "linear", "call_module", "h.0.c_attn", ports={"weight": TensorMeta(shape, "float32")},
                attrs={"class": kind})  # fmt: skip
    assert node_facts(node, Graph({node.id: node})).pop(0)[:2] == (kind, "32 → 96")


def test_what_cannot_be_quantised_is_said_in_words(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.select((next(n.id for n in session.document.graph if n.op == "dropout"),))
    assert "no port with a format" in panel.precision.none.text()
    assert not panel.precision.table.isVisible() and not panel.weight.isVisible()


def test_a_format_for_an_attention_writes_it_out(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.select((ATTENTION,))
    assert "decomposes the attention into matmuls" in panel.precision.none.text()
    rows = panel.precision.rows
    assert [p for p in rows if rows[p].editor.isVisible()] == ["data_in", "weight", "data_out"]
    session.set_format((ATTENTION,), "weight", Integer(8, 4))
    graph = session.document.graph
    assert ATTENTION not in graph.nodes
    assert sum(n.op == "matmul" and "weight" in n.precision for n in graph) == 2
    assert set(session.selection) <= set(graph.nodes)


def test_the_chosen_port_comes_back_after_nodes_without_it(panel: InspectorPanel, session: Session) -> None:
    """A node without weight shows its input; the next layer shows its weight again."""
    assert session.document is not None
    plain = next(n.id for n in session.document.graph if n.op == "add" and "data_in" in n.ports and not n.weights)
    for port, shown in (("weight", "data_in"), ("data_out", "data_out"), ("bias", "data_in")):
        session.select((KEY,))
        panel.precision.set_port(port)
        session.select((plain,))
        assert panel.precision.port == shown
        session.select((KEY,))
        assert panel.precision.port == port and panel.weight.port == port


@pytest.mark.parametrize("pixels", [13, 16, 20])
def test_nothing_is_cut_at_its_least_width(panel: InspectorPanel, session: Session, qtbot: QtBot, pixels: int) -> None:
    font = QFont(panel.font())
    font.setPixelSize(pixels)
    panel.setFont(font)
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 4))
    panel.resize(panel.minimumWidth(), 300)  # low enough for a scroll bar
    qtbot.waitUntil(panel.weight.offer.isVisible, timeout=5000)
    panel.precision.set_port("data_out")
    assert panel.widget().width() == panel.viewport().width()
    name = panel.precision.rows["data_out"].name
    assert name.fontMetrics().horizontalAdvance(name.text()) <= name.width()
    shown = panel.precision.rows["weight"].sqnr
    qtbot.waitUntil(lambda: shown.text().endswith("dB"), timeout=5000)
    assert shown.fontMetrics().horizontalAdvance(shown.text()) <= shown.width()


def test_tab_goes_through_the_rows_as_they_stand(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    editor = panel.precision.rows["weight"].editor
    wanted = [editor.choice, *editor.widgets.values(), panel.precision.rows["bias"].editor.choice]
    found: list[object] = [wanted[0]]
    place = wanted[0].nextInFocusChain()
    while place is not wanted[-1] and place is not wanted[0]:
        if place in wanted:
            found.append(place)
        place = place.nextInFocusChain()
    assert [*found, wanted[-1]] == wanted and place is wanted[-1]


def test_every_term_has_a_tool_tip(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    rows = panel.facts._rows[: len(panel.facts.facts)]
    assert [n.text() for n, _ in rows[1:] if not n.toolTip()] == []  # the first is the class of the module
    assert all(label.toolTip() for label in panel.precision._heads)
    assert all(row.name.toolTip() for row in panel.precision.rows.values())


def test_problems_of_the_node_are_shown(panel: InspectorPanel, session: Session) -> None:
    session.problems = (Problem(KEY, "It is odd.", "warning"), Problem(NORM, "Not here."))
    session.select((KEY,))
    assert panel.problems.text() == "Note: It is odd."


def test_closing_the_document_empties_it(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    session.close()
    assert panel.title.text() == "No model" and not panel.weight.isVisible()


def test_the_weight_of_a_function_is_found_behind_its_transpose() -> None:
    meta = TensorMeta((4, 4), "float32")
    nodes = [
        Node("w", "get_attr", "get_attr", "w"),
        Node("t", "t", "call_function", "aten.t.default", (Ref("w"),)),
        Node("mm", "matmul", "call_function", "aten.mm.default", (Ref("x"), Ref("t")),
             ports={"data_in": meta, "weight": meta}),
    ]  # fmt: skip
    held = Weight("k", (4, 4), "float32")
    graph = Graph({n.id: n for n in nodes}, {"w": held})
    assert weight_of(nodes[2], "weight", graph) is held and weight_of(nodes[2], "data_in", graph) is None
