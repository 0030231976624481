"""Preview of a trial on the graph: its formats and sparsities as badges and colours."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.passes.search.space import Space
from espalier.passes.search.trial import Trial
from espalier.passes.search.trial_graph import planned

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas


def trial_graph(graph: Graph, space: Space, params: Mapping[str, Any]) -> Graph:
    """The graph with the choices of a trial; formats of plug-ins that are not loaded are skipped."""
    for choice in space.choices:
        if choice.name in params:
            with contextlib.suppress(EspalierError):
                graph = planned(graph, space, choice, params[choice.name])
    return graph


class TrialPreview(QObject):
    """Shows one trial at a time on the canvas; `shown`: the trial, None without a preview."""

    shown = Signal(object)

    def __init__(self, canvas: GraphCanvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self._mode: str | None = None
        self._pinned: tuple[Space, Trial] | None = None
        self._shown_trial: Trial | None = None
        self._looked_at = True

    @property
    def trial(self) -> Trial | None:
        """The trial shown on the graph."""
        return self._shown_trial

    def pin(self, space: Space | None, trial: Trial | None) -> None:
        """Show a trial until another one is pinned; None ends the preview."""
        self._pinned = (space, trial) if space is not None and trial is not None else None
        self._show(self._pinned)

    def hover(self, space: Space | None, trial: Trial | None) -> None:
        """Show a trial while it is hovered, then the pinned one again."""
        self._show((space, trial) if space is not None and trial is not None else self._pinned)

    def end(self) -> None:
        """End the preview."""
        self.pin(None, None)

    def set_visible(self, on: bool) -> None:
        """Follow the visibility of the panel: a hidden panel shows no preview, a visible one the pinned trial."""
        self._looked_at = on
        if on:
            QTimer.singleShot(0, self, self._update_preview)  # after another panel has ended its preview
        else:
            self._show(None)

    def _update_preview(self) -> None:
        self._show(self._pinned)

    def _show(self, wish: tuple[Space, Trial] | None) -> None:
        canvas, wish = self._canvas, wish if self._looked_at else None
        graph = canvas.graph
        if wish is None or graph is None or not wish[1].params:
            if self._shown_trial is not None:
                self._shown_trial = None
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
        self._shown_trial = wish[1]
        canvas.preview(trial_graph(graph, wish[0], wish[1].params))
        self.shown.emit(wish[1])
