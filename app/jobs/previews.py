"""Work of some milliseconds for the window, in one pool thread: latest wins, results kept by key."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal, SignalInstance

from espalier.app.figures.parts import Stop, Stopped
from espalier.model.errors import EspalierError

KEPT = 256
PAUSE = 20  # milliseconds; the edit that asks is drawn first, for the work would hold the interpreter meanwhile
LATE = 8  # milliseconds by which the pause came late where the window still draws
PATIENCE = 6  # pauses in a row
Work = Callable[[Stop], Any]


class _Wish:
    """What one slot wants; `stopped` turns true when it wants something else."""

    __slots__ = ("key", "stopped", "work")

    def __init__(self, key: Hashable, work: Work) -> None:
        self.key, self.work, self.stopped = key, work, False


class Previews(QObject):
    """Ask with `ask`; what is not known yet arrives later in `ready(slot, key, result)`.

    A slot has one wish: a newer one replaces it and stops its work. `work(stop)` should ask `stop()` at times. The last
    `keep` results are kept with their keys, until the signal `until` at most; keep few where a key holds a graph, or a
    result large arrays.
    """

    ready = Signal(str, object, object)
    failed = Signal(str, object)
    _done = Signal(str, object, object, object)

    def __init__(self, parent: QObject | None = None, keep: int = KEPT, until: SignalInstance | None = None) -> None:
        super().__init__(parent)
        self._keep = keep
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, _Wish] = OrderedDict()
        self._wishes: dict[str, _Wish] = {}
        self._busy = False
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self._begin)
        self._due, self._patience = 0.0, 0
        self._done.connect(self._arrived)
        if until is not None:
            until.connect(self.clear)

    def ask(self, slot: str, key: Hashable, work: Work) -> Any | None:
        """The result when it is known, else None, and it will be told by `ready`."""
        held = self._wishes.get(slot)
        if held and held.key == key and not held.stopped:
            return None
        self.forget(slot)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        wish = self._wishes[slot] = _Wish(key, work)
        with self._lock:
            self._waiting[slot] = wish
            if self._busy:
                return None
            self._busy = True
        self._wait(PATIENCE)
        return None

    def forget(self, slot: str) -> None:
        """The slot wants nothing more."""
        old = self._wishes.pop(slot, None)
        if old:
            old.stopped = True
        with self._lock:
            self._waiting.pop(slot, None)

    def clear(self) -> None:
        """Drop all wishes and results."""
        for slot in list(self._wishes):
            self.forget(slot)
        self._kept.clear()

    def close(self) -> None:
        """Drop all wishes and wait for what runs; call it before the owner goes."""
        self.clear()
        QThreadPool.globalInstance().waitForDone(5000)

    def _wait(self, patience: int) -> None:
        """Pause before the next work; where the window turns out to be busy, `patience` times more."""
        self._due, self._patience = time.monotonic() + PAUSE / 1e3, patience
        self._pause.start()

    def _begin(self) -> None:
        if self._patience and time.monotonic() - self._due > LATE / 1e3:
            self._wait(self._patience - 1)
        else:
            QThreadPool.globalInstance().start(self._run)

    def _run(self) -> None:
        """Work for one wish; the next one comes when the window has shown what was found."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                slot, wish = self._waiting.popitem(last=False)
            result: Any = None
            error: Exception | None = None
            try:
                result = wish.work(lambda wish=wish: wish.stopped)
            except Stopped:
                continue
            except (EspalierError, ArithmeticError, LookupError, MemoryError, OSError, TypeError, ValueError) as caught:
                error = caught
            with suppress(RuntimeError):  # the owner is gone
                self._done.emit(slot, wish, result, error)
            return

    def _arrived(self, slot: str, wish: _Wish, result: Any, error: Exception | None) -> None:
        self._tell(slot, wish, result, error)
        with self._lock:
            self._busy = bool(self._waiting)
        if self._busy:
            self._wait(PATIENCE)

    def _tell(self, slot: str, wish: _Wish, result: Any, error: Exception | None) -> None:
        if error is None:
            self._kept[wish.key] = result
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        if self._wishes.get(slot) is not wish:
            return
        del self._wishes[slot]
        if error is None:
            self.ready.emit(slot, wish.key, result)
        else:
            self.failed.emit(slot, error)
