"""The links of this machine in the panel Deploy: what is shown, and the measurement as a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.app.features.deploy.panel import DeployPanel
from espalier.app.shell.window import Window
from espalier.passes.base import NoOptions, Report, is_timed
from espalier.passes.jobs.kinds import Done, Failed, Progress, Started
from espalier.passes.sharding.links import Fit, described, store_links
from tests.gui.conftest import FakeRunner
from tests.gui.deploy.steps import asked

pytestmark = pytest.mark.gui
FIT = Fit(2e-4, 5e8, 1.2, 1.6)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_this_machine_is_measured_as_a_job(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    machine = panel.machine
    assert is_timed("shard_links") and "not measured, 100 µs, 1" in machine.words.text()
    machine.measure.click()
    info = asked(runner, "shard_links")
    assert info.job.step.options == NoOptions() and not machine.measure.isEnabled()  # type: ignore[union-attr]
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Progress(1, 2, "starting the ranks"))
    assert "starting the ranks" in panel._status.toolTip() and panel.buttons["stop"].isVisible()
    store_links(described(FIT, "gloo", 2, 1))  # as the job does
    runner[-1].tell(info, Done(Report("shard_links", (), {"flops": 8e10, "bandwidth": 2e10, "memory_bytes": 2**34})))
    words = machine.words.text()
    assert "links 200 µs, 500" in words and "(gloo)" in words and "measured 0" in words and "ago" in words
    assert "80" in words and "FLOP/s" in words and "16" in words
    assert "factor of 1.20" in machine.words.toolTip() and machine.measure.isEnabled() and not panel.deployment.busy


def test_a_measurement_can_be_stopped_and_can_fail(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    panel.machine.measure.click()
    panel.buttons["stop"].click()
    assert panel.machine.measure.isEnabled() and "not measured" in panel.machine.words.text()
    panel.machine.measure.click()
    info = asked(runner, "shard_links")
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("Rank 1 of 2 was ended by SIGKILL.", "Start the run again."))
    assert "Rank 1 of 2" in panel._error.text() and panel.machine.measure.isEnabled()


def test_a_damaged_file_is_named(folder: Path, window: Window, runner: list[FakeRunner], panel: DeployPanel) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "links.json").write_text("{")
    fresh = DeployPanel(window.session)
    assert "links.json is damaged" in fresh.machine.words.text()
    assert fresh.machine.words.text().count("ignored") == 1
