"""The panel Allocate: sensitivities arrive, a budget is dragged, the graph follows, Apply is one undo step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.features.allocate.summary import FIRST
from espalier.app.features.allocate.table import AllocateTable
from espalier.app.shell.window import Window
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.true_divergence import AllocatedOptions
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.base import Report
from espalier.passes.costs.base import figures
from espalier.passes.figure import EXPANSION, OPENED
from espalier.passes.jobs.kinds import AnalyseJob, Failed, JobInfo, PartialResult, Progress, Started
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import static_score
from espalier.passes.sensitivity.table import Predictions
from tests.gui.bert import open_bert
from tests.gui.conftest import FakeRunner
from tests.passes.allocation.cases import made_table
from tests.patience import PatientBot

pytestmark = pytest.mark.gui
PORTS = ("weight", "data_in")


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> AllocatePanel:
    """The dock of a window with the traced model, in front."""
    open_bert(window.session, runner)
    window.docks.bring("allocate")
    QApplication.processEvents()
    found = window.docks.panels["allocate"]
    assert isinstance(found, AllocatePanel)
    return found


def graph_of(window: Window) -> Graph:
    assert window.session.document is not None
    return window.session.document.graph


def find(
    window: Window, runner: list[FakeRunner], ports: tuple[str, ...] = PORTS, sparsities: tuple[float, ...] = (),
    baseline: str = OPENED,
) -> None:  # fmt: skip
    """Find sensitivities as the worker would."""
    panel = window.docks.panels["allocate"]
    assert isinstance(panel, AllocatePanel)
    panel.allocations.sensitivities.run(SensitivityOptions(data="demo:reviews"))
    info = next(
        j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == "sensitivity"
    )
    assert isinstance(info.job, AnalyseJob)
    for row in made_table(info.job.graph, ports, sparsities=sparsities):
        runner[-1].tell(info, PartialResult(row))
    while info in runner[-1].waiting:
        runner[-1].finish(Report("sensitivity", (), {"baseline": baseline}))


def begin(window: Window, runner: list[FakeRunner]) -> JobInfo:
    """A run whose rows are all predicted, and whose measurements go on."""
    panel = window.docks.panels["allocate"]
    assert isinstance(panel, AllocatePanel)
    panel.allocations.sensitivities.run(SensitivityOptions(data="demo:reviews"))
    info = next(
        j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == "sensitivity"
    )
    runner[-1].tell(info, Started())
    assert isinstance(info.job, AnalyseJob)
    for row in made_table(info.job.graph, PORTS):
        runner[-1].tell(info, PartialResult(row))
    assert panel.pages.currentIndex() == 0, "a part of the rows is no front"
    runner[-1].tell(info, PartialResult(Predictions("gone.npz")))
    return info


@pytest.mark.slow
def test_it_opens_at_the_first_predictions(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window, qtbot: QtBot
) -> None:
    info = begin(window, runner)
    assert panel.allocations.sensitivities.running
    qtbot.waitUntil(lambda: panel.allocations.current is not None)
    assert panel.pages.currentIndex() == 1 and FIRST in panel.choices._none.text()
    runner[-1].tell(info, Progress(3, 24, "measuring query"))
    info.started -= 60.0
    panel.strip.show_job(info)
    assert panel.strip.isVisible() and "Sensitivity: measuring query · 3 of 24 · 1\u2009min" in panel.strip.text
    panel.allocations.aim_at(20.0)
    assert "first predictions" in panel.result.text() and panel.apply.isEnabled()
    wanted = panel.allocations.wanted
    assert isinstance(info.job, AnalyseJob)
    for row in made_table(info.job.graph, PORTS):  # corrected rows come
        runner[-1].tell(info, PartialResult(row))
    while info in runner[-1].waiting:
        runner[-1].finish(Report("sensitivity", (), {"correction": [0.0, 1.0, 0.0]}))
    qtbot.waitUntil(lambda: panel.allocations.current is not None)
    assert panel.allocations.wanted == pytest.approx(wanted), "the budget that is tried stays"
    assert "first predictions" not in panel.result.text() and panel.strip.isHidden()


@pytest.mark.slow
def test_cancelled_measurements_leave_the_first_predictions(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window, qtbot: QtBot
) -> None:
    begin(window, runner)
    known = panel.allocations.sensitivities
    panel.strip.cancel.click()
    assert not known.running and known.table and known.uncorrected and "no measurement" in known.status
    qtbot.waitUntil(lambda: panel.allocations.current is not None)
    assert panel.pages.currentIndex() == 1 and panel.strip.isHidden()


def shown_bits(window: Window) -> dict[str, float]:
    """The bits that the canvas shows by node."""
    scene = window.canvas.scene
    assert scene is not None
    return {name: float(scene.figures.bits[i]) for name, i in scene.layout.tree.index.items() if "query" in name}


def test_nothing_is_there_before_the_sensitivities(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window
) -> None:
    assert panel.pages.currentIndex() == 0 and panel.finder.isVisible()
    heard: list[object] = []
    window.session.problem.connect(heard.append)
    panel.finder.click()
    assert "need data" in str(heard[0]), "this model names no data"
    find(window, runner)
    assert panel.pages.currentIndex() == 1 and len(panel.chart.points) > 10
    assert panel.choices.formats.get() == (
        "float", "int 2", "int 3", "int 4", "int 6", "int 8")  # fmt: skip
    assert "Drag" in panel.result.toolTip() and not panel.apply.isEnabled()


def test_a_drag_recolours_the_graph_and_escape_takes_it_back(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window, qtbot: PatientBot
) -> None:
    find(window, runner)
    before, mode = shown_bits(window), window.canvas.mode
    panel.slider.setValue(200)
    low = shown_bits(window)
    panel.slider.setValue(600)
    high = shown_bits(window)
    assert before != low != high and sum(low.values()) < sum(high.values()) < sum(before.values())
    assert window.canvas.mode == "bits" and window.canvas.graph is graph_of(window), "nothing is edited"
    scene = window.canvas.scene
    assert scene is not None and scene.graph is not graph_of(window)
    rows = panel.table.rows
    allocations = [rows.data(rows.index(i, 1)) for i in range(rows.rowCount())]
    assert all(allocations) and "weights" in [
        rows.headerData(i, Qt.Orientation.Horizontal) for i in range(rows.columnCount())
    ]
    qtbot.focus(panel.slider)
    QTest.keyClick(panel.slider, Qt.Key.Key_Escape)
    assert shown_bits(window) == before and window.canvas.mode == mode and not panel.apply.isEnabled()
    assert not window.session.recipe.steps
    panel.slider.setValue(100)
    qtbot.focus(window.canvas)
    QTest.keyClick(window.canvas, Qt.Key.Key_Escape)
    assert shown_bits(window) == before, "on the graph, too"


def test_the_chart_can_be_dragged(panel: AllocatePanel, runner: list[FakeRunner], window: Window, qtbot: QtBot) -> None:
    window.resize(1500, 1000)
    find(window, runner)
    QApplication.processEvents()
    chart = panel.chart
    at, kl = chart.points[len(chart.points) // 2]
    spot = chart.spot(at, kl)
    assert "estimated" in chart.tooltip_at(spot) and chart.tooltip_at(QPointF(-90, -90)) == ""
    for kind, buttons in ((QEvent.Type.MouseButtonPress, Qt.MouseButton.LeftButton),
                          (QEvent.Type.MouseMove, Qt.MouseButton.LeftButton)):  # fmt: skip
        event = QMouseEvent(kind, spot, chart.mapToGlobal(spot), Qt.MouseButton.LeftButton, buttons,
                            Qt.KeyboardModifier.NoModifier)  # fmt: skip
        QApplication.sendEvent(chart.viewport(), event)
    assert panel.allocations.solution is not None
    assert chart.budget is not None and chart.budget[0] == pytest.approx(at, rel=0.03)


def test_a_number_is_a_budget(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner)
    panel.number.setFocus()
    panel.number.setText("26")
    panel.number.textEdited.emit("26")
    now, found = panel.allocations.current, panel.allocations.solution
    assert now is not None and found is not None and 25 < now.figure(found) <= 26
    panel.number.setText("1")
    panel.number.textEdited.emit("1")
    assert "The least possible is" in panel.wrong.text() and panel.wrong.isVisible()
    QTest.keyClick(panel.number, Qt.Key.Key_Return)  # what Apply would apply is what the field says
    assert panel.allocations.reached is not None
    assert panel.number.get() == pytest.approx(panel.allocations.reached, rel=1e-3) and panel.wrong.isVisible()


def test_apply_is_one_undo_step_and_the_next_takes_its_place(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window
) -> None:
    find(window, runner)
    session = window.session
    panel.slider.setValue(300)
    planned = panel.allocations.current.figure(panel.allocations.solution)  # type: ignore[union-attr, arg-type]
    rows = panel.table.rows
    tried = [rows.data(rows.index(i, j)) for i in range(rows.rowCount()) for j in range(rows.columnCount())]
    panel.apply.click()
    graph = graph_of(window)
    assert figures(graph, static_score(graph))["weight_bits"] == pytest.approx(planned)
    assert [s.pass_name for s in session.recipe.steps] == ["quantize"] and not panel.apply.isEnabled()
    assert window.canvas.scene is not None and window.canvas.scene.graph is graph
    shown = [rows.data(rows.index(i, j)) for i in range(rows.rowCount()) for j in range(rows.columnCount())]
    assert shown == tried, "what was applied, and not an empty table"
    assert 295 <= panel.slider.value() <= 305 and f"{planned:.4g}" in panel.result.toolTip()
    panel.slider.setValue(700)
    panel.apply.click()
    assert [s.pass_name for s in session.recipe.steps] == ["quantize"], "it took the place of the first"
    assert static_score(graph_of(window)).weight_bits > planned
    session.undo()
    assert static_score(graph_of(window)).weight_bits == pytest.approx(planned)
    session.undo()
    assert not session.recipe.steps
    assert panel.slider.value() == 1000 and rows.data(rows.index(0, 1)) == "float"


def test_other_costs_ports_and_formats(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner, sparsities=(0.5,))
    assert panel.choices.sparsities.get() == ("nothing pruned", "50 % l1")
    panel.choices.cost.put("bitops")
    panel.choices.cost.edited.emit()
    assert panel.chart.figure == "bitops" and panel.unit.text() == "M"
    panel.slider.setValue(400)
    assert {p for _, p in panel.allocations.chosen} == set(PORTS)
    panel.choices.ports.buttons["inputs"].click()
    panel.slider.setValue(400)
    assert {p for _, p in panel.allocations.chosen} == {"weight"}
    for name in ("int 2", "int 3", "int 4", "float"):
        panel.choices.formats.buttons[name].click()
    panel.slider.setValue(100)
    bits = {c.format.bits for c in panel.allocations.chosen.values() if c.format}
    assert bits <= {6.0, 8.0} and all(c.format or c.sparsity for c in panel.allocations.chosen.values())
    for name in ("int 6", "int 8"):
        panel.choices.formats.buttons[name].click()
    assert "No candidate" in panel.choices._none.text() and not panel.slider.isEnabled()
    assert panel.choices._none.y() < panel.choices.formats.y(), "what stands in the way is seen without scrolling"


def test_input_bits_colour_the_graph(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner)
    panel.choices.cost.put("activation_bits")
    panel.choices.cost.edited.emit()
    panel.slider.setValue(300)
    overlay = window.canvas.overlay
    assert window.canvas.mode == "overlay" and overlay is not None and overlay.title == "input bits"
    assert set(overlay.values.values()) <= {2.0, 3.0, 4.0, 6.0, 8.0}
    panel.reset.click()
    assert window.canvas.mode == "kind"


def test_it_is_measured_truly(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner)
    panel.slider.setValue(300)
    heard: list[object] = []
    window.session.problem.connect(heard.append)
    panel.measure.click()
    assert "no data" in str(heard[0])
    window.session.measures.use(EvaluateOptions(data="demo:reviews"))
    panel.measure.click()
    info = runner[-1].waiting[-1]
    assert isinstance(info.job, AnalyseJob) and isinstance(info.job.step.options, AllocatedOptions)
    steps = json.loads(info.job.step.options.steps)["steps"]
    assert [s["pass"] for s in steps] == ["quantize"] and panel.measure.text() == "Stop measuring"
    while runner[-1].waiting:
        runner[-1].finish(Report("allocated", (), {"kl": 0.0123, "accuracy": 0.9, "samples": 64}))
    assert "measured 0.0123" in panel.result.toolTip() and "accuracy 90" in panel.result.toolTip()
    assert [m.kind for m in panel.chart.marks] == ["present", "measured"]
    panel.measure.click()
    runner[-1].tell(runner[-1].waiting[-1], Failed("It broke.", "Try again."))
    assert panel.wrong.text() == "It broke. Try again." and panel.measure.text() == "Measure"


def test_an_edit_ends_what_was_tried(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    from espalier.model.formats.integer import Integer

    find(window, runner)
    panel.slider.setValue(300)
    node = next(n.id for n in graph_of(window) if n.op == "linear")
    window.session.set_format([node], "weight", Integer(5, 3))
    assert panel.allocations.solution is None and panel.allocations.current is not None
    present = panel.chart.marks[0]
    assert present.kind == "present" and present.kl is None, "this format is not in the table"
    assert window.canvas.scene is not None and window.canvas.scene.graph is graph_of(window)


def test_the_front_is_saved(panel: AllocatePanel, runner: list[FakeRunner], window: Window, tmp_path: Path) -> None:
    find(window, runner)
    for name in ("front.csv", "front.png", "front.svg"):
        panel.export(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 200
    head, *rows = (tmp_path / "front.csv").read_text().splitlines()
    assert head == "kind,weight_bits,kl" and len(rows) == len(panel.chart.points) + 1


def test_a_table_takes_to_its_layer(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner)
    panel.table.activated.emit(panel.table.rows.index(2, 0))
    assert window.session.selection == (panel.table.rows.nodes[2],)


def test_a_press_into_nothing_does_nothing(panel: AllocatePanel, qtbot: QtBot) -> None:
    QTest.mouseClick(panel.chart.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(20, 20))
    panel.slider.setValue(3)
    panel.allocations.apply()
    assert panel.allocations.solution is None


def test_every_divergence_names_its_baseline(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner, baseline=EXPANSION)
    session = window.session
    session.record_divergence(session.open_document.recipe, session.measured_on, 0.25, session.compared)
    (mark,) = panel.chart.marks
    assert "KL 0.25 from opened, measured" in mark.text and "KL 0.25 from opened, measured" in panel.result.text()
    assert mark.kl is None, "the front is of the present weights, so that it has no place there"
    panel.slider.setValue(200)
    assert f"from {EXPANSION}, estimated" in panel.result.text()


def test_a_preview_lasts_while_the_panel_is_in_front(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window, qtbot: QtBot
) -> None:
    find(window, runner)
    before, mode = shown_bits(window), window.canvas.mode
    panel.slider.setValue(200)
    tried = shown_bits(window)
    window.docks.bring("sqnr")
    qtbot.waitUntil(lambda: shown_bits(window) == before)
    assert window.canvas.mode == mode and panel.allocations.solution is not None
    window.docks.bring("allocate")
    qtbot.waitUntil(lambda: shown_bits(window) == tried)
    assert window.canvas.mode == "bits"


def test_names_are_read_in_a_narrow_table_and_tab_leaves_it(
    panel: AllocatePanel, runner: list[FakeRunner], window: Window, qtbot: PatientBot
) -> None:
    window.resize(1100, 700)
    find(window, runner)
    panel.slider.setValue(200)
    QApplication.processEvents()
    assert panel.table.columnWidth(0) >= 110
    assert panel.result.text() == panel.result.toolTip() and "estimated" in panel.result.text(), "nothing is left out"
    qtbot.focus(panel.table)
    QTest.keyClick(panel.table, Qt.Key.Key_Tab)
    assert not panel.table.hasFocus()


def test_the_legend_follows_the_theme(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    from espalier.app.theme import DARK, LIGHT

    find(window, runner)
    other = LIGHT if panel.chart.look.dark else DARK
    before = panel.legend.text()
    panel.chart.set_theme(other)
    assert panel.legend.text() != before and panel.chart.legend()[0][1] in panel.legend.text()


def test_costs_are_told_with_their_units(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner)
    panel.slider.setValue(300)
    assert "weight bits" in panel.result.text()
    for name, unit in (("bitops", "BitOPs"), ("size_bytes", "iB size")):
        panel.choices.cost.put(name)
        panel.choices.cost.edited.emit()
        panel.slider.setValue(300)
        assert unit in panel.result.text()
    ticks = [v / 1024 for v in panel.chart._values()]
    assert ticks and all(float(f"{t:.2g}") == pytest.approx(t) for t in ticks), "round in KiB"


def test_a_cost_that_is_not_known_is_not_cut(opened: Window) -> None:
    table, place = AllocateTable(), ("fc1", "weight")
    table.rows.begin([place], {"fc1": "fc1"})
    table.rows.show_choices({}, {place: None})
    table.fit()
    assert table.rows.index(0, 2).data() == "unknown"
    assert table.columnWidth(2) >= table.sizeHintForColumn(2)
    table.deleteLater()
