"""The panel Sensitivity: rows stream in and are kept, cells give formats and are measured, the score is estimated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.sensitivity.panel import SensitivityPanel
from espalier.app.measured.estimate import estimate_of
from espalier.app.measured.sensitivities import MEMBER, sensitivities_of
from espalier.app.shell.window import Window
from espalier.model.errors import FileError, OptionsError
from espalier.model.formats.base import Format, parse_format
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.analysis.divergence import DivergenceOptions, Truth
from espalier.passes.analysis.sensitivity import UNFINISHED, SensitivityOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, Done, Failed, OpenResult, PartialResult, Started
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sensitivity.gradient_statistics import GradientStatistics, Vectors, save
from espalier.passes.sensitivity.table import Candidate, Sensitivity
from tests.gui.bert import KEY, QUERY, open_bert, traced
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui

INT8, INT4 = parse_format("integer(width=8, frac_width=7)"), parse_format("integer(width=4, frac_width=3)")
HALF = Candidate(None, 0.5)
CHOICES = (Candidate(INT8), Candidate(INT4), HALF)
ROWS = (
    Sensitivity(QUERY, "weight", 1024, CHOICES, (1e-5, 0.01, 0.2), (1e-4, 1e-2, 0.1), (None, None, None)),
    Sensitivity(KEY, "weight", 1024, CHOICES, (2e-5, 0.03, 0.4), (1e-4, 1e-2, 0.1), (None, 0.05, None)),
    Sensitivity(KEY, "data_in", 1024, CHOICES[:2], (1e-6, 0.002), (1e-5, 1e-3), (None, None)),
)  # fmt: skip


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SensitivityPanel:
    """The dock of a window with the traced model, in front."""
    open_bert(window.session, runner)
    window.live.enabled = False
    window.docks.bring("sensitivity")
    found = window.docks.panels["sensitivity"]
    assert isinstance(found, SensitivityPanel)
    return found


def run(panel: SensitivityPanel, runner: list[FakeRunner]) -> None:
    """Find them as the worker would."""
    panel.start_run(SensitivityOptions(data="some.csv"))
    info = runner[-1].waiting[0]
    assert isinstance(info.job, AnalyseJob) and info.job.step.pass_name == "sensitivity"
    for row in ROWS:
        runner[-1].tell(info, PartialResult(row))
    runner[-1].finish(Report("sensitivity", (), {"error_factor": 1.4}))


@pytest.mark.slow
def test_a_run_makes_room_for_an_edit(panel: SensitivityPanel, runner: list[FakeRunner]) -> None:
    """It goes on behind it with what it has gathered; what it had found stays meanwhile."""
    panel.start_run(SensitivityOptions(data="some.csv"))
    info = runner[-1].waiting[0]
    runner[-1].tell(info, Started())
    runner[-1].tell(info, PartialResult(ROWS[0]))
    panel._session.evaluate(EvaluateOptions(data="some.csv"))
    assert runner[-1].kept == [info.id]
    runner[-1].tell(info, Done(Report("sensitivity", (), {UNFINISHED: True})))
    known = sensitivities_of(panel._session)
    assert info.state == "waiting" and runner[-1].waiting[-1] is info and known.running and known.table == ROWS[:1]
    for row in ROWS:
        runner[-1].tell(info, PartialResult(row))
    runner[-1].tell(info, Done(Report("sensitivity", (), {"error_factor": 1.4})))
    assert not known.running and len(known.table) == len(ROWS) and known.error_factor == 1.4


def held(panel: SensitivityPanel, node: str, port: str = "weight") -> Format | None:
    document = panel._session.document
    assert document is not None
    chosen = document.graph.nodes[node].precision.get(port)
    return chosen.format if chosen else None


def place(panel: SensitivityPanel, node: str, title: str) -> tuple[int, int]:
    """Row and column of a cell of the map."""
    heat = panel.views.heat
    row = next(i for i, line in enumerate(heat.lines) if line.row and line.row.node == node)
    return row, [c.title for c in heat.columns].index(title)


def click(panel: SensitivityPanel, node: str, title: str) -> None:
    table = panel.views.map
    index = table.cells.index(*place(panel, node, title))
    table.scrollTo(index)
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=table.visualRect(index).center())


@pytest.mark.slow
def test_without_data_the_words_ask_for_some(panel: SensitivityPanel, window: Window) -> None:
    assert not panel.start.isVisible() and panel.ask.isVisible() and "needs data" in panel._empty.text()
    with pytest.raises(OptionsError, match="data"):
        panel.start_run(SensitivityOptions())
    window.session.close()
    assert "Open a model" in panel._empty.text() and not panel.ask.isVisible()


def test_rows_come_one_by_one_and_are_kept(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    panel.start_run(SensitivityOptions(data="some.csv"))
    assert "rows appear as they are measured" in panel._empty.text()
    info = runner[-1].waiting[0]
    runner[-1].tell(info, PartialResult(ROWS[0]))
    panel.known.changed.emit()
    assert panel.views.map.cells.rowCount() == 2, "a heading and a row"
    assert "computing" in panel.views.status.toolTip() and panel.views.links["stop"].isVisible()
    for row in ROWS[1:]:
        runner[-1].tell(info, PartialResult(row))
    runner[-1].finish(Report("sensitivity"))
    titles = [c.title for c in panel.views.heat.columns]
    assert titles == ["50% l1", "int 8", "int 4"], "by bits"
    document = window.session.document
    assert document is not None and document.dirty and MEMBER in document.project.extras
    project, store = traced()
    extras = {MEMBER: document.project.extras[MEMBER]}
    window.session.open("again")
    runner[-1].finish(OpenResult(replace(project, extras=extras), store.places(), (), {}))
    again = sensitivities_of(window.session)
    assert again.table == ROWS and not again.stale and again.status == ""


def test_a_failed_run_says_why(panel: SensitivityPanel, runner: list[FakeRunner]) -> None:
    panel.start_run(SensitivityOptions(data="some.csv"))
    runner[-1].tell(runner[-1].waiting[0], Failed("There is no file 'some.csv'.", "Check the path."))
    assert "no file 'some.csv'" in panel._empty.text() and panel.ask.isVisible()


def test_a_click_selects_and_enter_gives_as_one_undo_step(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    run(panel, runner)
    click(panel, KEY, "int 4")
    assert window.session.selection == (KEY,) and held(panel, KEY) is None
    assert "measured 0.05" in panel.views.words.toolTip() and "factor of 1.4" in panel.views.words.toolTip()
    QTest.keyClick(panel.views.map, Qt.Key.Key_Return)
    assert held(panel, KEY) == INT4
    index = panel.views.map.cells.index(*place(panel, KEY, "int 4"))
    assert panel.views.map.cells.marked(index)
    window.session.undo()
    assert held(panel, KEY) is None and not panel.views.map.cells.marked(index)


def test_a_port_is_taken_in_hand(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    run(panel, runner)
    panel.views._ports.put("activations")
    panel.refresh()
    click(panel, KEY, "int 8")
    assert window.docks.panels["inspector"].precision.port == "data_in"  # type: ignore[attr-defined]


def test_the_head_of_a_column_gives_to_the_selected_layers(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    run(panel, runner)
    column = place(panel, KEY, "int 4")[1]
    panel._ask_column(column)
    assert not panel.menu.actions()[0].isEnabled(), "nothing is selected"
    panel.menu.close()
    window.session.select((QUERY,))
    panel._ask_column(column)
    panel.menu.actions()[0].trigger()
    assert held(panel, QUERY) == INT4 and held(panel, KEY) is None
    panel.menu.actions()[1].trigger()
    assert held(panel, KEY) == INT4
    panel.menu.close()


@pytest.mark.slow
def test_cells_are_measured_one_at_a_time(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    run(panel, runner)
    click(panel, QUERY, "int 8")
    panel.measure()
    info = runner[-1].waiting[0]
    assert isinstance(info.job, AnalyseJob)
    options = info.job.step.options
    assert isinstance(options, DivergenceOptions) and options.data == "some.csv"
    (cell,) = options.cells
    assert (cell.node, cell.port, cell.candidate) == (QUERY, "weight", CHOICES[0])
    runner[-1].tell(info, PartialResult(Truth(cell, 3e-5, 0.9)))
    runner[-1].finish(Report("divergence"))
    row = next(r for r in panel.known.table if r.node == QUERY)
    assert row.measured == (3e-5, None, None) and not panel.known.measuring
    panel.views.tabs.setCurrentIndex(1)
    assert len(panel.views.scatter.dots) == 2 and "2 measured cells" in panel.views.words.toolTip()
    panel.measure()
    panel.known.stop()
    assert not panel.known.measuring and panel.known.table


def test_other_weights_make_them_stale(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    run(panel, runner)
    document = window.session.document
    assert document is not None and not panel.known.stale
    graph = document.graph
    name, weight = next((n, w) for n, w in graph.weights.items() if w.key)
    trained = replace(graph, weights={**graph.weights, name: replace(weight, key="other")})
    document.commit("Train", replace(document.present, graph=trained))
    assert panel.known.stale and "run again" in panel.views.status.toolTip()
    document.undo()
    assert not panel.known.stale


def test_the_order_and_the_selection_filter(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    run(panel, runner)
    panel.views._order.put("sensitivity")
    panel.refresh()
    assert [line.row and line.row.node for line in panel.views.heat.lines] == [KEY, QUERY]
    window.session.select((QUERY,))
    panel.views._only.put(True)
    panel.refresh()
    assert [line.row and line.row.node for line in panel.views.heat.lines] == [QUERY]
    window.session.select((KEY,))
    assert [line.row and line.row.node for line in panel.views.heat.lines] == [KEY]


def test_the_graph_takes_the_colours(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    run(panel, runner)
    panel._colour(place(panel, KEY, "int 4")[1])
    assert window.canvas.mode == "sensitivity"
    overlay = window.canvas._measured["sensitivity"]
    assert overlay.values[KEY] == pytest.approx(-1.301, abs=0.001) and overlay.values[QUERY] == pytest.approx(-2)
    legend = window.canvas.scene.colours.legend if window.canvas.scene else None
    assert legend is None or (legend.low, legend.high) == ("0.01", "0.05")


@pytest.mark.parametrize("tab", [0, 1, 2])
def test_what_is_shown_is_saved(panel: SensitivityPanel, runner: list[FakeRunner], tab: int, tmp_path: Path) -> None:
    run(panel, runner)
    panel.views.tabs.setCurrentIndex(tab)
    QApplication.processEvents()
    for ending in ("csv", "png", "svg"):
        panel.export(tmp_path / f"a.{ending}")
    assert (tmp_path / "a.png").stat().st_size > 500 and "<svg" in (tmp_path / "a.svg").read_text()
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert len(lines) == 1 + (6, 1, 2)[tab]
    with pytest.raises(FileError):
        panel.export(tmp_path / "nowhere" / "a.svg")


def test_the_score_is_estimated_at_once_and_then_measured(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    run(panel, runner)
    session, figure, estimate = window.session, window.status.score.figures["kl"], estimate_of(window.session)
    assert figure.isHidden()
    session.set_format((KEY,), "weight", INT4)
    assert (estimate.kl, estimate.how) == (0.05, "estimated") and not figure.isHidden()
    assert figure.text == "0.05 estimated, from opened" and figure._label.text() == "KL estimated, from opened"
    session.set_format((KEY,), "data_in", INT4)
    assert estimate.kl == pytest.approx(0.052)
    assert session.document is not None
    session.record_score(session.recipe, session.measured_on, {"accuracy": 0.9, "loss": 0.3})
    session.record_divergence(session.recipe, session.measured_on, 0.07, session.compared)
    assert figure.text == "0.07 measured, from opened"
    session.undo()
    assert figure.text == "0.05 estimated, from opened"
    session.redo()
    assert figure.text == "0.07 measured, from opened"
    session.undo()
    session.undo()
    assert figure.isHidden()


def test_a_measured_divergence_is_there_after_reopening(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    session, figure = window.session, window.status.score.figures["kl"]
    session.set_format((KEY,), "weight", INT4)
    data = EvaluateOptions(data="some.csv")
    session.record_score(session.recipe, data, {"accuracy": 0.9, "loss": 0.3})
    session.record_divergence(session.recipe, data, 0.07, session.compared)
    project, store = session._snapshot(), traced()[1]
    session.close()
    assert figure.isHidden()
    session.open("again")
    runner[-1].finish(OpenResult(project, store.places(), (), {}))
    assert figure.text == "0.07 measured, from opened"
    session.set_format((KEY,), "weight", INT8)
    assert "measured" not in figure.text
    session.measures.use(EvaluateOptions(data="other.csv"))
    session.undo()
    assert "measured" not in figure.text, "it was of other data"


def test_one_job_measures_score_and_divergence(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    session, figure = window.session, window.status.score.figures["kl"]
    session.set_format((KEY,), "weight", INT4)
    session.evaluate(EvaluateOptions(data="some.csv"))
    first, second = (j.job.step.options for j in runner[-1].waiting)  # type: ignore[union-attr]
    assert type(first) is EvaluateOptions and isinstance(second, ComparedOptions) and second.data == "some.csv"
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.95, "loss": 0.2}))
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.3, "kl": 0.07}))
    assert figure.text == "0.07 measured, from opened"
    window.live.enabled = True
    window.live._compare()
    assert not runner[-1].waiting, "nothing is left to measure"
    window.live.enabled = False


def test_the_last_accuracy_stays_grey_until_the_next_comes(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    session, figure = window.session, window.status.score.figures["accuracy"]
    options = session.measured_on
    session.record_score(session.recipe, options, {"accuracy": 0.9, "loss": 0.3})
    session.set_format((KEY,), "weight", INT4)
    assert figure.text == "90.0\u2009% stale" and figure._value.property("role") == "muted"
    session.record_score(session.recipe, options, {"accuracy": 0.8, "loss": 0.4})
    assert figure.text.startswith("80.0\u2009%") and "stale" not in figure.text
    assert figure._value.property("role") == "score"


def test_the_inspector_tells_what_formats_cost(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window
) -> None:
    line = window.docks.panels["inspector"].precision.cost  # type: ignore[attr-defined]
    window.session.select((KEY,))
    assert line.isHidden(), "nothing is known yet"
    run(panel, runner)
    assert line.text() == "KL under int 8 2.0e−5"
    window.session.set_format((KEY,), "weight", INT4)
    assert line.text() == "KL 0.05 measured · int 8 2.0e−5"
    window.session.set_format((KEY,), "weight", INT8)
    assert line.text() == "KL 2.0e−5 predicted · int 4 0.05"
    window.session.select((KEY, QUERY))
    assert line.isHidden()


def test_what_the_table_lacks_comes_from_the_evidence(
    panel: SensitivityPanel, runner: list[FakeRunner], window: Window, qtbot: QtBot, tmp_path: Path
) -> None:
    """½·E[(g·δ)²] of the weight's own error, computed in a thread without torch."""
    document = window.session.document
    assert document is not None
    name = document.graph.nodes[KEY].weights["weight"]
    x = document.store.get(document.graph.weights[name].key or "").float32()
    g = np.random.default_rng(0).normal(size=(3, x.size)).astype(np.float32)
    path = tmp_path / "evidence.safetensors"
    save(GradientStatistics({f"{KEY}:weight": (Vectors(g),)}, samples=3), path)
    panel.start_run(SensitivityOptions(data="some.csv"))
    info = runner[-1].waiting[0]
    for row in ROWS:
        runner[-1].tell(info, PartialResult(row))
    runner[-1].finish(Report("sensitivity", (), {"evidence": str(path)}))
    other = parse_format("integer(width=5, frac_width=6)")
    estimate = estimate_of(window.session)
    window.session.set_format((KEY,), "weight", other)
    assert estimate.kl is None, "it comes later"
    qtbot.waitUntil(lambda: estimate.how == "estimated")
    error = other.rounded(x) - x
    wanted = 0.5 * float(np.square(g @ error.reshape(-1)).mean())
    assert estimate.kl == pytest.approx(wanted, rel=0.02)


def test_bars_name_their_ports_and_colours(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    run(panel, runner)
    views = panel.views
    views._ports.put("both")
    views._ports.edited.emit()
    views.show_layers(1)
    views.bars.resize(1400, 300)
    names = [name for _, name in views.bars.plot.getAxis("bottom")._tickLevels[0]]
    assert len(names) == len(views.bars.bars) and any(n.endswith("data_in") for n in names)
    window.session.select((KEY,))
    told = views._legend.text()
    assert "selected" in told and "predicted" in told and not views._legend.isHidden()


def test_tab_leaves_the_map(panel: SensitivityPanel, runner: list[FakeRunner]) -> None:
    run(panel, runner)
    assert not panel.views.map.tabKeyNavigation()


def test_legends_follow_the_theme(panel: SensitivityPanel, runner: list[FakeRunner], window: Window) -> None:
    from espalier.app.theme import DARK, LIGHT

    run(panel, runner)
    panel.views.show_layers(0)
    before, bars = panel.views._legend.text(), panel.views.bars
    bars.set_theme(LIGHT if bars.look.dark else DARK)
    assert panel.views._legend.text() not in ("", before)
