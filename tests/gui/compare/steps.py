"""What a user of the panel Compare does, for its tests."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from espalier.app.features.compare.actions import existing_panel, is_shown
from espalier.app.features.compare.canvases import CanvasPair
from espalier.app.features.compare.panel import ComparePanel
from espalier.app.features.compare.state.choices import StateChoice, choices_of
from espalier.app.shell.window import Window
from espalier.passes.jobs.kinds import (
    Done,
    JobInfo,
    Started,
)
from tests.gui.conftest import FakeRunner


def shown(window: Window, qtbot: QtBot) -> ComparePanel:
    """The panel with its comparison."""
    if not is_shown(window.host):
        window.actions_table.run("compare")
    panel = existing_panel(window.host)
    assert panel is not None
    qtbot.waitUntil(lambda: panel.comparing.result is not None or panel.comparing.error is not None)
    return panel


def choice(window: Window, kind: str, name: str = "") -> StateChoice:
    """A choice of the open document."""
    return next(c for g in choices_of(window.session) for c in g if (c.kind, c.name) == (kind, name))


def job_of(runner: list[FakeRunner], kind: type) -> JobInfo:
    """The only job of a kind; copies for recovery come when they come."""
    (info,) = (i for i in runner[-1].waiting if isinstance(i.job, kind))
    return info


def finish(runner: list[FakeRunner], kind: type, result: object) -> None:
    """Let the only job of a kind end."""
    info = job_of(runner, kind)
    for event in (Started(), Done(result)):
        runner[-1].tell(info, event)


def laid_out(panel: ComparePanel, qtbot: QtBot) -> CanvasPair:
    """The canvases, once both graphs are laid out."""
    pair = panel.pair
    assert pair is not None
    qtbot.waitUntil(lambda: all(c.scene is not None and not c.waiting for c in pair.canvases))
    return pair
