"""The inspector: what it says of a selection, that edits go through the session, that changes come back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QCloseEvent, QFont, QKeySequence, QShortcut, QShortcutEvent
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.figures.weights import Loss
from app.forms.fields import MIXED, NumberField
from app.forms.format_choice import grouped
from app.forms.format_editor import FLOAT
from app.panels.inspector.facts import NO_SELECTION, weight_of
from app.panels.inspector.panel import InspectorPanel
from app.panels.inspector.weight import error_words
from app.session import Session
from app.words import figure
from model.check import Problem
from model.formats.base import parse_format
from model.formats.integer import Integer
from model.graph import Graph, Node, Ref
from model.meta import TensorMeta, Weight
from model.registry import FORMATS
from passes.analysis.activations import ActivationSample
from passes.analysis.evaluate import EvaluateOptions
from passes.base import Report
from passes.jobs import AnalyseJob, Done, Found, ReplayJob
from passes.transform.prune import METHODS
from tests.gui.bert import ATTENTION, GELU, KEY, NORM, QUERY, answer_prune, open_bert
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
    QTest.keyClick(field, Qt.Key.Key_Return)


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
    assert row.editor.choice.get() == FLOAT and row.sqnr.text() == "exact" and "fp32" in row.sqnr.toolTip()
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


def test_of_a_number_that_is_still_typed_nothing_is_applied(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    editor = panel.precision.rows["weight"].editor
    field = editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "9")
    assert fmt_of(session, KEY, "weight") == Integer()
    QTest.keyClicks(field, "9")
    assert "1 to 32" in editor.wrong.text() and not panel.precision.typed._pause.isActive()
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert fmt_of(session, KEY, "weight") == Integer()  # neither 99 nor the 9 on the way to it
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "12")
    panel.precision.typed.forget()  # as Escape does
    panel.refresh()
    assert field.text() == "8"  # type: ignore[union-attr]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "16")
    qtbot.waitUntil(lambda: fmt_of(session, KEY, "weight") == Integer(16))  # it is meant once no key follows


def test_an_edit_that_waits_is_of_the_nodes_it_was_typed_for(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "6")
    session.select((QUERY,))
    qtbot.waitUntil(lambda: fmt_of(session, KEY, "weight") == Integer(6))
    assert fmt_of(session, QUERY, "weight") is None


@pytest.mark.parametrize("ends", ["saving", "shortcut", "close"])
def test_what_is_typed_is_part_of_whatever_comes_next(panel: InspectorPanel, session: Session, ends: str) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "6")
    assert fmt_of(session, KEY, "weight") == Integer()
    if ends == "saving":
        session.saving.emit()
    else:
        event = QShortcutEvent(QKeySequence("Ctrl+E"), 0) if ends == "shortcut" else QCloseEvent()
        QCoreApplication.sendEvent(QObject(), event)
    assert fmt_of(session, KEY, "weight") == Integer(6)


def test_escape_does_not_make_an_edit_of_what_is_typed(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "6")
    QCoreApplication.sendEvent(QObject(), QShortcutEvent(QKeySequence(Qt.Key.Key_Escape), 0))
    assert fmt_of(session, KEY, "weight") == Integer()
    panel.precision.typed.forget()


def test_a_range_of_widths_is_seen_whole(panel: InspectorPanel, session: Session) -> None:
    for node, width in ((KEY, 10), (QUERY, 16)):
        session.set_format((node,), "weight", Integer(width, 4))
    session.select((KEY, QUERY))
    field = panel.precision.rows["weight"].editor.widgets["width"]
    assert isinstance(field, NumberField) and field.placeholderText() == "10–16"
    field.ensurePolished()
    assert field.fontMetrics().horizontalAdvance("10–16") <= field.width() - 6  # the frame, and Qt's own margins
    field.put(4)
    assert field.fontMetrics().horizontalAdvance("10–16") > field.width() - 6  # a single number has its usual size


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
    qtbot.waitUntil(lambda: panel.weight.plot.histogram is not None, timeout=5000)  # from a task of its own
    assert panel.weight.plot.histogram is not None and panel.weight.plot.histogram.elements == 32 * 32
    assert "saturated" in panel.weight.words.text()


@pytest.mark.parametrize("widths", [(8, 8), (8, 5), (5, 8), (32, 32)])
def test_the_sqnr_of_several_nodes_is_the_lowest(
    panel: InspectorPanel, session: Session, qtbot: QtBot, widths: tuple[int, int]
) -> None:
    formats = dict(zip((KEY, QUERY), (Integer(w, 10 if w < 32 else 31) for w in widths), strict=True))
    for node, fmt in formats.items():
        session.set_format((node,), "weight", fmt)
    document = session.open_document
    found: dict[str, float] = {}
    for node, fmt in formats.items():
        weight = weight_of(document.graph[node], "weight", document.graph)
        assert weight and weight.key
        x = document.store.get(weight.key).float32().astype(float)
        low, high = fmt.limits
        error = x - np.clip(np.rint(x * 2.0**fmt.frac_width), low, high) * 2.0**-fmt.frac_width
        found[node] = 10 * np.log10((x**2).sum() / (error**2).sum())
    worst = min(found, key=found.__getitem__)
    session.select((KEY, QUERY))
    row = panel.precision.rows["weight"]
    qtbot.waitUntil(lambda: bool(row.sqnr.text()), timeout=60_000)
    assert row.sqnr.text() == f"≥{found[worst]:.1f} dB" and worst in row.sqnr.toolTip()
    qtbot.waitUntil(lambda: panel.weight.plot.loss is not None, timeout=60_000)  # that of one node
    assert row.sqnr.text() == f"≥{found[worst]:.1f} dB"
    session.select((KEY,))
    qtbot.waitUntil(lambda: row.sqnr.text() == f"{found[KEY]:.1f} dB", timeout=60_000)


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
    assert editor.widgets["width"].placeholderText() == "6–8"  # type: ignore[union-attr]
    assert editor.wrong.isHidden()
    write(panel, "weight", "frac_width", "5")
    assert fmt_of(session, KEY, "weight") == Integer(8, 5)
    assert fmt_of(session, QUERY, "weight") == Integer(6, 5)


def test_statistics_are_computed_once_they_are_looked_at(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    fold = panel.weight.statistics
    session.select((KEY,))
    qtbot.waitUntil(lambda: panel.weight.plot.histogram is not None, timeout=60_000)
    assert fold.isVisible() and not fold.rows.facts, "nobody looked"
    fold.unfold()
    qtbot.waitUntil(lambda: len(fold.rows.facts) == 7, timeout=60_000)
    assert session.document is not None
    graph = session.document.graph
    stored = weight_of(graph[KEY], "weight", graph)
    assert stored is not None and stored.key is not None
    x = session.document.store.get(stored.key).float32()
    told = {f.name: f.value for f in fold.rows.facts}
    assert told["min … max"] == f"{figure(x.min())} … {figure(x.max())}"
    assert told["mean ± σ"] == f"{figure(x.mean(dtype=float))} ± {figure(x.std(dtype=float))}"
    session.select((GELU,))
    panel.precision.take("data_in")
    assert not fold.isVisible(), "no values are known"


def test_one_format_for_many(panel: InspectorPanel, session: Session) -> None:
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.select((KEY, QUERY, NORM, GELU))
    rows = panel.precision.rows
    assert rows["weight"].editor.choice.currentIndex() == -1
    assert rows["weight"].sqnr.text() == "3 of 4" and rows["data_in"].sqnr.text() == "exact"
    assert "3 of the 4 selected nodes have weight" in rows["weight"].sqnr.toolTip()
    choose(panel, "weight", "integer")
    assert fmt_of(session, QUERY, "weight") == fmt_of(session, KEY, "weight") == fmt_of(session, NORM, "weight") != None  # noqa: E711
    assert fmt_of(session, GELU, "weight") is None
    session.select((KEY,))
    assert not rows["weight"].sqnr.toolTip().endswith("have weight")


def test_an_empty_bias_is_the_standard_one(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "minifloat_ieee")
    field = panel.precision.rows["weight"].editor.widgets["exponent_bias"]
    assert isinstance(field, NumberField) and field.placeholderText() == "standard" and not field.text()
    write(panel, "weight", "exponent_bias", "9")
    assert fmt_of(session, KEY, "weight") == parse_format("minifloat_ieee(exponent_bias=9)")
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert fmt_of(session, KEY, "weight") == parse_format("minifloat_ieee")


@pytest.mark.parametrize(
    ("wish", "found"),
    [("LinearBlockFP", ["block_fp"]), ("linearblockfp", ["block_fp"]), ("xnor", ["binary_scaled"]),
     ("block log", ["block_log"]), ("fixed point", ["integer", "scaled_integer"]), ("nothing like it", [])],
)  # fmt: skip
def test_formats_are_found_by_alias(panel: InspectorPanel, session: Session, wish: str, found: list[str]) -> None:
    session.select((KEY,))
    shown = panel.precision.rows["weight"].editor.choice.open_list(wish)
    assert shown.offered() == found
    shown.close()


def test_typing_on_the_field_searches_and_enter_takes(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choice = panel.precision.rows["weight"].editor.choice
    QTest.keyClick(choice, Qt.Key.Key_M)
    shown = choice._list
    assert shown is not None and shown.search.text().casefold() == "m" and "mxint" in shown.offered()
    QTest.keyClicks(shown.search, "xint")
    QTest.keyClick(shown.search, Qt.Key.Key_Return)
    assert fmt_of(session, KEY, "weight") == parse_format("mxint")


def test_the_list_stays_on_the_screen_and_one_escape_closes_it(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choice, room = panel.precision.rows["weight"].editor.choice, panel.screen().availableGeometry()
    panel.window().move(room.right() - 150, room.bottom() - 60)
    taken: list[bool] = []
    key = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel, lambda: taken.append(True))
    key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    shown = choice.open_list()
    assert room.contains(shown.geometry())
    QTest.keyClick(shown.search, Qt.Key.Key_Escape)
    assert not shown.isVisible() and not taken


def test_the_list_has_groups_in_the_order_of_reading() -> None:
    names = ("float", *FORMATS)
    groups = dict(grouped(names))
    assert groups[""] == ("float",) and groups["block"][0] == "mxint" and "ternary" in groups["binary"]
    assert sorted(n for members in groups.values() for n in members) == sorted(names), "each once"


def test_activations_are_measured_when_asked(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.precision.take("data_in")
    section = panel.weight
    assert "not measured yet" in section.words.text() and not section.measure.isVisible(), "no data is known"
    evaluated = EvaluateOptions(data="some.csv", text="words")
    session.evaluate(evaluated)
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.5, "loss": 1.0}))
    panel.precision.take("weight")
    panel.precision.take("data_in")
    assert section.measure.isVisible()
    section.measure.click()
    (info,) = runner[-1].waiting
    assert isinstance(info.job, AnalyseJob) and info.job.step.pass_name == "activations"
    assert (info.job.step.options.data, info.job.step.options.text) == ("some.csv", "words")
    assert "being measured" in section.words.text()
    rows = np.random.default_rng(1).normal(0, 0.5, (64, 32)).astype(np.float32)
    runner[-1].tell(info, Found(ActivationSample(KEY, "data_in", rows, 9999, -2.5, 2.5)))
    runner[-1].tell(info, Done(Report("activations")))
    qtbot.waitUntil(lambda: section.plot.histogram is not None and section.plot.isVisible(), timeout=5000)
    assert "2\u2009048 of 9\u2009999 values" in section.words.text() and section.plot.histogram.elements == 2048
    session.set_format((KEY,), "data_in", Integer(8, 3))
    assert "before the last edits" in section.words.text()
    shown = panel.precision.rows["data_in"].sqnr
    qtbot.waitUntil(lambda: shown.text().endswith("dB"), timeout=5000)
    qtbot.waitUntil(section.offer.isVisible, timeout=5000)
    section.offer.click()
    assert isinstance(held := fmt_of(session, KEY, "data_in"), Integer) and held.frac_width in (5, 6)
    session.undo()
    session.undo()
    assert "before" not in section.words.text(), "undo finds the sample of that state again"


def test_block_formats_show_the_middle_block(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    session.set_format((KEY,), "weight", parse_format("mxint(width=4, block=16)"))
    qtbot.waitUntil(lambda: "median block of 16" in panel.weight.words.text(), timeout=5000)
    qtbot.waitUntil(lambda: len(panel.weight.plot.lines()[0]) in range(8, 16), timeout=5000)
    panel.weight.scale.click()
    assert panel.weight.plot.log and panel.weight.scale.text() == "Linear counts"
    qtbot.waitUntil(lambda: panel.format.found is not None, timeout=5000)
    assert panel.format.stored.text() == "4.5 bits an element: 4 of its own, 8 of the scale shared by 16"
    session.set_format((KEY,), "weight", parse_format("scaled_integer(granularity=tensor)"))
    assert panel.weight.fix.isVisible()
    panel.weight.fix.click()
    assert session.recipe.steps[-1].pass_name == "calibrate" and session.recipe.steps[-1].options.ports == ("weight",)


def test_what_cannot_be_quantised_is_said_in_words(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.select((next(n.id for n in session.document.graph if n.op == "dropout"),))
    assert "no port that takes a format" in panel.precision.none.text()
    assert not panel.precision.table.isVisible() and not panel.weight.isVisible()


def test_a_format_for_an_attention_writes_it_out(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.select((ATTENTION,))
    assert "writes the attention out as matmuls" in panel.precision.none.text()
    rows = panel.precision.rows
    assert [p for p in rows if rows[p].editor.isVisible()] == ["data_in", "weight", "data_out"]
    session.set_format((ATTENTION,), "weight", Integer(8, 4))
    graph = session.document.graph
    assert ATTENTION not in graph.nodes
    assert sum(n.op == "matmul" and "weight" in n.precision for n in graph) == 2
    assert set(session.selection) <= set(graph.nodes)


def test_a_mixed_edit_is_one_step_however_often_it_is_typed(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.set_format((QUERY,), "weight", Integer(6, 4))
    session.select((KEY, QUERY))
    for text in ("5", "3", "2"):
        write(panel, "weight", "frac_width", text)
    assert len(session.document.recipe) == 1 and len(session.document.recipe.steps[0].options.rules) == 2
    assert fmt_of(session, KEY, "weight") == Integer(8, 2) and fmt_of(session, QUERY, "weight") == Integer(6, 2)


def test_mixed_sparsity_takes_no_mean(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(300)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    answer_prune(session, runner)
    session.select((KEY, QUERY))
    assert panel.pruning.share.placeholderText() == MIXED and not panel.pruning.share.text()
    panel.pruning.method.setCurrentIndex(METHODS.index("random"))
    panel.pruning.method.activated.emit(METHODS.index("random"))
    assert "differ in sparsity" in panel.pruning.state.text() and not panel.pruning._timer.isActive()
    QTest.keyClicks(panel.pruning.share, "20")
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    options = runner[-1].waiting[0].job.recipe.steps[-1].options  # type: ignore[union-attr]
    assert options.sparsity == pytest.approx(0.2) and options.method == "random"


def test_a_pruned_weight_tells_both_errors(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(500)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    answer_prune(session, runner)
    qtbot.waitUntil(lambda: "pruning alone" in panel.weight.words.text(), timeout=5000)
    panel.precision.rows["weight"].show_sqnr(Loss(20.0, 15.0), waiting=False)
    assert "against the pruned weight" in panel.precision.rows["weight"].sqnr.toolTip()
    told = error_words(Loss(20.0, 15.0), panel.weight.plot.histogram)
    assert "the format 20.0 dB against the pruned weight" in told and "both 15.0 dB against the original" in told
    assert error_words(Loss(20.0), None) == ""


@pytest.mark.parametrize("pixels", [13, 16, 20])
def test_nothing_is_cut_at_its_least_width(panel: InspectorPanel, session: Session, qtbot: QtBot, pixels: int) -> None:
    font = QFont(panel.font())
    font.setPixelSize(pixels)
    panel.setFont(font)
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 4))
    panel.resize(panel.minimumWidth(), 300)  # low enough for a scroll bar
    qtbot.waitUntil(panel.weight.offer.isVisible, timeout=5000)
    panel.precision.take("data_out")
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
