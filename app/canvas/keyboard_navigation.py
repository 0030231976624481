"""Navigation by arrow keys: along the flow to a connected node, across it to the nearest node."""

from __future__ import annotations

from typing import Literal

import numpy as np

from espalier.app.canvas.scene import Scene

Direction = Literal["left", "right", "up", "down"]


def step(scene: Scene, start: str | None, direction: Direction) -> str | None:
    """The node reached from `start`, or None; without a start the first node."""
    layout = scene.layout
    if not len(layout.nodes):
        return None
    if start is None or layout.tree.index.get(start) not in scene.place_of:
        first = np.lexsort((layout.node_rects[:, 0], layout.node_rects[:, 1]))[0]
        return layout.tree.ids[layout.nodes[first]]
    flow = ("left", "right") if layout.horizontal else ("up", "down")
    number = layout.tree.index[start]
    if direction in flow:
        node = _linked(scene, number, forward=direction == flow[1])
        if node is not None:
            return layout.tree.ids[node]
    return _nearest(scene, number, direction)


def _linked(scene: Scene, number: int, forward: bool) -> int | None:
    """The nearest visible node that uses `number`, or that it uses."""
    edges = scene.layout.tree.edges
    here, there = (0, 1) if forward else (1, 0)
    candidates = edges[edges[:, here] == number, there]
    shown = [n for n in dict.fromkeys(candidates.tolist()) if n in scene.place_of]
    if not shown:
        return None
    spot = _middle(scene, number)
    return min(shown, key=lambda n: float(np.abs(_middle(scene, n) - spot).sum()))


def _middle(scene: Scene, number: int) -> np.ndarray:
    x, y, w, h = scene.layout.node_rects[scene.place_of[number]]
    return np.array([x + w / 2, y + h / 2])


def _nearest(scene: Scene, number: int, direction: Direction) -> str | None:
    """The nearest node in a direction, by position."""
    rects = scene.layout.node_rects
    spot = _middle(scene, number)
    away = rects[:, :2] + rects[:, 2:] / 2 - spot
    axis, sign = (
        (0, -1 if direction == "left" else 1) if direction in ("left", "right") else (1, -1 if direction == "up" else 1)
    )
    ahead = away[:, axis] * sign
    cost = np.where(ahead > 2, ahead + 2.5 * np.abs(away[:, 1 - axis]), np.inf)
    best = int(np.argmin(cost))
    return scene.layout.tree.ids[scene.layout.nodes[best]] if np.isfinite(cost[best]) else None
