"""Work on a thread: it goes with its work, and with its owner."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from pytestqt.qtbot import QtBot

from espalier.app.jobs.latest_task import LatestTask
from tests.patience import until

pytestmark = pytest.mark.gui


def threads() -> int:
    return sum(t.name.startswith("latest") for t in threading.enumerate())


@pytest.mark.parametrize("dropped", [False, True])
def test_a_thread_ends_with_its_work(dropped: bool, qtbot: QtBot) -> None:
    """Else each panel that ever asked would keep one."""
    owner, gate, heard = QObject(), threading.Event(), list[Future[object]]()
    asked = LatestTask(owner, heard.append)
    asked.ask(gate.wait)
    assert threads() == 1
    if dropped:
        asked.drop()
    gate.set()
    qtbot.waitUntil(lambda: threads() == 0)
    assert len(heard) == (not dropped)
    asked.ask(lambda: 2)
    qtbot.waitUntil(lambda: bool(heard) and heard[-1].result() == 2)
    owner.deleteLater()


def test_a_thread_ends_with_its_owner() -> None:
    owner, gate, heard = QObject(), threading.Event(), list[Future[bool]]()
    asked = LatestTask(owner, heard.append)
    asked.ask(gate.wait)
    assert threads() == 1
    owner.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gate.set()
    until(lambda: threads() == 0)
    QCoreApplication.processEvents()
    assert not heard


def test_only_the_latest_is_heard(qtbot: QtBot) -> None:
    owner, gate, heard = QObject(), threading.Event(), list[Future[object]]()
    asked = LatestTask(owner, heard.append)
    asked.ask(gate.wait)
    asked.ask(lambda: 2)
    gate.set()
    qtbot.waitUntil(lambda: bool(heard))
    assert [f.result() for f in heard] == [2] and not asked.busy
    owner.deleteLater()
