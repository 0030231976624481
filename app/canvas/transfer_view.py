"""The view of what devices send one another along edges."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.group_view import GroupView
from espalier.app.canvas.layout_worker import SYNCHRONOUS
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.transfer_layers import layer_of
from espalier.app.canvas.transfer_painter import REACH
from espalier.app.canvas.transfers import Transfer, TransferLayer
from espalier.app.jobs.latest_task import LatestTask
from espalier.app.theme import Palette
from espalier.model.document.arrangement import Arrangement


class TransferView(GroupView):
    """A view that draws transfers between devices on its edges.

    Those of large graphs are placed in a thread, together with a new layout where there is one. Until they are, none
    are drawn.
    """

    def __init__(self, parent: QWidget | None, palette: Palette) -> None:
        super().__init__(parent, palette)
        self._transfers: tuple[Transfer, ...] = ()
        self._placed_in: Scene | None = None  # the scene for which they are being placed
        self._placing = LatestTask(self, self._placed)

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

    def shown_transfers(self) -> tuple[Transfer, ...]:
        """The transfers that are drawn."""
        return self._transfers if self.kit.transfers else ()

    def set_arrangement(self, arrangement: Arrangement) -> None:
        """Show other pins and frames; the view stays."""
        before = self.scene
        super().set_arrangement(arrangement)
        if self.scene is not before:
            self._show_transfers()

    def _install(self, scene: Scene) -> None:
        super()._install(scene)
        now = self.scene
        if now is not None and (now.transfers.transfers if now.transfers else ()) is not self.shown_transfers():
            self._show_transfers()

    def _show_transfers(self) -> None:
        self._placing.drop()
        scene, shown = self.scene, self.shown_transfers()
        if scene is None:
            return
        large = len(scene.graph) > SYNCHRONOUS and bool(shown)
        if large:
            self._placed_in = scene
            self._placing.ask(layer_of, scene, shown)
        self._show_layer(scene, layer_of(scene, shown) if shown and not large else None)

    def _placed(self, future: Future[TransferLayer]) -> None:
        if self.scene is not None and self.scene is self._placed_in:
            self._show_layer(self.scene, future.result())

    def _show_layer(self, scene: Scene, layer: TransferLayer | None) -> None:
        if scene.transfers is not layer:
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
