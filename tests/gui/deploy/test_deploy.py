"""The panel Deploy: a plan with its baselines, the scaling, the colours of the graph. Jobs are answered by the test."""

from __future__ import annotations

import pytest

from espalier.app.features.deploy.panel import SCALES, DeployPanel
from espalier.app.features.deploy.state import MOVED, STRATEGY, TIME
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from espalier.model.registry import PASSES
from espalier.passes.base import Context
from espalier.passes.jobs.kinds import (
    Done,
    Failed,
    ReplayJob,
    ReplayResult,
    Started,
)
from espalier.passes.sharding.options import ShardPlanOptions
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.deploy.steps import answer, asked

pytestmark = pytest.mark.gui


def test_a_plan_is_shown_beside_its_baselines(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    assert panel._pages.currentIndex() == 0 and panel.start.isVisible()
    panel.start.click()
    assert asked(runner, "shard_plan").job.step.options == ShardPlanOptions(mesh="2", device="cpu", batch_size=64)  # type: ignore[union-attr]
    assert panel.buttons["stop"].isVisible() and not panel.buttons["plan"].isVisible()
    report = answer(runner, "shard_plan")
    assert panel.buttons["plan"].isVisible() and panel._pages.currentIndex() == 1
    assert panel.times.rows[0]["plan"] == "plan" and len(panel.times.rows) >= 3
    for row in panel.times.rows:  # the parts of a bar add up to its step
        assert sum(row[c] for c in ("compute_ms", "communication_ms", "bubble_ms")) == pytest.approx(row["step_ms"])
        assert row["step_ms"] >= report.summary["step_ms"] * (1 - 1e-9), "never dearer than a baseline"
    assert [r["node"] for r in panel.table.rows.shown] == [r["node"] for r in report.rows]
    assert "predicted" in panel._summary.text() and "assumed" in panel._summary.text(), "and where figures are from"
    assert panel.times.table()[1] and panel.memory.table()[1]


def test_the_graph_shows_placements_and_a_stale_plan_says_so(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    overlays = panel.deployment.overlays()
    assert all(o.note == "plan first (Deploy)" and not o.values for o in overlays.values())
    panel.plan()
    report = answer(runner, "shard_plan")
    overlays = panel.deployment.overlays()
    names = overlays[STRATEGY].names
    assert {names[int(v)] for v in overlays[STRATEGY].values.values()} == {r["strategy"] for r in report.rows}
    assert overlays[TIME].values["fc1"] > 0 and set(overlays[MOVED].values) <= {r["node"] for r in report.rows}
    window.canvas.set_mode(STRATEGY)
    assert window.canvas._measured[STRATEGY].names == names
    panel.table.node_chosen.emit("fc2")
    assert window.session.selection == ("fc2",)
    window.session.set_format(["fc1"], "weight", Integer(8, 4))
    assert panel.deployment.stale() and "Of an earlier state" in panel._summary.text()
    assert overlays != panel.deployment.overlays() and not panel.apply_link.isVisible()
    window.session.undo()
    assert not panel.deployment.stale()


def test_a_plan_becomes_a_step(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.plan()
    answer(runner, "shard_plan")
    panel.apply_link.click()
    step = window.session.recipe.steps[-1]
    assert (step.pass_name, step.options.mesh, step.options.device, step.options.batch_size) == (
        "shard",
        "2",
        "cpu",
        64,
    )
    document = window.session.open_document
    graph = PASSES.get("shard").run(document.graph, step.options, Context(document.store))[0]
    replay = next(j for j in runner[-1].waiting if isinstance(j.job, ReplayJob))
    runner[-1].tell(replay, Started())
    runner[-1].tell(replay, Done(ReplayResult(graph, (None,), {})))
    assert any(n.sharding for n in window.session.open_document.graph)
    assert not panel.deployment.stale(), "the plan is that of the model, applied"
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", stages=2))
    panel.plan()
    assert asked(runner, "shard_plan")


def test_the_scaling_is_marked_as_simulated(panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.predict()
    report = answer(runner, "shard_scaling")
    assert panel.tabs.currentIndex() == SCALES and [r["devices"] for r in panel.scaling.chart.rows][:2] == [1, 2]
    assert report.rows[0]["speedup"] == 1 and "not measured" in report.summary["simulated"]
    assert "simulated" in panel.scaling.chart.plot.getAxis("bottom").labelText


def test_a_slider_chooses_a_number_of_devices_and_its_mesh_is_planned(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    assert panel.scaling.row is None and not panel.scaling.slider.isVisible()
    panel.predict()
    report = answer(runner, "shard_scaling")
    view = panel.scaling
    known = [r for r in report.rows if r.get("step_ms")]
    assert view.slider.isVisible() and view.row == min(known, key=lambda r: r["step_ms"]), "the fastest at first"
    view.slider.setValue(2)
    row = report.rows[2]
    assert view.count.text() == "4 devices" and row["mesh"] in view.figures.text()
    assert f"{row['speedup']:.2f} × as fast as 1 device" in view.figures.text()
    assert f"efficiency {100 * row['speedup'] / 4:.0f} %" in view.figures.text() and "again" not in view.figures.text()
    panel.form.put(ShardPlanOptions(mesh="8", device="cpu", batch_size=64))
    panel.form.changed.emit()
    assert "again" not in view.figures.text(), "a prediction has no mesh of its own"
    panel.form.put(ShardPlanOptions(mesh="8", device="cpu", batch_size=32))
    panel.form.changed.emit()
    assert "Of other options than those at the left: predict again" in view.figures.text()
    assert view.count.text() == "4 devices", "the slider stays"
    window.session.set_format(["fc1"], "weight", Integer(8, 4))
    assert "Of an earlier state of the model: predict again" in view.figures.text()
    view.plan_link.click()
    planned = asked(runner, "shard_plan").job.step.options  # type: ignore[union-attr]
    assert planned == ShardPlanOptions(mesh=row["mesh"], device="cpu", batch_size=64) == panel.form.value()


def test_a_number_of_devices_without_a_plan_says_why(panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64, memory="1KiB"))
    panel.predict()
    report = answer(runner, "shard_scaling")
    panel.scaling.slider.setValue(0)
    assert report.rows[0]["problem"] in panel.scaling.figures.text() and "step" not in panel.scaling.figures.text()


def test_errors_are_shown_in_the_panel(panel: DeployPanel, runner: list[FakeRunner], window: Window) -> None:
    panel.form.put(ShardPlanOptions(mesh="nonsense"))
    panel.plan()
    info = asked(runner, "shard_plan")
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("'nonsense' is no mesh.", "Give the sizes of one or two axes."))
    assert "no mesh" in panel._error.text() and window.banner.text == "" and panel.buttons["plan"].isVisible()
    panel.form.put(ShardPlanOptions(mesh="2"))
    panel.plan()
    assert not panel._error.text()
    panel.buttons["stop"].click()
    assert not panel.deployment.busy


def test_another_model_has_no_plan(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.plan()
    answer(runner, "shard_plan")
    open_small(window, runner)
    assert panel._pages.currentIndex() == 0 and not panel.deployment.reports and not panel.times.rows


def test_the_axis_reads_the_same_when_drawn_again(panel: DeployPanel) -> None:
    """pyqtgraph scales numbers below 1 by 1000 where its prefixes are switched off for a second time."""
    rows = [{"plan": "plan", "compute_ms": 0.003}, {"plan": "fsdp", "communication_ms": 0.24}]
    axis = panel.times.plot.getAxis("bottom")
    for _ in range(3):
        panel.times.show_rows(rows)
        assert axis.tickStrings([0.1], axis.autoSIPrefixScale * axis.scale, 0.1) == ["0.1"]
