"""The inspector: what it says of a selection, that edits go through the session, that changes come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.fields import MIXED
from app.format_editor import FLOAT
from app.panels.inspector import InspectorPanel
from app.panels.inspector_facts import NO_SELECTION, weight_of
from app.session import Session
from model.check import Problem
from model.formats.integer import Integer
from model.graph import Graph, Node, Ref
from model.meta import TensorMeta, Weight
from passes.jobs import ReplayJob
from tests.gui.bert import ATTENTION, KEY, NORM, QUERY, answer_prune, open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[InspectorPanel]:
    """The inspector of a session with the traced model."""
    open_bert(session, runner)
    made = InspectorPanel(session)
    made.resize(320, 800)
    made.show()
    yield made
    made.close()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def facts(panel: InspectorPanel) -> dict[str, str]:
    return {f.name: f.value for f in panel.facts.facts}


def write(panel: InspectorPanel, port: str, name: str, text: str) -> None:
    field = panel.precision.rows[port].editor.widgets[name]
    field.setFocus()
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, text)


def choose(panel: InspectorPanel, port: str, name: str) -> None:
    choice = panel.precision.rows[port].editor.choice
    choice.setCurrentIndex(choice.values.index(name))
    choice.activated.emit(choice.currentIndex())


def fmt_of(session: Session, node: str, port: str) -> object:
    assert session.document is not None
    held = session.document.graph.nodes[node].precision.get(port)
    return held.format if held else None


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


def test_choosing_a_format_edits_the_document(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    assert fmt_of(session, KEY, "weight") == Integer()
    write(panel, "weight", "frac_width", "7")
    assert fmt_of(session, KEY, "weight") == Integer(8, 7)
    assert "range −1 … 0.992" in panel.precision.formula.text()
    assert [f.bits for f in panel.precision.bits.fields] == [1, 7]


def test_rapid_edits_are_one_undo_step_and_undo_comes_back(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.select((KEY,))
    choose(panel, "weight", "integer")
    for text in ("5", "6", "7"):
        write(panel, "weight", "frac_width", text)
    session.undo()
    row = panel.precision.rows["weight"]
    assert row.editor.choice.get() == FLOAT and row.sqnr.text() == "fp32"
    assert session.document.undo_label is None
    session.redo()
    assert row.editor.value() == Integer(8, 7)


def test_an_impossible_format_is_told_and_edits_nothing(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    write(panel, "weight", "width", "0")
    row = panel.precision.rows["weight"]
    assert "1 to 32" in row.editor.wrong.text() and row.editor.wrong.isVisible()
    assert fmt_of(session, KEY, "weight") == Integer()


def test_arrow_keys_step(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    QTest.keyClick(panel.precision.rows["weight"].editor.widgets["frac_width"], Qt.Key.Key_Up)
    assert fmt_of(session, KEY, "weight") == Integer(8, 5)


def test_sqnr_arrives_from_the_pool(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 10))
    row = panel.precision.rows["weight"]
    qtbot.waitUntil(lambda: row.sqnr.text().endswith("dB"), timeout=5000)
    assert 30 < float(row.sqnr.text().split()[0]) < 45
    assert panel.weight.plot.histogram is not None and panel.weight.plot.histogram.elements == 32 * 32
    assert "saturated" in panel.weight.words.text()


def test_the_best_binary_point_is_one_click_away(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 4))
    qtbot.waitUntil(panel.weight.offer.isVisible, timeout=5000)
    panel.weight.offer.click()
    found = fmt_of(session, KEY, "weight")
    assert isinstance(found, Integer) and found.frac_width >= 9


def test_mixed_values_show_as_mixed_and_keep_what_is_not_edited(panel: InspectorPanel, session: Session) -> None:
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.set_format((QUERY,), "weight", Integer(6, 4))
    session.select((KEY, QUERY))
    assert panel.title.text() == "2 nodes" and panel.path.text() == "encoder.layer.0.attention.self"
    editor = panel.precision.rows["weight"].editor
    assert editor.choice.get() == "integer"
    assert editor.widgets["width"].placeholderText() == MIXED  # type: ignore[union-attr]
    write(panel, "weight", "frac_width", "5")
    assert fmt_of(session, KEY, "weight") == Integer(8, 5)
    assert fmt_of(session, QUERY, "weight") == Integer(6, 5)


def test_one_format_for_many(panel: InspectorPanel, session: Session) -> None:
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.select((KEY, QUERY, NORM))
    assert panel.precision.rows["weight"].editor.choice.currentIndex() == -1
    assert "2 nodes of 3" in panel.precision.none.text()
    choose(panel, "weight", "integer")
    assert fmt_of(session, QUERY, "weight") == fmt_of(session, KEY, "weight") is not None
    assert fmt_of(session, NORM, "weight") is None


def test_what_cannot_be_quantised_is_said_in_words(panel: InspectorPanel, session: Session) -> None:
    session.select((ATTENTION,))
    assert "no port that takes a format" in panel.precision.none.text()
    assert not panel.precision.table.isVisible() and not panel.weight.isVisible()


def test_pruning_runs_as_a_job_and_shows_exact_counts(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(300)
    assert panel.pruning.words.text() == "30\u2009% · 307 of 1\u2009024"
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    assert panel.pruning.state.isVisible()
    answer_prune(session, runner)
    assert session.document is not None
    held = session.document.graph.nodes[KEY].sparsity["weight"]
    assert held.zeros == 307 and not panel.pruning.state.isVisible()
    shown = panel.weight.plot
    qtbot.waitUntil(lambda: shown.histogram is not None and shown.histogram.pruned.sum() == 307, timeout=5000)
    session.undo()
    assert panel.pruning.slider.value() == 0 and panel.pruning.words.text().startswith("0\u2009%")


def test_a_drag_sends_few_requests(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    for value in range(0, 500, 10):
        panel.pruning.slider.setValue(value)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    job = runner[-1].waiting[0].job
    assert len(runner[-1].waiting) == 1 and isinstance(job, ReplayJob)
    assert job.recipe.steps[-1].options.sparsity == pytest.approx(0.49)
    answer_prune(session, runner)


def test_a_dropped_request_goes_back_to_the_document(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(300)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    session.cancel(runner[-1].waiting[0].id)
    assert panel.pruning.slider.value() == 0


def test_problems_of_the_node_are_shown(panel: InspectorPanel, session: Session) -> None:
    session.problems = (Problem(KEY, "It is odd.", "warning"), Problem(NORM, "Not here."))
    session.select((KEY,))
    assert panel.problems.text() == "Note: It is odd."


def test_other_changes_do_not_touch_the_fields(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.setText("1")  # half typed
    session.set_format((QUERY,), "weight", Integer(6, 4))
    assert field.text() == "1"


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
