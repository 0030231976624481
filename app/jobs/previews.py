"""Computations of a few milliseconds for the window, in one thread of the pool, with cached results."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal, SignalInstance

from espalier.app.figures.tensor_chunks import Stop, Stopped
from espalier.model.errors import EspalierError

CACHE_SIZE = 256
PAUSE = 20  # milliseconds before a computation, which would hold the interpreter while the window paints
LATE = 8  # milliseconds: if the pause ends later than this, the window is still painting
MAX_PAUSES = 6  # in a row
Work = Callable[[Stop], Any]


class _Request:
    """The request of a slot; `stopped` becomes true when another one replaces it."""

    __slots__ = ("key", "stopped", "work")

    def __init__(self, key: Hashable, work: Work) -> None:
        self.key, self.work, self.stopped = key, work, False


class Previews(QObject):
    """`ask` returns a cached result, or computes it and emits `ready(slot, key, result)`.

    A slot has one request: a newer one replaces it and stops its work. `work(stop)` should call `stop()` at times. The
    last `cache_size` results are cached with their keys, until the signal `until` at most; use few if a key holds a
    graph, or a result large arrays.
    """

    ready = Signal(str, object, object)
    failed = Signal(str, object)
    _done = Signal(str, object, object, object)

    def __init__(
        self, parent: QObject | None = None, cache_size: int = CACHE_SIZE, until: SignalInstance | None = None
    ) -> None:
        super().__init__(parent)
        self._cache_size = cache_size
        self._cache: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._queue: OrderedDict[str, _Request] = OrderedDict()
        self._requests: dict[str, _Request] = {}
        self._busy = False
        self._pause_timer = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause_timer.timeout.connect(self._start)
        self._due, self._pauses_left = 0.0, 0
        self._done.connect(self._arrived)
        if until is not None:
            until.connect(self.clear)

    def ask(self, slot: str, key: Hashable, work: Work) -> Any | None:
        """The cached result; None if `ready` will deliver it later."""
        current = self._requests.get(slot)
        if current and current.key == key and not current.stopped:
            return None
        self.forget(slot)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        request = self._requests[slot] = _Request(key, work)
        with self._lock:
            self._queue[slot] = request
            if self._busy:
                return None
            self._busy = True
        self._pause(MAX_PAUSES)
        return None

    def forget(self, slot: str) -> None:
        """Drop the request of a slot and stop its work."""
        old = self._requests.pop(slot, None)
        if old:
            old.stopped = True
        with self._lock:
            self._queue.pop(slot, None)

    def clear(self) -> None:
        """Drop all requests and results."""
        for slot in list(self._requests):
            self.forget(slot)
        self._cache.clear()

    def close(self) -> None:
        """Drop all requests and wait for the running work (5 s at most); call it before the owner is destroyed."""
        self.clear()
        QThreadPool.globalInstance().waitForDone(5000)

    def _pause(self, pauses_left: int) -> None:
        """Pause before the next work; up to `pauses_left` times more if the window turns out to be busy."""
        self._due, self._pauses_left = time.monotonic() + PAUSE / 1e3, pauses_left
        self._pause_timer.start()

    def _start(self) -> None:
        if self._pauses_left and time.monotonic() - self._due > LATE / 1e3:
            self._pause(self._pauses_left - 1)
        else:
            QThreadPool.globalInstance().start(self._run)

    def _run(self) -> None:
        """Work for one request; the next one starts after the window has shown the result."""
        while True:
            with self._lock:
                if not self._queue:
                    self._busy = False
                    return
                slot, request = self._queue.popitem(last=False)
            result: Any = None
            error: Exception | None = None
            try:
                result = request.work(lambda request=request: request.stopped)
            except Stopped:
                continue
            except (EspalierError, ArithmeticError, LookupError, MemoryError, OSError, TypeError, ValueError) as caught:
                error = caught
            with suppress(RuntimeError):  # the owner is destroyed
                self._done.emit(slot, request, result, error)
            return

    def _arrived(self, slot: str, request: _Request, result: Any, error: Exception | None) -> None:
        self._deliver(slot, request, result, error)
        with self._lock:
            self._busy = bool(self._queue)
        if self._busy:
            self._pause(MAX_PAUSES)

    def _deliver(self, slot: str, request: _Request, result: Any, error: Exception | None) -> None:
        if error is None:
            self._cache[request.key] = result
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        if self._requests.get(slot) is not request:
            return
        del self._requests[slot]
        if error is None:
            self.ready.emit(slot, request.key, result)
        else:
            self.failed.emit(slot, error)
