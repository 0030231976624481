"""The end of a long job is announced where the window is not the active one."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from espalier.app.shell.window import Window
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import Done, Failed, Started
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.mark.parametrize(("seconds", "active", "alerts"), [(45.0, False, 1), (5.0, False, 0), (45.0, True, 0)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_long_job_that_ends_is_announced(
    opened: Window, runner: list[FakeRunner], monkeypatch: pytest.MonkeyPatch, seconds: float, active: bool,
    alerts: int, fails: bool,
) -> None:  # fmt: skip
    asked: list[object] = []
    monkeypatch.setattr(QApplication, "alert", lambda window, *rest: asked.append(window))
    monkeypatch.setattr(Window, "isActiveWindow", lambda self: active)
    runner[-1].waiting.clear()
    opened.session.evaluate()
    job = runner[-1].waiting[0]
    runner[-1].tell(job, Started())
    job.waited = 1.5 - seconds  # the runner of the tests ends a job 1.5 s after its start
    runner[-1].tell(job, Failed("It broke.") if fails else Done(Report("evaluate", (), {"accuracy": 0.5})))
    assert asked == [opened] * alerts
