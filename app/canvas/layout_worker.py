"""Computes layouts, those of large graphs in a thread; a new request cancels the previous one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal

from espalier.app.canvas.arranging import arranged
from espalier.app.canvas.colouring import by_kind
from espalier.app.canvas.hierarchy import Hierarchy, default_open
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import layout
from espalier.app.canvas.node_metrics import NodeMetrics
from espalier.app.canvas.node_search import NodeSearch
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.transfer_layers import layer_of
from espalier.app.canvas.transfers import Transfer
from espalier.app.widgets.collector import without_garbage_collection
from espalier.model.document.arrangement import UNARRANGED, Arrangement
from espalier.model.graph.graph import Graph

SYNCHRONOUS = 150  # nodes up to which a layout takes less than a frame


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """A layout to compute; `before`: a scene of the same structure; `open_groups` None: choose by size."""

    graph: Graph
    before: Scene | None
    open_groups: frozenset[str] | None
    horizontal: bool
    show_scalars: bool = False
    folding: bool = True
    show_shapes: bool = False
    arrangement: Arrangement = UNARRANGED
    transfers: tuple[Transfer, ...] = ()

    def _build(self, cancelled: Callable[[], bool]) -> Hierarchy:
        return build(self.graph, self.show_scalars, cancelled, self.show_shapes)

    def compute(self, cancelled: Callable[[], bool]) -> Scene:
        """Compute the scene. Raises Cancelled."""
        with without_garbage_collection():
            before = self.before
            tree = before.layout.tree if before else self._build(cancelled)
            paths = {g.path for g in tree.groups}
            open_groups = (
                default_open(tree, folding=self.folding) if self.open_groups is None else self.open_groups & paths
            )
            new_layout = layout(tree, open_groups, self.horizontal, cancelled, self.folding)
            figures, finder = (
                (before.figures, before.finder) if before else (NodeMetrics.of(self.graph), NodeSearch(self.graph))
            )
            shown = arranged(new_layout, self.arrangement)
            scene = Scene(self.graph, shown, figures, by_kind(tree), finder, base=new_layout,
                          arrangement=self.arrangement)  # fmt: skip
            for place in range(len(new_layout.folds)):  # here, not in the first frame
                scene.fold_metrics(place)
            if self.transfers:
                scene.transfers = layer_of(scene, self.transfers)
            return scene


class LayoutWorker(QObject):
    """Computes one request at a time and emits `arrived(scene)` in the window's thread."""

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
        """Whether a layout is being computed."""
        return self._pool is not None

    def request(self, request: LayoutRequest) -> None:
        """Compute a layout, at once if the graph is small; cancels the previous request."""
        self.stop()
        if len(request.graph) <= SYNCHRONOUS:
            self.arrived.emit(request.compute(lambda: False))
            return
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, "canvas layout")
        self._future = self._pool.submit(request.compute, self._stop.is_set)
        self._future.add_done_callback(self._done.emit)

    def stop(self) -> None:
        """Cancel the running computation and wait for its end."""
        self._stop.set()
        self._future = None
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _receive(self, future: Future[Scene]) -> None:
        if future is self._future:  # a cancelled one may have ended just before
            self.stop()
            self.arrived.emit(future.result())
