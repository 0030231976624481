"""Python's garbage collector in a program with widgets: in the window's thread only, and at rest for a while."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from PySide6.QtCore import QObject, QTimer

PAUSE = 200  # milliseconds between two looks; a full collection follows 11 × 11 of the youngest generation
SHARE = 100  # full collections take at most this part of the time
_lock = threading.Lock()
_resting: list[bool] = []  # an entry for each block without collection; the first: whether it was enabled before


class WindowCollector(QObject):
    """Collects garbage in the thread of its timer instead of in whichever thread happens to allocate.

    A widget in a reference cycle is destroyed by the collection that finds it. In another thread than the window's
    that ends the program: Qt's lists of widgets are not locked.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        gc.disable()
        self._took, self._ended = 0.0, 0.0  # of the last full collection: seconds, and when
        self._timer = QTimer(self, interval=PAUSE)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def look(self) -> None:
        """Collect the oldest generation that is due, by Python's own thresholds."""
        if _resting:
            return
        counts, thresholds, now = gc.get_count(), gc.get_threshold(), time.monotonic()
        due = [n for n in range(3) if counts[n] > thresholds[n]]
        if 2 in due and now - self._ended < SHARE * self._took:
            due.remove(2)
        if due:
            gc.collect(due[-1])
        if due and due[-1] == 2:
            self._ended = time.monotonic()
            self._took = self._ended - now

    def stop(self) -> None:
        """Let Python collect by itself again."""
        self._timer.stop()
        if self._was_enabled:
            gc.enable()


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """Disable garbage collection: while Qt iterates over widgets, or while many objects without cycles are made.

    Blocks of several threads may overlap: the last one to end enables it again.
    """
    with _lock:
        if not _resting:
            _resting.append(gc.isenabled())
            gc.disable()
        else:
            _resting.append(False)
    try:
        yield
    finally:
        with _lock:
            was_enabled = _resting[0]
            _resting.pop()
            if not _resting and was_enabled:
                gc.enable()
