"""A slice of the soak in each run of the tests; `python -m tests.attack.soak` is the long one."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from PySide6.QtCore import QObject, QThreadPool, Signal, qInstallMessageHandler, qWarning
from pytestqt.qtbot import QtBot

from espalier.app.errors import CRASHES
from espalier.app.shell.window import Window
from espalier.model.errors import EspalierError
from espalier.passes.jobs.kinds import Failed, JobEvent, JobInfo, PluginJob
from tests.attack.soak import watch as watch_module
from tests.attack.soak.memory import pool_threads
from tests.attack.soak.runner import Plan, apart
from tests.attack.soak.watch import INSIDE, Sample, Watch, ratios

pytestmark = pytest.mark.gui
SAMPLE = Sample(0, 0, 200, 3000, 5000, 6, 20, 100_000, 400, 10, 1, 0, 9)


@pytest.mark.slow
def test_slice() -> None:
    found = apart(Plan(0, 0.1, 40, cold=True))
    assert found["problems"] == []
    assert 5 <= found["actions"] <= 40 and len(found["samples"]) == 1, "as many as a loaded machine has time for"


def test_growth_is_told_by_the_reference_minute() -> None:
    before = [replace(SAMPLE, minute=n, rss_mb=100) for n in range(5)]
    after = [replace(SAMPLE, minute=n, rss_mb=200 + n, descriptors=20 + n) for n in range(5, 25)]
    found = ratios([*before, *after], 5.0)
    assert (
        found["widgets"] == 1.0 and found["descriptors"] == round(43 / 26, 3) and found["rss_mb"] == round(223 / 206, 3)
    )
    assert ratios([SAMPLE], 5.0)["threads"] == 1.0


def test_threads_of_a_pool_are_told_by_their_name(qtbot: QtBot) -> None:
    """Two of them and two descriptors more were the whole growth of an hour."""
    pool, go, begun = QThreadPool(), threading.Event(), [threading.Event(), threading.Event()]
    descriptors, threads = psutil.Process().num_fds(), pool_threads()

    def work(event: threading.Event) -> None:
        event.set()
        go.wait(10)

    pool.setMaxThreadCount(2)
    for event in begun:
        pool.start(partial(work, event))
    assert all(event.wait(10) for event in begun)
    more = pool_threads() - threads, psutil.Process().num_fds() - descriptors
    go.set()
    pool.waitForDone()
    assert more == (2, 2)


class _Session(QObject):
    problem, job_event = Signal(object), Signal(object)


def test_what_is_a_bug_is_found(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """The harness itself: a bug of each kind, and what is none."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path))
    for owner, name in ((sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(watch_module, "HEAVY", ())  # tests before this one may have loaded any
    session, banner = _Session(), SimpleNamespace(text="")
    before = qInstallMessageHandler(None)
    window = cast("Window", SimpleNamespace(session=session, banner=banner))
    watch = Watch(lambda: [window])
    watch.follow(window)
    info = JobInfo(1, "Evaluate", PluginJob(()))
    try:
        session.problem.emit(EspalierError("No.", "Mend it."))
        session.job_event.emit(JobEvent(info, Failed("No.", "Mend it.")))
        watch.look()
        sys.excepthook(EspalierError, EspalierError("No.", "Mend it."), None)
        assert not watch.problems and sum(watch.told.values()) == 2
        sys.excepthook(ValueError, ValueError("one"), None)
        session.job_event.emit(JobEvent(info, Failed("KeyError: 1", details="Traceback of two")))
        session.job_event.emit(JobEvent(info, Failed("The worker process ended unexpectedly (signal 9).")))
        banner.text = f"{INSIDE} Espalier: ValueError: four"
        watch.look()
        qWarning("QObject::five")
        watch.wrong("banner", banner.text)  # once is enough
        assert [p["kind"] for p in watch.problems] == ["exception", "job", "job", "banner", "Qt"]
    finally:
        CRASHES.happened.disconnect(watch._crashed)
        qInstallMessageHandler(before)
