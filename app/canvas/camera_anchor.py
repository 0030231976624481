"""Keeps the part in view in place when a new layout arrives."""

from __future__ import annotations

import numpy as np

from espalier.app.canvas.camera import Camera
from espalier.app.canvas.scene import Scene

GAP = 12  # pixels between the top of the view and a group put there


def shift(old: Scene, new: Scene, camera: Camera, size: tuple[float, float], anchor: str | None) -> tuple[float, float]:
    """The movement of the camera that keeps the group `anchor`, or the node nearest to the middle, in place.

    A group whose top is above the view is put at the top of the view, so that what it becomes is seen.
    """
    top = camera.area(*size)[1] + GAP / camera.scale
    offset = _group(old, new, anchor, top) if anchor else None
    return offset or _middle(old, new, camera, size) or (0.0, 0.0)


def _group(old: Scene, new: Scene, path: str, top: float) -> tuple[float, float] | None:
    before, after = (s.rect_of_group(s.layout.tree.paths.get(path, -1)) for s in (old, new))
    if before is None or after is None:
        return None
    return after[0] + after[2] / 2 - before[0] - before[2] / 2, after[1] - max(before[1], top)


def _middle(old: Scene, new: Scene, camera: Camera, size: tuple[float, float]) -> tuple[float, float] | None:
    nodes = old.nodes_in(camera.area(*size))
    if not len(nodes):
        return None
    rects = old.layout.node_rects[nodes]
    x, y = camera.to_canvas(size[0] / 2, size[1] / 2)
    far = np.abs(rects[:, 0] + rects[:, 2] / 2 - x) + np.abs(rects[:, 1] + rects[:, 3] / 2 - y)
    for k in np.argsort(far, kind="stable")[:200].tolist():
        name = old.layout.tree.ids[old.layout.nodes[nodes[k]]]
        after = new.rect_of(new.layout.tree.index[name]) if name in new.layout.tree.index else None
        if after is not None:
            return after[0] + after[2] / 2 - rects[k, 0] - rects[k, 2] / 2, after[1] - rects[k, 1]
    return None
