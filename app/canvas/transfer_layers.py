"""The transfers between devices of a scene, beside its other chips."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.app.canvas.boxes import Item
from espalier.app.canvas.camera import Area
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.transfers import Transfer, TransferLayer


def layer_of(scene: Scene, transfers: Sequence[Transfer]) -> TransferLayer:
    """Transfers on the edges and boxes of a scene; may be called in a thread."""
    return TransferLayer(scene.layout, scene.graph, transfers, lambda item: _casts(scene, item))


def _casts(scene: Scene, item: Item) -> list[Area]:
    """The places of the chips of format conversions at a box."""
    if item.kind != "node":
        return []
    x, y, _, _ = scene.layout.node_rects[item.place].tolist()
    return [chip.box for chip in scene.casts_in((x, y, 0.0, 0.0))]
