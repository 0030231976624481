"""The panel Deploy for its tests."""

from __future__ import annotations

import pytest

from espalier.app.features.deploy.panel import DeployPanel
from espalier.app.shell.window import Window
from espalier.passes.sharding.options import ShardPlanOptions
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.search.searching import quiet


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> DeployPanel:
    """The panel on the small model, on two assumed processors."""
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    window.show_dock("deploy")
    made = window.docks.panels["deploy"]
    assert isinstance(made, DeployPanel)
    made.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64))
    return made
