"""Reports that a worker could have made for the tabs Compile, Profile and Memory, and how they arrive."""

from __future__ import annotations

from typing import Any

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.compile import CompilePage
from espalier.app.features.kernels.profile import ProfilePage
from espalier.app.shell.window import Window
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, PartialResult, Started
from tests.gui.conftest import FakeRunner


def job_of(runner: list[FakeRunner], name: str) -> Any:
    """The waiting job of an analysis."""
    return next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == name)


def finish(runner: list[FakeRunner], name: str, report: Report, **more: Any) -> None:
    """Let the job of an analysis end as the worker would."""
    from espalier.passes.jobs.kinds import Done

    info = job_of(runner, name)
    for event in (Started(), PartialResult(more), Done(report)):
        runner[-1].tell(info, event)


def profile(window: Window) -> ProfilePage:
    page = panel_of(window.host).page("Profile")
    assert isinstance(page, ProfilePage)
    return page


def compiling(window: Window) -> CompilePage:
    page = panel_of(window.host).page("Compile")
    assert isinstance(page, CompilePage)
    return page
