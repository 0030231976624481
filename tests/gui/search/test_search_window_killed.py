"""kill -9 of a whole window, its own process, while it searches: the next window has all trials but the running one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.search.state import files as study_files
from espalier.app.shell.window import Window
from espalier.passes.search.project_studies import ENDING as JOURNAL
from espalier.passes.search.record import ENDING
from espalier.passes.search.records import trials_of
from espalier.passes.search.storage import journal_url, load_study, open_storage
from tests.gui.search.searching_window import SAVED
from tests.gui.test_story import PATIENCE, idle, opened, window

pytestmark = [pytest.mark.gui, pytest.mark.slow]
__all__ = ["window"]
ROOT = Path(__file__).resolve().parents[3]
FOUND = 6  # trials that the killed window has found since it saved


def test_a_killed_window_loses_only_the_running_trial(
    qtbot: QtBot, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, own = tmp_path / "p.espalier", tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(study_files, "data_folder", lambda name: notes)
    notes = tmp_path / "share" / "espalier" / "studies"
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "share"), "QT_QPA_PLATFORM": "offscreen",
                   "TMPDIR": str(own), "PYTHONPATH": str(ROOT / "roots")}  # fmt: skip
    words = [sys.executable, str(ROOT / "tests" / "gui" / "search" / "searching_window.py"), str(project)]
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "saved\n"
            record = next(own.rglob(f"*{ENDING}"))
            lines = len(record.read_bytes().splitlines())
            qtbot.waitUntil(lambda: len(record.read_bytes().splitlines()) >= lines + FOUND, timeout=PATIENCE)
        finally:
            workers = psutil.Process(process.pid).children(recursive=True)
            os.kill(process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE / 1000)
    assert not alive, "a worker whose window is gone ends: what it runs counts as running until then"
    journal = next(own.rglob(f"*{JOURNAL}"))
    ended = {t.number: t for t in trials_of(load_study(open_storage(journal_url(journal)), journal.stem))
             if t.state in ("complete", "pruned")}  # fmt: skip

    opened(qtbot, window.session, str(project))
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel) and panel.study is not None
    study = panel.study
    known = {n: t for n, t in study.trials.items() if t.state in ("complete", "pruned")}
    assert len(known) > SAVED
    assert all(t.values == ended[n].values and t.params == ended[n].params for n, t in known.items())
    cut_off = [t for t in study.trials.values() if t.state == "running"]
    assert not cut_off, "nothing runs in a window that is gone"

    panel.searches.go_on(study, more=2)
    qtbot.waitUntil(lambda: panel.study is not None and not panel.study.running, timeout=PATIENCE)
    assert panel.study is not None and not panel.study.error
    found = panel.study.trials
    assert all(found[n].values == t.values for n, t in ended.items()), "also what ended while the window was killed"
    assert panel.study.done >= sum(t.counts for t in known.values()) + 2
    idle(qtbot, window.session)
