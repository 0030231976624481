"""Linked groups of two canvases: groups and folded layers are expanded or collapsed in both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from espalier.app.canvas.view import GraphCanvas

Paths = frozenset[str]


class LinkedGroups:
    """Transfers changes only, so that groups of only one of the graphs keep their state.

    `is_linked()`: whether to link. `settled(here)`: canvas `here` has laid out groups changed by the other.
    """

    def __init__(
        self, canvases: tuple[GraphCanvas, GraphCanvas], is_linked: Callable[[], bool], settled: Callable[[int], object]
    ) -> None:
        self._canvases, self._is_linked, self._settled = canvases, is_linked, settled
        self._open_paths: list[Paths | None] = [None, None]
        for here in (0, 1):
            canvases[here].open_changed.connect(partial(self._changed, here))

    def restart(self) -> None:
        """Start from the present groups, after the graphs were set."""
        self._open_paths = [canvas.open_groups for canvas in self._canvases]

    def _changed(self, here: int, paths: Paths) -> None:
        before, self._open_paths[here] = self._open_paths[here], paths
        there = 1 - here
        open_paths = self._open_paths[there]
        if before is None or open_paths is None or not self._is_linked():
            return
        if paths == before:
            self._settled(here)
            return
        opened, closed = paths - before, (before - paths) & self._paths(here)
        target = (open_paths | (opened & self._paths(there))) - closed
        if target != open_paths:
            self._open_paths[there] = target
            self._canvases[there].set_open_groups(target)

    def _paths(self, of: int) -> Paths:
        scene = self._canvases[of].scene
        return frozenset(scene.layout.tree.paths) if scene is not None else frozenset()
