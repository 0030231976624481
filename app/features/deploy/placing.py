"""The transfers of a graph's placements, computed in a thread where many nodes have changed."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.features.deploy.transfers import NONE_PLACED, PlacedTransfers
from espalier.app.jobs.latest_task import LatestTask
from espalier.app.widgets.collector import without_garbage_collection

if TYPE_CHECKING:
    from espalier.app.canvas.transfers import Transfer
    from espalier.model.graph.graph import Graph, Node

SYNCHRONOUS = 300  # changed nodes whose transfers take about a frame


class Placing(QObject):
    """`changed`: the transfers of a graph that was asked about are known now."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._task = LatestTask(self, self._computed)
        self.clear()

    def clear(self) -> None:
        """Forget all graphs."""
        self._task.drop()
        self._known, self._graph, self._asked = NONE_PLACED, None, None
        self._all: tuple[Transfer, ...] = ()

    def transfers(self, graph: Graph) -> tuple[Transfer, ...]:
        """What a forward run of the graph redistributes; nothing while that is computed."""
        if graph is self._graph:
            return self._all
        if graph is self._asked:
            return ()
        if not any(n.sharding for n in graph):
            self.clear()
            return ()
        changed = self._known.changed(graph)
        if len(changed) <= SYNCHRONOUS:
            self._task.drop()
            self._keep(graph, self._known.after(graph, changed))
            return self._all
        self._asked = graph
        self._task.ask(_after, self._known, graph, changed)
        return ()

    def _computed(self, future: Future[PlacedTransfers]) -> None:
        if self._asked is not None:
            self._keep(self._asked, future.result())
            self.changed.emit()

    def _keep(self, graph: Graph, known: PlacedTransfers) -> None:
        self._known, self._graph, self._asked = known, graph, None
        self._all = known.all


def _after(known: PlacedTransfers, graph: Graph, changed: list[Node]) -> PlacedTransfers:
    """In the thread: without the pauses of a garbage collection, in which the window would wait."""
    with without_garbage_collection():
        return known.after(graph, changed)
