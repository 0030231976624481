"""Navigation by arrow keys: along the flow to a connected box, across it to the nearest one.

A box is a node, a collapsed group or a folded card. Boxes are numbered: first the nodes, by index in the layout, then
what hides nodes, by index in `hiding_rects`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.scene import Scene

Direction = Literal["left", "right", "up", "down"]


def step(scene: Scene, start: str | None, direction: Direction) -> list[str]:
    """The ids of the box reached from the one that shows `start`, all that a card hides; empty if there is none.

    Without a start: the first box.
    """
    boxes = _Boxes(scene)
    here = boxes.of(start)
    if here is None:
        return boxes.members(boxes.first())
    flow = ("left", "right") if scene.layout.horizontal else ("up", "down")
    there = boxes.linked(here, direction == flow[1]) if direction in flow else None
    return boxes.members(boxes.nearest(here, direction) if there is None else there)


class _Boxes:
    def __init__(self, scene: Scene) -> None:
        layout = scene.layout
        self._scene, self._nodes = scene, len(layout.nodes)
        self._box = np.where(scene.cover >= 0, scene.cover + self._nodes, -1)  # by node, -1: it has none
        self._box[layout.nodes] = np.arange(self._nodes)
        shown = np.concatenate([np.ones(self._nodes, bool), ~layout.group_open, np.ones(len(layout.folds), bool)])
        rects = np.vstack([layout.node_rects, scene.hiding_rects])
        self._middles = np.where(shown[:, None], rects[:, :2] + rects[:, 2:] / 2, np.nan)
        self._corners = np.where(shown[:, None], rects[:, :2], np.inf)

    def of(self, name: str | None) -> int | None:
        """The box that shows a node."""
        number = self._scene.layout.tree.index.get(name) if name is not None else None
        box = int(self._box[number]) if number is not None else -1
        return box if box >= 0 else None

    def first(self) -> int | None:
        """The uppermost box, of several the leftmost."""
        return int(np.lexsort(self._corners.T)[0]) if len(self._corners) else None

    def members(self, box: int | None) -> list[str]:
        """The ids of the nodes that a box shows or hides."""
        if box is None:
            return []
        ids = self._scene.layout.tree.ids
        return [ids[i] for i in np.flatnonzero(self._box == box).tolist()]

    def linked(self, here: int, forward: bool) -> int | None:
        """The nearest box that uses a result of this one, or whose result it uses."""
        ends: NDArray[np.int64] = self._box[self._scene.layout.tree.edges]
        own, other = (ends[:, 0], ends[:, 1]) if forward else (ends[:, 1], ends[:, 0])
        reached = np.unique(other[(own == here) & (other != here) & (other >= 0)])
        if not len(reached):
            return None
        away = np.abs(self._middles[reached] - self._middles[here]).sum(axis=1)
        return int(reached[np.argmin(away)])

    def nearest(self, here: int, direction: Direction) -> int | None:
        """The nearest box in a direction, by position."""
        away = self._middles - self._middles[here]
        axis, sign = (0 if direction in ("left", "right") else 1), (-1 if direction in ("left", "up") else 1)
        ahead = away[:, axis] * sign
        cost = np.where(ahead > 2, ahead + 2.5 * np.abs(away[:, 1 - axis]), np.inf)  # NaN is not ahead
        best = int(np.argmin(cost))
        return best if np.isfinite(cost[best]) else None
