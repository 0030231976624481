"""The plots of a training: live, kept, exported; the jobs that they are of can be stopped and kept."""

from __future__ import annotations

import csv
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.features.plots.panel import PlotsPanel
from espalier.app.jobs.status import can_keep, status_text
from espalier.app.shell.window import Window
from espalier.app.theme import DARK, LIGHT
from espalier.app.widgets.charts.chart import Chart
from espalier.app.widgets.charts.metrics import MetricChart, precisely, quantities, spacing
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import FileError
from espalier.model.sources.info import SourceInfo
from espalier.passes.figure import wilson
from espalier.passes.jobs.kinds import Done, JobInfo, Metric, Progress, ReplayJob, ReplayResult, Started, Stopped
from espalier.passes.training.curve import SAMPLES
from espalier.passes.transform.finetune import FinetuneOptions
from tests.gui.conftest import FakeRunner, small_graph

pytestmark = pytest.mark.gui
LOSSES = [(step, 1.0 / step) for step in range(1, 201)]


def plots_of(window: Window) -> PlotsPanel:
    panel = window.docks.panels["plots"]
    assert isinstance(panel, PlotsPanel)
    return panel


def begin(window: Window, runner: list[FakeRunner]) -> JobInfo:
    """A training that has told its figures of 200 steps."""
    assert window.session.document is not None
    store = window.session.document.store
    recipe = Recipe().append(Step("finetune", FinetuneOptions()))
    job = ReplayJob(small_graph(), recipe, {}, store.folder, SourceInfo("demo:small", "Small"))
    window.session.submit("Fine-tune", job, lambda _: None)
    info = runner[-1].waiting[-1]
    runner[-1].tell(info, Started())
    for step, value in LOSSES:
        runner[-1].tell(info, Metric("training loss", step, value))
        if step % 50 == 0:
            runner[-1].tell(info, Metric("validation accuracy", step, 0.5 + step / 1000))
            runner[-1].tell(info, Metric("validation loss", step, 2.0 / step))
    return info


def test_a_training_is_drawn_while_it_runs_and_kept_when_it_ended(
    opened: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    info = begin(opened, runner)
    panel = plots_of(opened)
    qtbot.waitUntil(lambda: list(panel.charts) == ["loss", "accuracy"])
    assert not opened.docks.docks["plots"].visibleRegion().isEmpty()
    line = panel.charts["loss"]._lines["training loss"]
    assert line.getData()[0].tolist() == [s for s, _ in LOSSES] and line.getData()[1].tolist() == [v for _, v in LOSSES]
    assert panel._figures.text().replace("\u2009", " ") == "validation accuracy 70.0 % · training loss 0.005"
    runner[-1].tell(info, Metric("training loss", 201, 0.25))
    runner[-1].tell(info, Done(ReplayResult(small_graph(), (None,), {})))
    assert panel.charts["loss"].series["training loss"][-1] == (201, 0.25) and panel.run is info
    assert panel._keep.isHidden()


def test_figures_are_drawn_at_most_twenty_times_a_second(
    opened: Window, runner: list[FakeRunner], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, drawn = plots_of(opened), []
    info = begin(opened, runner)
    plain = panel.refresh
    monkeypatch.setattr(panel, "refresh", lambda: (drawn.append(time.monotonic()), plain()))
    panel._redraw.timeout.disconnect()
    panel._redraw.timeout.connect(lambda: panel.refresh())
    begun = time.monotonic()
    while time.monotonic() < begun + 0.4 or not drawn:
        runner[-1].tell(info, Metric("training loss", 300, 0.1))
        qtbot.wait(1)
    assert len(drawn) <= 20 * (time.monotonic() - begun) + 1


def test_plots_are_exported_in_three_forms(opened: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    begin(opened, runner)
    panel = plots_of(opened)
    panel.refresh()
    for ending in (".png", ".svg", ".csv"):
        panel.export(tmp_path / f"plot{ending}")
    picture = QImage(str(tmp_path / "plot.png"))
    assert picture.width() == 2080 and picture.height() == 600
    seen = {picture.pixelColor(x, y).name() for x in range(0, 1040, 3) for y in range(0, 600, 3)}
    assert "#0072b2" in seen  # the line itself, not only its ground
    assert ET.parse(tmp_path / "plot.svg").getroot().tag.endswith("svg")
    with (tmp_path / "plot.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 200 and rows[49] == {
        "step": "50", "training loss": "0.02", "validation loss": "0.04", "validation accuracy": "0.55"
    }  # fmt: skip


def test_a_plot_that_cannot_be_written_raises(opened: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    begin(opened, runner)
    plots_of(opened).refresh()
    for ending in (".png", ".svg", ".csv"):
        with pytest.raises(FileError, match="No such file"):
            plots_of(opened).export(tmp_path / "missing" / f"plot{ending}")


def test_an_accuracy_has_its_noise(opened: Window, runner: list[FakeRunner]) -> None:
    info, panel = begin(opened, runner), plots_of(opened)
    panel.refresh()
    assert "interval" not in panel.charts["accuracy"].hover_text_at(200), "on how many it is measured is not known yet"
    runner[-1].tell(info, Metric(SAMPLES, 50, 270))
    panel.refresh()
    assert list(panel.charts) == ["loss", "accuracy"], "a count is no chart"
    chart = panel.charts["accuracy"]
    low, high = (end.getData()[1][-1] for end in chart._bands["validation accuracy"])
    assert (low, high) == pytest.approx(wilson(0.7, 270))
    assert chart.hover_text_at(200).replace("\u2009", " ").endswith("n = 270, 95 % interval 64.3–75.2 %")
    assert not panel.charts["loss"]._bands and "interval" not in panel.charts["loss"].hover_text_at(200)


def test_each_quantity_has_its_chart() -> None:
    names = ["learning rate", "validation accuracy", "training loss", "validation loss"]
    assert quantities(names) == ["loss", "accuracy", "learning rate"]


def test_a_training_can_be_stopped_and_kept(opened: Window, runner: list[FakeRunner]) -> None:
    opened.actions_table.run("stop_and_keep")
    assert not runner[-1].kept
    info = begin(opened, runner)
    runner[-1].tell(info, Progress(0, 800, "training"))
    runner[-1].tell(info, Progress(200, 800, "training"))
    panel = opened.docks.panels["jobs"]
    assert isinstance(panel, JobsPanel)
    row = panel._rows[info.id]
    row.refresh(info.started + 100)
    assert not row._keep.isHidden() and not row._stop.isHidden()
    text = status_text(info, info.started + 100).replace("\u2009", " ")
    assert text == "training · 200 of 800 · 5 min left · validation accuracy 70.0 % · training loss 0.005"
    row._keep.click()
    assert runner[-1].kept == [info.id] and not row._keep.isEnabled()
    opened.actions_table.run("stop_and_keep")
    assert runner[-1].kept == [info.id] * 2


def test_only_a_training_that_has_begun_can_be_kept() -> None:
    graph = small_graph()
    quick = ReplayJob(graph, Recipe().append(Step("remove_dropout", None)), {}, Path(), SourceInfo("", ""))
    info = JobInfo(1, "", quick, "running", metrics={"loss": [(1, 1.0)]})
    assert not can_keep(info)
    long = ReplayJob(graph, Recipe().append(Step("finetune", FinetuneOptions())), {}, Path(), SourceInfo("", ""))
    assert not can_keep(JobInfo(1, "", long, "running"))
    assert can_keep(JobInfo(1, "", long, "running", metrics={"loss": [(1, 1.0)]}))
    done = ReplayJob(graph, long.recipe, {}, Path(), SourceInfo("", ""), (1, graph))
    assert not can_keep(JobInfo(1, "", done, "running", metrics={"loss": [(1, 1.0)]}))


def test_a_training_without_a_figure_says_what_it_does(opened: Window, runner: list[FakeRunner]) -> None:
    assert opened.session.document is not None
    recipe = Recipe().append(Step("finetune", FinetuneOptions()))
    job = ReplayJob(small_graph(), recipe, {}, opened.session.document.store.folder, SourceInfo("demo:small", "Small"))
    opened.session.submit("Fine-tune", job, lambda _: None)
    info = runner[-1].waiting[-1]
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Progress(3, 10, "validating"))
    panel = plots_of(opened)
    assert panel._empty.text().startswith("Fine-tune is running: validating.")
    runner[-1].tell(info, Stopped())
    assert panel._empty.text().startswith("No plot yet")


def test_one_point_gets_axes_from_zero_in_whole_steps(opened: Window) -> None:
    for what, value in (("loss", 0.3), ("learning rate", 0.0), ("accuracy", 0.9)):
        chart = MetricChart(what)
        chart.show_series({what: [(1, value)]})
        (left, right), (low, high) = chart.plot.getViewBox().viewRange()
        assert -0.1 < left < 0 and right > 1 and low >= 0  # room for a marker at step 0
        assert chart.plot.getAxis("bottom").tickSpacing(left, right, 300) == [(1.0, 0)]
        assert low >= 0 and (high <= 1.005 or what != "accuracy")
        assert chart.plot.getAxis("bottom").tickStrings([-1, 0, 0.5, 1], 1.0, 0.5) == ["", "0", "", "1"]
        chart.close()


def test_charts_of_a_run_end_at_the_same_step(opened: Window, runner: list[FakeRunner]) -> None:
    begin(opened, runner)
    panel = plots_of(opened)
    panel.refresh()
    ends = {tuple(c.plot.getViewBox().viewRange()[0]) for c in panel.charts.values()}
    assert len(panel.charts) == 2 and len(ends) == 1 and ends.pop()[1] > 200


@pytest.mark.parametrize("span", [1e-7, 0.03, 0.99, 1.0, 7.5, 1040, 5e6])
@pytest.mark.parametrize("room", [0.2, 2, 9])
def test_an_axis_has_two_labels_at_least(span: float, room: float) -> None:
    step = spacing(span, room)
    assert 2 <= span / step <= max(room, 5)


def test_a_narrow_chart_shortens_its_title(opened: Window, runner: list[FakeRunner]) -> None:
    chart = MetricChart("loss")
    chart.resize(700, 150)
    chart.show_series({"training loss": [(0, 1.0)], "validation loss": [(0, 2.0)]})
    assert "optimiser step" in chart.plot.titleLabel.text and "validation" in chart.plot.titleLabel.text
    chart.resize(190, 150)
    chart._set_title()
    assert "optimiser step" not in chart.plot.titleLabel.text and "Loss" in chart.plot.titleLabel.text
    assert chart.plot.titleLabel.item.boundingRect().width() <= 190
    chart.close()


def test_a_training_that_a_move_causes_is_called_by_its_name(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.set_recipe(Recipe().append(Step("finetune", FinetuneOptions())), "Move Prune")
    assert runner[-1].waiting[-1].title == "Fine-tune"


def test_labels_of_values_that_are_close_differ() -> None:
    values = [1e-4 - i * 5e-8 for i in range(4)]
    words = [precisely(v, 5e-8) for v in values]
    assert words == ["0.0001", "9.995e−5", "9.99e−5", "9.985e−5"] and precisely(0.0, 0.1) == "0"


def test_the_name_of_an_axis_follows_its_words_and_the_theme(qtbot: QtBot) -> None:
    chart = Chart()
    qtbot.addWidget(chart)
    label = chart.plot.getAxis("left").label
    for name in ("loss", "KL (nats)", "KL (nats)"):
        chart.name_axes("step", name)
        assert label.toPlainText().strip() == name
    for look in (DARK, LIGHT):
        chart.set_theme(look)
        assert look.muted.lower() in label.toHtml()


@pytest.mark.usefixtures("qapp")
def test_the_name_of_the_upright_axis_keeps_off_the_border() -> None:
    chart = Chart()
    chart.resize(400, 200)
    chart.name_axes("weight bits", "KL (nats)")
    chart.grab()
    left = chart.plot.getAxis("left")
    at = left.label.sceneBoundingRect()
    assert at.left() >= 0 and at.right() < left.mapToScene(left.boundingRect().topRight()).x()
    assert (chart.plot.getAxis("bottom").labelText, left.labelText) == ("weight bits", "KL (nats)")
    chart.close()


def test_runs_are_overlaid_and_smoothed(opened: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    panel = plots_of(opened)
    runs = [begin(opened, runner) for _ in range(6)]
    panel.refresh()
    actions = panel.others.actions()
    assert [a.data() for a in actions] == [r.id for r in runs[-2::-1]] and not panel.compare.isHidden()
    for action in actions[:4]:
        action.trigger()
    assert not actions[4].isEnabled() and len(panel.compared) == 4
    loss = panel.charts["loss"]
    assert {run for run, _ in loss._faint} == {"Fine-tune 2", "Fine-tune 3", "Fine-tune 4", "Fine-tune 5"}
    styles = {run: line.opts["pen"].style() for (run, name), line in loss._faint.items() if name == "training loss"}
    assert len(set(styles.values())) == 4
    for action in actions[1:4]:
        action.trigger()
    assert actions[4].isEnabled() and panel.compared == [runs[4].id]
    panel.smoothing.slider.setValue(90)
    values = np.array([v for _, v in LOSSES])
    wanted = [np.average(values[: t + 1], weights=0.9 ** np.arange(t, -1, -1.0)) for t in range(len(values))]
    np.testing.assert_allclose(loss._lines["training loss"].getData()[1], wanted)
    np.testing.assert_allclose(loss._raw["training loss"].getData()[1], values)
    np.testing.assert_allclose(loss._faint["Fine-tune 5", "training loss"].getData()[1], wanted)
    assert "smoothed" in loss.hover_text_at(200) and "Fine-tune 5: 0.005" in loss.hover_text_at(200)
    assert panel._dashes.text() == "dashed: Fine-tune 5"
    panel.export(tmp_path / "plot.csv")
    with (tmp_path / "plot.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert float(rows[-1]["training loss (smoothed 0.90)"]) == pytest.approx(wanted[-1])
    assert rows[-1]["Fine-tune 5: training loss"] == "0.005" and rows[-1]["training loss"] == "0.005"
    panel.smoothing.slider.setValue(0)
    assert not loss._raw and loss._lines["training loss"].getData()[1].tolist() == values.tolist()


def test_a_run_is_not_compared_with_itself(opened: Window, runner: list[FakeRunner]) -> None:
    panel = plots_of(opened)
    first, second = begin(opened, runner), begin(opened, runner)
    panel.others.actions()[0].trigger()
    assert panel.compared == [first.id]
    panel._choice.put(first.id)
    panel._choice.edited.emit()
    assert panel.compared == [] and [a.data() for a in panel.others.actions()] == [second.id]


def test_a_schedule_is_not_smoothed() -> None:
    chart = MetricChart("learning rate")
    chart.show_series({"learning rate": [(1, 1.0), (2, 0.0)]}, smoothing=0.9)
    assert chart._lines["learning rate"].getData()[1].tolist() == [1.0, 0.0] and not chart._raw
    chart.close()
