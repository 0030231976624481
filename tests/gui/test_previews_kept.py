"""Results of previews live no longer than the document that they belong to."""

from __future__ import annotations

import gc
import weakref

import pytest
from PySide6.QtCore import QObject, QThreadPool, Signal
from pytestqt.qtbot import QtBot

from espalier.app.jobs.previews import Previews
from espalier.app.shell.window import Window

pytestmark = pytest.mark.gui


class _Result:
    pass


class _Session(QObject):
    opened = Signal()


def keep_one(previews: Previews, key: object, qtbot: QtBot) -> weakref.ref[_Result]:
    """A reference to a result that the previews found."""
    arrived = list[weakref.ref[_Result]]()
    previews.ready.connect(lambda slot, found, result: arrived.append(weakref.ref(result)) if found == key else None)
    previews.ask("test", key, lambda stop: _Result())
    qtbot.waitUntil(lambda: bool(arrived), timeout=30_000)
    QThreadPool.globalInstance().waitForDone(30_000)  # the thread holds the result until it has returned
    return arrived[0]


def test_results_go_with_the_document(qtbot: QtBot) -> None:
    session = _Session()
    previews = Previews(session, until=session.opened)
    result = keep_one(previews, 1, qtbot)
    gc.collect()
    assert result() is not None and previews.ask("test", 1, lambda stop: None) is result()
    session.opened.emit()
    gc.collect()
    assert result() is None
    previews.close()


def test_a_wish_goes_with_the_document(qtbot: QtBot) -> None:
    """It is not begun any more, and can be wished again."""
    session, begun = _Session(), list[int]()
    previews = Previews(session, until=session.opened)
    previews.ask("test", 1, lambda stop: begun.append(1))
    session.opened.emit()
    previews.ask("test", 1, lambda stop: begun.append(2) or "done")
    qtbot.waitUntil(lambda: bool(begun), timeout=30_000)
    assert begun == [2]
    previews.close()


def test_panels_keep_nothing_of_a_closed_document(opened: Window) -> None:
    kinds = {type(p.parent()).__name__: p for top in (opened, opened.session) for p in top.findChildren(Previews)}
    bound = ("WeightSection", "LowestSqnrMonitor", "SparsityMapView", "StructureSection", "Estimate")
    assert set(bound) <= set(kinds)
    results = list[weakref.ref[_Result]]()
    for name in bound:
        result = kinds[name]._cache["test"] = _Result()
        results.append(weakref.ref(result))
    del result
    opened.session.close()
    gc.collect()
    assert [ref() for ref in results] == [None] * len(bound)


def test_what_is_asked_once_is_not_kept(qtbot: QtBot) -> None:
    """As runs and checkpoints, which are asked for with a key of their own."""
    previews = Previews(cache_size=0)
    result = keep_one(previews, 1, qtbot)
    gc.collect()
    assert result() is None and not previews._cache
    previews.close()
