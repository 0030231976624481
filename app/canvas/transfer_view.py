"""The view of what devices send one another along edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF

from espalier.app.canvas.boxes import Item
from espalier.app.canvas.camera import Area
from espalier.app.canvas.group_view import GroupView
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.transfer_painter import REACH
from espalier.app.canvas.transfers import Transfer, TransferLayer
from espalier.model.document.arrangement import Arrangement


class TransferView(GroupView):
    """A view that draws transfers between devices on its edges."""

    _transfers: tuple[Transfer, ...] = ()

    def set_transfers(self, transfers: Sequence[Transfer]) -> None:
        """Draw these transfers; none of them: plain edges."""
        if tuple(transfers) != self._transfers:
            self._transfers = tuple(transfers)
            self._show_transfers()

    @property
    def show_transfers(self) -> bool:
        """Whether transfers are drawn, if there are any."""
        return self.kit.transfers

    def set_show_transfers(self, shown: bool) -> None:
        """Draw transfers, or plain edges."""
        self.kit.transfers = shown
        self._show_transfers()

    def set_arrangement(self, arrangement: Arrangement) -> None:
        """Show other pins and frames; the view stays."""
        before = self.scene
        super().set_arrangement(arrangement)
        if self.scene is not before:
            self._show_transfers()

    def _install(self, scene: Scene) -> None:
        super()._install(scene)
        if self._transfers:
            self._show_transfers()

    def _show_transfers(self) -> None:
        scene = self.scene
        if scene is not None:
            shown = self._transfers if self.kit.transfers else ()
            layer = TransferLayer(scene.layout, scene.graph, shown, lambda item: _casts(scene, item)) if shown else None
            scene.transfers = layer
            self._recolour()

    def note_at(self, spot: QPointF) -> str:
        """The tool tip of a pixel: that of a chip, or of what lies below it."""
        layer = self.scene.transfers if self.scene is not None else None
        if layer is not None:
            x, y = self.camera.to_canvas(spot.x(), spot.y())
            area = (x - REACH, y - REACH, 2 * REACH, 2 * REACH)
            for chip in layer.chips(area, np.zeros(0, np.int64)):
                left, top, wide, high = chip.box
                if left <= x <= left + wide and top <= y <= top + high:
                    return chip.told
        return super().note_at(spot)


def _casts(scene: Scene, item: Item) -> list[Area]:
    """The places of the chips of format conversions at a box."""
    if item.kind != "node":
        return []
    x, y, _, _ = scene.layout.node_rects[item.place].tolist()
    return [chip.box for chip in scene.casts_in((x, y, 0.0, 0.0))]
