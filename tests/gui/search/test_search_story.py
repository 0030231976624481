"""A search in the real window with the real worker: paused, its worker killed, gone on with, applied, kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.search.state import files as study_files
from espalier.app.shell.window import Window
from espalier.passes.search.project_studies import member
from tests.gui.test_story import PATIENCE, idle, opened, window

pytestmark = [pytest.mark.gui, pytest.mark.slow]
__all__ = ["window"]


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes of studies in a folder of the test's own."""
    monkeypatch.setattr(study_files, "data_folder", lambda name: tmp_path)


def test_a_search_survives_its_worker(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    session = window.session
    opened(qtbot, session, "demo:digits-mlp")
    session.evaluate()
    idle(qtbot, session)
    window.actions_table.run("search_mixed-precision")
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel) and session.document is not None
    panel.setup.how.editor("trials").put(200)
    panel.setup.goals.limits[0].number.put("8")
    panel.setup.run()
    study = panel.study
    assert study is not None

    def complete() -> int:
        return sum(t.state == "complete" for t in study.trials.values())

    qtbot.waitUntil(lambda: complete() >= 4, timeout=PATIENCE)
    panel.act("pause")
    qtbot.waitUntil(lambda: study.paused, timeout=PATIENCE)
    known = dict(study.trials)
    for process in session._runner.worker_pids:
        os.kill(process, signal.SIGKILL)
    qtbot.waitUntil(lambda: not study.running, timeout=PATIENCE)
    assert study.error and panel.head.wrong.isVisible() and study.leader is not None

    panel.act("on")
    qtbot.waitUntil(lambda: complete() >= 8, timeout=PATIENCE)
    assert "went on from trial" in panel.head.status._text
    assert all(study.trials[n] == t for n, t in known.items() if t.state == "complete")
    panel.act("after")
    qtbot.waitUntil(lambda: not study.running, timeout=PATIENCE)
    best = study.leader
    assert best is not None and best.figures["weight_bits"] <= 8

    before = session.document.present
    panel.act("apply")
    idle(qtbot, session)
    assert session.document.recipe.steps and session.score.accuracy == best.figures["accuracy"]
    assert session.score.weight_bits == pytest.approx(best.figures["weight_bits"])
    assert session.score.size_bytes == best.figures["size_bytes"]
    session.measures._scores.clear()  # measured anew, it is the same
    session.evaluate()
    idle(qtbot, session)
    assert session.score.accuracy == best.figures["accuracy"]
    session.undo()
    assert session.document.present == before

    path = tmp_path / "found.espalier"
    session.save_as(path)
    idle(qtbot, session)
    trials = dict(study.trials)
    opened(qtbot, session, str(path))
    assert panel.study is not None and panel.study.trials == trials and panel.study.leader == best
    assert session.document is not None and member(study.name) in session.document.project.extras
    panel.searches.go_on(panel.study, more=2)
    qtbot.waitUntil(lambda: panel.study is not None and not panel.study.running, timeout=PATIENCE)
    ended = [t for t in trials.values() if t.state != "waiting" and not t.lost]
    assert not panel.study.error and panel.study.done >= len(ended) + 2
    idle(qtbot, session)
