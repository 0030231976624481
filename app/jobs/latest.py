"""Something is worked out on a thread while the window goes on; of several wishes only the latest is told."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal


class Latest(QObject):
    """`ask` begins, `heard` is called in the window's thread with the future that holds the result or the error."""

    _done = Signal(object)

    def __init__(self, owner: QObject, heard: Callable[[Future[Any]], None]) -> None:
        super().__init__(owner)
        self._heard = heard
        self._pools: list[ThreadPoolExecutor] = []  # one, while it is needed
        self._future: Future[Any] | None = None
        self._done.connect(self._take, Qt.ConnectionType.QueuedConnection)
        pools = self._pools
        self.destroyed.connect(lambda: _end(pools))  # a method of what is destroyed would not be called

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self._future is not None

    def ask(self, work: Callable[..., Any], *args: Any) -> None:
        """Work this out; what was asked before is not told any more."""
        if not self._pools:
            self._pools.append(ThreadPoolExecutor(1, "latest"))
        self.drop()
        self._future = self._pools[0].submit(work, *args)
        self._future.add_done_callback(self._tell)

    def drop(self) -> None:
        """Nobody waits for an answer any more."""
        if self._future is not None:
            self._future.cancel()
        self._future = None

    def _tell(self, future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the owner is gone
            self._done.emit(future)

    def _take(self, future: Future[Any]) -> None:
        if future is self._future:
            self._future = None
            self._heard(future)
        if self._future is None:  # an idle thread would stay as long as the window
            _end(self._pools)


def _end(pools: list[ThreadPoolExecutor]) -> None:
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    pools.clear()
