"""Running from the panel Deploy: what is asked for, the question before many processes, and how a run is shown."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.app.features.deploy.panel import RUNS, DeployPanel
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from espalier.passes.analysis.shard_run import ShardRunOptions
from espalier.passes.base import Report, is_timed
from espalier.passes.jobs.kinds import Done, Failed, Progress, Started
from espalier.passes.sharding.options import ShardPlanOptions
from tests.gui.conftest import FakeRunner
from tests.gui.deploy.steps import answer, asked
from tests.gui.deploy.test_transfers import shard

pytestmark = pytest.mark.gui


def ran(equal: bool = True) -> Report:
    """A report as a run over two processes makes it."""
    outputs = {"largest": 0.0 if equal else 0.5, "relative": 0.5, "equal": equal, "within": equal, "worst": ""}
    gradients = outputs | {"equal": False, "within": True, "largest": 3e-7}
    memory = [{"rank": r, "stored_bytes": (1 + r) << 20, "peak_bytes": 340 << 20, "split_tensors": 2} for r in (0, 1)]
    summary: dict[str, Any] = {
        "mesh": "2", "ranks": 2, "backend": "gloo", "threads": 1, "batches": 1, "samples": 64, "memory": memory,
        "difference": {"outputs": outputs, "gradients": gradients}, "compared": {"outputs": 1, "gradients": 2},
        "single": {"forward_seconds": 0.002, "step_seconds": 0.006}, "notes": ["2 ranks share 1 cores."],
        "sharded": {"forward_seconds": 0.05, "step_seconds": 0.075},
        "totals": {"forward": {}, "step": {"all_reduce": {"calls": 1, "bytes": 7}}}, "forward_totals": {},
        "predicted": {"source": "here", "forward_seconds": 0.04, "step_seconds": 0.07, "weight_bytes": 1 << 20},
    }  # fmt: skip
    row = {"node": "fc2", "collective": "all_gather", "planned_bytes": 64, "bytes": 64, "calls": 1, "whole": "",
           "planned_backward": 32, "backward": 48}  # fmt: skip
    return Report("shard_run", (row,), summary)


def test_the_plan_is_run_on_the_data_of_the_session(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    assert not panel.runs.button.isEnabled() and "Plan first" in panel.runs.button.toolTip() and is_timed("shard_run")
    panel.plan()
    answer(runner, "shard_plan")
    assert panel.runs.button.isEnabled() and "2 processes" in panel.runs.button.toolTip()
    panel.runs.button.click()
    info = asked(runner, "shard_run")
    options = info.job.step.options  # type: ignore[union-attr]
    assert options == ShardRunOptions(mesh="2", device="cpu", batch_size=64) and not options.data
    assert panel.tabs.currentIndex() == RUNS and panel.buttons["stop"].isVisible() and not panel.runs.button.isEnabled()
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Progress(1, 2, "starting the ranks"))
    assert "starting the ranks" in panel._status.toolTip()
    runner[-1].tell(info, Done(ran()))
    verdict = panel.run_view.verdict.text()
    assert "outputs equal bit for bit" in verdict and "gradients equal within rounding" in verdict
    assert "the plan over the mesh 2" in verdict and "64 random samples" in verdict
    assert "share 1 cores" in panel.run_view.notes.text() and not panel.deployment.busy
    rows = {r["figure"]: r for r in panel.run_view.table.rows.shown}
    forward = rows["forward, ms"]
    assert [forward[c] for c in ("predicted", "measured", "one process")] == pytest.approx([40.0, 50.0, 2.0])
    assert rows["weights of a rank, MiB"]["measured"] == 2.0 and rows["weights of a rank, MiB"]["predicted"] == 1.0
    assert rows["all-gather, forward, bytes"]["predicted"] == rows["all-gather, forward, bytes"]["measured"] == 64
    assert [r["collective"] for r in panel.table.rows.shown] == ["all-gather"]
    panel.tabs.setCurrentIndex(0)
    assert len(panel.table.rows.shown) > 1, "the rows of the plan again"


def test_a_sharded_model_runs_as_it_is_placed(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    shard(window, runner, "megatron")
    assert panel.runs.button.isEnabled() and "placements of the model" in panel.runs.button.toolTip()
    panel.runs.run()
    assert asked(runner, "shard_run").job.step.options == ShardRunOptions()  # type: ignore[union-attr]
    panel.deployment.stop()
    panel.form.put(ShardPlanOptions(mesh="4", device="cpu", batch_size=64))
    panel.plan()
    answer(runner, "shard_plan")
    panel.runs.run()
    assert asked(runner, "shard_run").job.step.options.mesh == "4", "a plan over another mesh"  # type: ignore[union-attr]


def test_many_processes_need_a_confirmation(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.form.put(ShardPlanOptions(mesh="16", device="cpu", batch_size=64))
    panel.plan()
    answer(runner, "shard_plan")
    panel.runs.button.click()
    assert not [j for j in runner[-1].waiting if j.title == "Run over processes"]
    assert panel.runs.question.isVisible() and "16 processes" in panel.runs.words.text()
    panel.runs.anyway.click()
    assert asked(runner, "shard_run").job.step.options.max_ranks == 16  # type: ignore[union-attr]
    assert not panel.runs.question.isVisible()
    panel.buttons["stop"].click()
    panel.runs.button.click()
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64))
    panel.plan()
    assert not panel.runs.question.isVisible(), "another plan withdraws the question"


def test_pipelines_and_stale_plans_are_not_run(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64, stages=2, micro_batches=2))
    panel.plan()
    answer(runner, "shard_plan")
    assert not panel.runs.button.isEnabled() and "pipeline" in panel.runs.button.toolTip()
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64))
    panel.plan()
    answer(runner, "shard_plan")
    assert panel.runs.button.isEnabled() and panel.runs.button.text() == "Run on this machine"
    window.session.set_format(["fc1"], "weight", Integer(8, 4))
    assert panel.runs.button.text() == "Plan and run on this machine" and panel.runs.button.isEnabled()
    assert "earlier state of the model" in panel.runs.button.toolTip()
    panel.runs.button.click()
    assert not [j for j in runner[-1].waiting if j.title == "Run over processes"]
    answer(runner, "shard_plan")
    assert asked(runner, "shard_run").job.step.options.mesh == "2"  # type: ignore[union-attr]


def choose(panel: DeployPanel, name: str, value: object) -> None:
    """Change an option as a person does."""
    editor = panel.form.editors[name]
    editor.put(value)
    editor.edited.emit()


def test_a_run_is_of_the_options_that_are_shown(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    """After a change of the form, the button plans anew and runs that."""
    panel.plan()
    answer(runner, "shard_plan")
    assert "other options" not in panel._summary.text()
    choose(panel, "mesh", "4")
    assert panel.runs.button.text() == "Plan and run on this machine" and panel.runs.button.isEnabled()
    assert "options have changed" in panel.runs.button.toolTip() and "Of other options" in panel._summary.text()
    panel.runs.button.click()
    assert not [j for j in runner[-1].waiting if j.title == "Run over processes"] and panel.deployment.busy
    answer(runner, "shard_plan")
    assert asked(runner, "shard_run").job.step.options.mesh == "4"  # type: ignore[union-attr]
    assert "Of other options" not in panel._summary.text() and panel.runs.button.text() == "Run on this machine"
    assert not panel.runs.button.isEnabled() and panel.buttons["stop"].isVisible(), "it runs"


def test_a_plan_that_was_asked_for_to_run_can_be_stopped(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    panel.plan()
    answer(runner, "shard_plan")

    def runs() -> int:
        return len([j for j in runner[-1].waiting if j.title == "Run over processes"])

    choose(panel, "mesh", "4")
    panel.runs.button.click()
    panel.buttons["stop"].click()
    panel.plan()
    answer(runner, "shard_plan")
    assert not runs(), "it was stopped"
    choose(panel, "mesh", "2")
    panel.runs.button.click()
    choose(panel, "mesh", "8")
    answer(runner, "shard_plan")
    assert not runs() and panel.runs.button.text().startswith("Plan and run"), "the form has changed again"
    panel.runs.button.click()
    info = asked(runner, "shard_plan")
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("It does not fit.", "Use more."))
    assert not runs() and "does not fit" in panel._error.text()


def test_invalid_options_and_pipelines_are_not_run(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    panel.plan()
    answer(runner, "shard_plan")
    choose(panel, "stages", 2)
    assert not panel.runs.button.isEnabled() and "set stages to 1" in panel.runs.button.toolTip()
    choose(panel, "stages", 1)
    assert panel.runs.button.isEnabled() and panel.runs.button.text() == "Run on this machine"


def test_failures_and_differences_are_plain(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.plan()
    answer(runner, "shard_plan")
    panel.runs.button.click()
    info = asked(runner, "shard_run")
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("Rank 1 of 2 was ended by SIGKILL.", "It may have been out of memory."))
    assert "Rank 1 of 2" in panel._error.text() and panel._error.isVisible() and window.banner.text == ""
    assert panel.runs.button.isEnabled() and not panel.buttons["stop"].isVisible()
    panel.runs.button.click()
    assert not panel._error.isVisible()
    info = asked(runner, "shard_run")
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Done(ran(equal=False)))
    assert "outputs different" in panel.run_view.verdict.text() and "0.5" in panel.run_view.verdict.text()
    window.session.set_format(["fc1"], "weight", Integer(8, 4))
    assert "Of an earlier state" in panel.run_view.verdict.text()


def test_the_status_moves_nothing(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    """The line of a running job is beside the tabs, which stay where they are."""
    panel.plan()
    answer(runner, "shard_plan")
    before = panel.tabs.mapTo(panel, panel.tabs.rect().topLeft())
    panel.plan()
    assert panel._status.toolTip() and panel.tabs.mapTo(panel, panel.tabs.rect().topLeft()) == before
