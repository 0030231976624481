"""Links the groups of two canvases: what is expanded or collapsed in one is so in the other, folded layers too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from espalier.app.canvas.view import GraphCanvas

Paths = frozenset[str]


class LinkedGroups:
    """Passes on what changed, so that groups that only one of the graphs has stay as they are.

    `is_linked()`: whether to. `settled(here)`: canvas `here` has laid out groups that came from the other.
    """

    def __init__(
        self, canvases: tuple[GraphCanvas, GraphCanvas], is_linked: Callable[[], bool], settled: Callable[[int], object]
    ) -> None:
        self._canvases, self._is_linked, self._settled = canvases, is_linked, settled
        self._open_paths: list[Paths | None] = [None, None]
        for here in (0, 1):
            canvases[here].open_changed.connect(partial(self._changed, here))

    def restart(self) -> None:
        """Begin with what each canvas shows, after its graph was set."""
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
