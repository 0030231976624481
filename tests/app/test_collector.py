"""Garbage is collected in the window's thread only."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.app.widgets import collector
from espalier.app.widgets.collector import WindowCollector, without_garbage_collection

ROOT = Path(__file__).resolve().parents[2] / "roots"
SCRIPT = """
import gc, threading, time, weakref
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from espalier.app.widgets.collector import WindowCollector

app, window, ended, where, over = QApplication([]), threading.get_ident(), [], set(), threading.Event()
WindowCollector(app)
gc.set_threshold(700, 2, 2)
gc.callbacks.append(lambda phase, found: where.add(threading.get_ident()))

def allocate():
    while not over.is_set():
        kept = [[n] for n in range(3000)]
        kept[0].append(kept)

class Cyclic(QWidget):
    def __init__(self):
        super().__init__()
        self.itself, self.button = self, QPushButton("x", self)
        weakref.finalize(self, lambda: ended.append(threading.get_ident()))

def make():
    for _ in range(20):
        Cyclic()
    QApplication.allWidgets()

threads = [threading.Thread(target=allocate) for _ in range(2)]
for thread in threads:
    thread.start()
clock = QTimer(interval=20)
clock.timeout.connect(make)
clock.start()
begun = time.monotonic()
patience = QTimer(interval=100)
patience.timeout.connect(lambda: app.quit() if (spent := time.monotonic() - begun) > 2.5 and (
    len(ended) > 100 or spent > 60) else None)
patience.start()
app.exec()
over.set()
for thread in threads:
    thread.join()
print(len(ended) > 100, set(ended) == {window}, where == {window})
"""


@pytest.mark.slow
def test_widgets_are_destroyed_in_the_thread_of_the_window() -> None:
    """Of eight such runs in which Python collected by itself four ended with a segmentation fault."""
    environment = {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True True\n"


@pytest.fixture
def collecting() -> Iterator[WindowCollector]:
    was = gc.isenabled()
    gc.enable()
    made = WindowCollector()
    yield made
    made.stop()
    assert gc.isenabled()
    if not was:
        gc.disable()


def test_a_generation_is_collected_when_it_is_due(collecting: WindowCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, collected = [(0, 0, 0)], list[int]()
    monkeypatch.setattr(collector.gc, "get_count", lambda: counts[-1])
    monkeypatch.setattr(collector.gc, "get_threshold", lambda: (700, 10, 10))
    monkeypatch.setattr(collector.gc, "collect", collected.append)
    for count in ((700, 10, 10), (701, 10, 10), (5000, 11, 3), (5000, 11, 11)):
        counts.append(count)
        collecting.look()
    assert collected == [0, 1, 2]
    collecting._took = 1000.0
    collecting.look()
    assert collected == [0, 1, 2, 1], "full collections take at most a hundredth of the time"
    with without_garbage_collection():
        collecting.look()
    assert len(collected) == 4
    assert not gc.isenabled(), "the block does not enable what the window's collector disabled"


def test_blocks_of_two_threads_may_overlap() -> None:
    was, entered, leave = gc.isenabled(), threading.Event(), threading.Event()

    def rest() -> None:
        with without_garbage_collection():
            entered.set()
            leave.wait(10)

    gc.enable()
    try:
        thread = threading.Thread(target=rest)
        thread.start()
        entered.wait(10)
        with without_garbage_collection():
            leave.set()
            thread.join()
            assert not gc.isenabled(), "the first block to end leaves it disabled for the other"
        assert gc.isenabled()
    finally:
        if not was:
            gc.disable()
