"""What tests of the panel Kernels begin with."""

from __future__ import annotations

import pytest

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.runs import KernelRuns
from espalier.app.shell.window import Window
from espalier.passes.jobs.kernel import LabJob
from espalier.passes.jobs.kinds import Done
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.kernels.kernel_runs import job, quiet
from tests.gui.kernels.kernels_lab import LAB


@pytest.fixture
def page(window: Window, runner: list[FakeRunner]) -> KernelRuns:
    """The tab in front, of a window with the small model; the worker has listed the kernels."""
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    made = panel_of(window.host).page("Run")
    assert isinstance(made, KernelRuns)
    runner[-1].tell(job(runner, LabJob), Done(LAB))
    return made


@pytest.fixture
def small(window: Window, runner: list[FakeRunner]) -> Window:
    """The window with the small model, without measuring by itself."""
    window.live.enabled = False
    open_small(window, runner)
    return window
