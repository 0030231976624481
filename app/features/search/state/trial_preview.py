"""A trial on the graph before it is applied: the formats and shares that it chose, as badges and colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import offered
from espalier.passes.costs.base import with_candidate
from espalier.passes.costs.parallel import with_products
from espalier.passes.search.families import format_of
from espalier.passes.search.space import Space, fit_key
from espalier.passes.search.trial import Trial
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas


@dataclass(slots=True)
class _Wish:
    """What a trial chose for one port of a node."""

    format: str | None = None
    sparsity: float | None = None
    method: str = "l1"


def trial_graph(graph: Graph, space: Space, params: Mapping[str, Any]) -> Graph:
    """The graph with the formats and shares that a trial chose; what it lacks of the space's nodes is passed over."""
    wishes: dict[tuple[str, str], _Wish] = {}
    for choice in space.choices:
        if choice.name not in params:
            continue
        value = params[choice.name]
        for node in choice.nodes:
            if choice.kind == "format":
                for port in choice.ports:
                    fitted = space.fitted.get(fit_key(node, port, str(value)), str(value))
                    wishes.setdefault((node, port), _Wish()).format = fitted
            elif choice.kind == "sparsity":
                held = wishes.setdefault((node, "weight"), _Wish())
                held.sparsity, held.method = float(value), choice.method
            elif choice.kind == "parallel" and node in graph.nodes:
                graph = graph.replace(with_products(graph.nodes[node], graph, int(value)))
    nodes: dict[str, Node] = {}
    for (name, port), wish in wishes.items():
        node = nodes.get(name) or graph.nodes.get(name)
        if node is not None and port in offered(node):
            nodes[name] = with_candidate(node, port, _candidate(node, port, wish))
    return graph.replace(*nodes.values()) if nodes else graph


def _candidate(node: Node, port: str, wish: _Wish) -> Candidate:
    """What is not chosen stays as it is."""
    held = node.precision.get(port)
    try:
        chosen = format_of(wish.format) if wish.format is not None else held.format if held else None
    except EspalierError:  # a plug-in's format that is not loaded here
        chosen = None
    return Candidate(chosen, wish.sparsity or 0.0, wish.method)


class TrialPreview(QObject):
    """Shows one trial at a time on the canvas; `shown` tells which, None when the graph is itself again."""

    shown = Signal(object)

    def __init__(self, canvas: GraphCanvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self._mode: str | None = None
        self._pinned: tuple[Space, Trial] | None = None
        self._now: Trial | None = None
        self._looked_at = True

    @property
    def trial(self) -> Trial | None:
        """The trial that is on the graph."""
        return self._now

    def pin(self, space: Space | None, trial: Trial | None) -> None:
        """Show a trial until it is unpinned or another is; None ends."""
        self._pinned = (space, trial) if space is not None and trial is not None else None
        self._show(self._pinned)

    def hover(self, space: Space | None, trial: Trial | None) -> None:
        """Show a trial while the pointer is on it; then the pinned one again."""
        self._show((space, trial) if space is not None and trial is not None else self._pinned)

    def end(self) -> None:
        """The graph as it is."""
        self.pin(None, None)

    def look_on(self, on: bool) -> None:
        """Whether the trials are in front: behind, the graph is itself again; then the pinned one comes back."""
        self._looked_at = on
        if on:
            QTimer.singleShot(0, self, self._again)  # once another panel has ended its own
        else:
            self._show(None)

    def _again(self) -> None:
        self._show(self._pinned)

    def _show(self, wish: tuple[Space, Trial] | None) -> None:
        canvas, wish = self._canvas, wish if self._looked_at else None
        graph = canvas.graph
        if wish is None or graph is None or not wish[1].params:
            if self._now is not None:
                self._now = None
                canvas.preview(None)
                if self._mode is not None:
                    canvas.set_mode(self._mode)
                    self._mode = None
                self.shown.emit(None)
            return
        if self._mode is None:
            self._mode = canvas.mode
            if canvas.mode == "kind":
                canvas.set_mode("bits")
        self._now = wish[1]
        canvas.preview(trial_graph(graph, *wish_parts(wish)))
        self.shown.emit(wish[1])


def wish_parts(wish: tuple[Space, Trial]) -> tuple[Space, Mapping[str, Any]]:
    """(space, what was chosen)."""
    return wish[0], wish[1].params
