"""A window whose model was edited, to be compared with what was opened."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.shell.window import Window
from espalier.model.formats.base import parse_format
from espalier.passes.base import NoOptions
from tests.gui.conftest import FakeRunner, open_small, small_project

INT8 = parse_format("int8")


@pytest.fixture
def edited(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> Window:
    """The small model after two steps: a weight in int8, and the dropout removed."""
    window.live.enabled = False
    open_small(window, runner, small_project())
    window.resize(1200, 800)
    window.show()
    window.session.set_format(["fc1"], "weight", INT8)
    window.session.run_pass("remove_dropout", NoOptions())
    return window
