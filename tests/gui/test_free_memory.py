"""The window gives back free memory once for documents that come and go at once."""

from __future__ import annotations

import gc

import pytest
from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.shell import memory
from espalier.app.shell.memory import FreeMemory
from espalier.app.shell.window import Window
from espalier.model.graph.graph import Graph
from tests.gui.conftest import FakeRunner

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


@pytest.mark.slow
def test_a_closed_document_is_let_go(opened: Window, runner: list[FakeRunner]) -> None:
    """Its graph was kept by the canvas that had painted it, the form of a search and the front of an allocation."""
    for name in opened.docks.docks:
        opened.show_dock(name)
        QApplication.processEvents()
    search = opened.docks.panels["search"]
    assert search.setup.cards  # type: ignore[attr-defined]
    opened.canvas.select(("fc1",))
    opened.grab()
    document = opened.session.open_document
    graphs = {id(document.graph), id(document.project.base)}
    del document
    opened.session.close()
    runner[-1].waiting.clear()
    QApplication.processEvents()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    assert not search.setup._cards  # type: ignore[attr-defined]
    assert not [g for g in gc.get_objects() if type(g) is Graph and id(g) in graphs]
