"""The window gives back free memory once for documents that come and go at once."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, Signal
from pytestqt.qtbot import QtBot

from espalier.app.shell import memory
from espalier.app.shell.memory import FreeMemory
from espalier.app.shell.window import Window

pytestmark = pytest.mark.gui


class _Session(QObject):
    opened = Signal()


def test_memory_is_given_back_when_the_window_rests(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[int]()
    monkeypatch.setattr(memory, "PAUSE", 30)
    monkeypatch.setattr(memory.heap, "give_back", lambda: given.append(1))
    session = _Session()
    FreeMemory(session, session)  # type: ignore[arg-type]
    qtbot.wait(60)
    assert not given
    for _ in range(3):
        session.opened.emit()
    qtbot.waitUntil(lambda: bool(given))
    qtbot.wait(60)
    assert given == [1]


def test_the_window_does_so_after_a_document(opened: Window) -> None:
    assert opened._free_memory._pause.isActive()
