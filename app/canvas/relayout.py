"""Lays out off the UI thread when a graph is large; a newer request makes the older one stale."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal

from espalier.app.canvas.colouring import by_kind
from espalier.app.canvas.figures import Figures
from espalier.app.canvas.find import Finder
from espalier.app.canvas.hierarchy import default_open
from espalier.app.canvas.layout import layout
from espalier.app.canvas.namespaces import build
from espalier.app.canvas.scene import Scene
from espalier.model.graph.graph import Graph

SYNCHRONOUS = 150  # nodes up to which a layout takes less than a frame


@dataclass(frozen=True, slots=True)
class Wish:
    """What to lay out; `before` is a scene of the same structure, `open_groups` None means choose."""

    graph: Graph
    before: Scene | None
    open_groups: frozenset[str] | None
    horizontal: bool
    show_scalars: bool = False

    def carry_out(self, cancelled: Callable[[], bool]) -> Scene:
        """The scene; raises Cancelled."""
        with collector_at_rest():
            before = self.before
            tree = before.layout.tree if before else build(self.graph, self.show_scalars, cancelled)
            known = {g.path for g in tree.groups}
            open_groups = default_open(tree) if self.open_groups is None else self.open_groups & known
            found = layout(tree, open_groups, self.horizontal, cancelled)
            figures, finder = (
                (before.figures, before.finder) if before else (Figures.of(self.graph), Finder(self.graph))
            )
            return Scene(self.graph, found, figures, by_kind(tree), finder)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Building makes many small values and no cycles: the collector would only walk them again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Relayout(QObject):
    """Runs one wish at a time and emits `arrived(scene)` on the thread of the window."""

    arrived = Signal(object)
    _done = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool: ThreadPoolExecutor | None = None
        self._future: Future[Scene] | None = None
        self._stop = threading.Event()
        self._done.connect(self._receive, Qt.ConnectionType.QueuedConnection)

    @property
    def busy(self) -> bool:
        """A layout is being computed."""
        return self._pool is not None

    def request(self, wish: Wish) -> None:
        """Carry out `wish`, at once when it is small, in place of any other."""
        self.stop()
        if len(wish.graph) <= SYNCHRONOUS:
            self.arrived.emit(wish.carry_out(lambda: False))
            return
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, "canvas layout")
        self._future = self._pool.submit(wish.carry_out, self._stop.is_set)
        self._future.add_done_callback(self._done.emit)

    def stop(self) -> None:
        """Cancel what runs, and wait the moment until it has seen it."""
        self._stop.set()
        self._future = None
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _receive(self, future: Future[Scene]) -> None:
        if future is self._future:  # an older one may have ended just before it was told to stop
            self.stop()
            self.arrived.emit(future.result())
