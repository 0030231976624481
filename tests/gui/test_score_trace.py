"""The traces beside the figures of the score: the last edits, gaps, and a click that goes to a state."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from espalier.app.features.score.positions import LONGEST, START
from espalier.app.features.score.trace import Trace, Values
from espalier.app.shell.window import Window
from espalier.model.document.arrangement import Arrangement, Pin
from espalier.model.formats.integer import Integer
from espalier.passes.running.splits import EvaluateOptions

pytestmark = pytest.mark.gui


def trace_of(window: Window, key: str) -> Trace:
    trace = window.status.score.figures[key].trace
    assert trace is not None
    return trace


def quantise(window: Window, node: str, bits: int) -> None:
    window.session.set_format([node], "weight", Integer(bits, bits - 1))


def measure(window: Window, accuracy: float) -> None:
    data = EvaluateOptions(data="demo:small")
    window.session.record_score(window.session.open_document.recipe, data, {"accuracy": accuracy, "loss": 1.0}, True)


def hover(trace: Trace, spot: QPoint) -> None:
    """Move the pointer there, which QTest leaves out where the pointer is elsewhere on the screen."""
    none = Qt.MouseButton.NoButton
    at = QPointF(spot)
    event = QMouseEvent(QEvent.Type.MouseMove, at, QPointF(trace.mapToGlobal(spot)), none, none,
                        Qt.KeyboardModifier.NoModifier)  # fmt: skip
    QApplication.sendEvent(trace, event)


def test_a_trace_has_a_value_for_each_state_and_gaps_where_nothing_is_measured(opened: Window) -> None:
    measure(opened, 0.9)
    for at, node in enumerate(("fc1", "fc2", "fc1", "fc2")):
        quantise(opened, node, 8 - at)
        if at != 1:
            measure(opened, 0.8 - at / 10)
    shown = trace_of(opened, "accuracy").shown
    assert shown.values == pytest.approx((0.9, 0.8, None, 0.6, 0.5)) and shown.at == 4 and shown.base == 0.9
    assert trace_of(opened, "accuracy").lines() == [(0, 1), (3, 4)], "nothing is drawn through an unmeasured state"
    bits = trace_of(opened, "weight_bits").shown
    assert len(bits.values) == 5 and None not in bits.values and bits.values[0] == bits.base == 32
    assert list(bits.values) == sorted(bits.values, reverse=True)


def test_a_hover_tells_the_edit_and_a_click_goes_there(opened: Window, qtbot: QtBot) -> None:
    for node, bits in (("fc1", 8), ("fc2", 4)):
        quantise(opened, node, bits)
    trace = trace_of(opened, "weight_bits")
    assert trace.text(0).startswith(START) and "Click to go there" in trace.text(0)
    assert "weight → " in trace.text(2) and "· now" in trace.text(2) and "32.00, opened" in trace.text(2)
    spot = QPoint(round(trace.x_of(1)) + 2, 9)
    hover(trace, spot)
    assert trace.under == 1
    QTest.mouseClick(trace, Qt.MouseButton.LeftButton, pos=spot)
    document = opened.session.open_document
    qtbot.waitUntil(lambda: document.history[1] == 1, timeout=5000)
    assert trace.shown.at == 1 and len(trace.shown.values) == 3, "the undone state stays in the trace"
    assert "undone" in trace.text(2)
    QTest.mouseClick(trace, Qt.MouseButton.LeftButton, pos=spot)
    QApplication.processEvents()
    assert document.history[1] == 1, "a click on the present state changes nothing"


def test_keys_go_through_the_states(opened: Window, qtbot: QtBot) -> None:
    for node, bits in (("fc1", 8), ("fc2", 4)):
        quantise(opened, node, bits)
    trace = trace_of(opened, "size_bytes")
    trace.setFocus()
    for _ in range(3):  # one more than there are states
        QTest.keyClick(trace, Qt.Key.Key_Left)
    assert trace.under == 0 and trace.accessibleDescription().startswith(START)
    QTest.keyClick(trace, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: opened.session.open_document.history[1] == 0, timeout=5000)


def test_a_trace_ends_at_the_last_states_and_leaves_out_pins(opened: Window) -> None:
    for at in range(LONGEST + 3):
        quantise(opened, ("fc1", "fc2")[at % 2], 3 + at % 5)
    document = opened.session.open_document
    edits = document.history[1]
    opened.session.arrange(Arrangement(pins=(Pin("node", "fc1", 0.0, 0.0),)), "Pin")
    assert document.history[1] == edits + 1
    shown = trace_of(opened, "weight_bits").shown
    assert len(shown.values) == LONGEST and shown.at == LONGEST - 1 and shown.counts[-1] == edits
    opened.session.open_document.go_to(0)
    shown = trace_of(opened, "weight_bits").shown
    assert shown.at == 0 and shown.labels[0] == START and len(shown.values) == LONGEST


def test_states_lie_within_the_trace_and_constant_values_in_its_middle(qtbot: QtBot) -> None:
    trace = Trace("size", str)
    qtbot.addWidget(trace)
    for count in (1, 2, 6, LONGEST):
        trace.show_values(Values((5.0,) * count, ("edit",) * count, tuple(range(count)), count - 1, 5.0, "opened"))
        places = [trace.x_of(i) for i in range(count)]
        assert places == sorted(set(places)) and places[0] > 0 and places[-1] < trace.width()
        assert [trace.index_at(x) for x in places] == list(range(count))
        assert 0 < trace.y_of(5.0) < trace.height()
    trace.show_values(Values((None, None), ("a", "b"), (0, 1), 1))
    assert trace.lines() == [] and "not measured" in trace.text(1) and "Thin line" not in trace.text(1)
    trace.grab()


def test_figures_keep_their_places_while_edits_add_states(opened: Window) -> None:
    opened.resize(1280, 800)
    measure(opened, 0.9)
    for node in ("fc1", "fc2"):  # the accuracy is stale now, with a button
        quantise(opened, node, 8)
        QApplication.processEvents()
    score = opened.status.score
    before = {k: f.geometry() for k, f in score.figures.items() if f.isVisible()}
    assert {"accuracy", "size_bytes", "weight_bits"} <= before.keys()
    for bits, node in ((7, "fc1"), (6, "fc2"), (5, "fc1")):
        quantise(opened, node, bits)
        QApplication.processEvents()
    assert len(trace_of(opened, "accuracy").shown.values) == 6
    assert {k: score.figures[k].geometry().x() for k in ("size_bytes", "weight_bits")} == {
        k: before[k].x() for k in ("size_bytes", "weight_bits")
    }


def test_the_button_lists_the_figures_that_fold(opened: Window) -> None:
    quantise(opened, "fc1", 8)
    score = opened.status.score
    score.setFixedWidth(620)
    QApplication.processEvents()
    hidden = [f for k in score._shown if (f := score.figures[k]).isHidden()]
    assert score.more.text() == f"{len(hidden)} more" and not score.figures["weight_bits"].isHidden()
    score.more.click()
    menu = score.findChild(QMenu)
    assert menu is not None
    texts = [a.text() for a in menu.actions()]
    assert texts == [f.listed for f in hidden] and any(t.endswith("from opened") for t in texts)
    menu.close()
