"""The page of an opening that has to wait says for what."""

from __future__ import annotations

import pytest

from espalier.app.shell.window import Window
from espalier.passes.jobs.kinds import Started
from tests.gui.conftest import FakeRunner
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


@pytest.mark.slow
def test_a_queued_opening_names_the_job_before_it(window: Window, runner: list[FakeRunner], qtbot: PatientBot) -> None:
    window.begin_opening("demo:small")
    (opening,) = runner[-1].waiting
    text = window.pages.loading._text
    assert "starting" in text.text()
    opening.waits = "Profile measures times, so that no other job may run"
    qtbot.waitUntil(lambda: "queued: Profile measures times" in text.text())
    runner[-1].tell(opening, Started())
    qtbot.waitUntil(lambda: not window.pages._waiting.isActive())
