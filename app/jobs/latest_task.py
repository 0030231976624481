"""A computation in a thread, of which only the latest result is delivered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal


class LatestTask(QObject):
    """`ask` starts a computation; `done` receives its future in the window's thread, unless a newer one started."""

    _done = Signal(object)

    def __init__(self, owner: QObject, done: Callable[[Future[Any]], None]) -> None:
        super().__init__(owner)
        self._callback = done
        self._pools: list[ThreadPoolExecutor] = []  # one while a computation runs, else none
        self._future: Future[Any] | None = None
        self._done.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        pools = self._pools
        self.destroyed.connect(lambda: _end(pools))  # a slot of the destroyed object itself would not be called

    @property
    def busy(self) -> bool:
        """Whether a computation runs."""
        return self._future is not None

    def ask(self, work: Callable[..., Any], *args: Any) -> None:
        """Start `work(*args)`; the result of an earlier computation is dropped."""
        if not self._pools:
            self._pools.append(ThreadPoolExecutor(1, "latest"))
        self.drop()
        self._future = self._pools[0].submit(work, *args)
        self._future.add_done_callback(self._signal)

    def drop(self) -> None:
        """Drop the result of the running computation."""
        if self._future is not None:
            self._future.cancel()
        self._future = None

    def _signal(self, future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the owner is destroyed
            self._done.emit(future)

    def _deliver(self, future: Future[Any]) -> None:
        if future is self._future:
            self._future = None
            self._callback(future)
        if self._future is None:  # an idle thread would live as long as the window
            _end(self._pools)


def _end(pools: list[ThreadPoolExecutor]) -> None:
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    pools.clear()
