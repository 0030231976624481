"""A training in the real window with the real worker: paused, its worker killed, gone on with, kept, undone."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.training.panel import TrainingPanel
from espalier.app.features.training.state import last_options as training_memory
from espalier.app.shell.window import Window
from espalier.passes.training.checkpoint_folders import interrupted_run
from tests.gui.test_story import PATIENCE, idle, opened, window

pytestmark = [pytest.mark.gui, pytest.mark.slow]
__all__ = ["window"]


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints and remembered options in folders of the test's own, for the worker too: before it starts."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(training_memory, "data_folder", lambda name: tmp_path)


def until(qtbot: QtBot, test: Any) -> None:
    qtbot.waitUntil(test, timeout=PATIENCE)


def test_a_training_survives_its_worker(qtbot: QtBot, window: Window) -> None:
    session = window.session
    opened(qtbot, session, "demo:digits-mlp")
    window.actions_table.run("finetune")
    panel = window.docks.panels["training"]
    assert isinstance(panel, TrainingPanel) and session.document is not None
    base = session.document.present
    panel.form.editor("max_steps").put(100_000)
    panel.form.editor("max_steps").edited.emit()
    panel.train.click()
    until(qtbot, lambda: panel.run.job is not None and len(panel.run.job.metrics.get("training loss", ())) > 5)
    assert panel.isVisible(), "the curves do not come before its Pause"
    until(qtbot, panel.run.pause.isEnabled)
    panel.run.pause.click()
    until(qtbot, lambda: panel.run.job is not None and panel.run.job.state == "paused")
    assert interrupted_run(base.graph, panel.options(), 0, session.document.project.base), (
        "a pause begins with a checkpoint"
    )
    for process in session._runner.worker_pids:
        os.kill(process, signal.SIGKILL)
    until(qtbot, lambda: panel.run.job is None and panel.resume.isVisible())
    assert session.document.present is base and "of 100\u2009000" in panel.interrupted.text()

    panel.resume.click()
    until(qtbot, lambda: panel.run.job is not None and len(panel.run.job.metrics.get("training loss", ())) > 20)
    panel.run.keep.click()
    until(qtbot, lambda: panel.result.isVisible())
    assert "resumed from step" in panel.result.text() and "Stopped by hand" in panel.result.text()
    assert session.document.recipe.steps[-1].pass_name == "finetune"
    session.undo()
    assert session.document.present == base
    idle(qtbot, session)
