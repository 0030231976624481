"""Work on a thread whose owner goes: the thread goes with it, idle or busy."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from pytestqt.qtbot import QtBot

from espalier.app.jobs.latest import Latest
from tests.patience import until

pytestmark = pytest.mark.gui


def threads() -> int:
    return sum(t.name.startswith("latest") for t in threading.enumerate())


@pytest.mark.parametrize("busy", [False, True])
def test_a_thread_ends_with_its_owner(busy: bool, qtbot: QtBot) -> None:
    owner, gate, heard = QObject(), threading.Event(), list[Future[bool]]()
    asked = Latest(owner, heard.append)
    asked.ask(gate.wait)
    if not busy:
        gate.set()
        qtbot.waitUntil(lambda: len(heard) == 1 and not asked.busy)
    assert threads() == 1
    owner.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gate.set()
    until(lambda: threads() == 0)
    QCoreApplication.processEvents()
    assert len(heard) == (not busy)


def test_only_the_latest_is_heard(qtbot: QtBot) -> None:
    owner, gate, heard = QObject(), threading.Event(), list[Future[object]]()
    asked = Latest(owner, heard.append)
    asked.ask(gate.wait)
    asked.ask(lambda: 2)
    gate.set()
    qtbot.waitUntil(lambda: bool(heard))
    assert [f.result() for f in heard] == [2] and not asked.busy
    owner.deleteLater()
