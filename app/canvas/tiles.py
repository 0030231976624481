"""Caches the canvas as square tiles, so that panning paints only new areas.

Painting has a time budget per frame; missing tiles are replaced by scaled tiles of the last zoom, or by group frames.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict

from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QColor, QPainter, QPixmap

from espalier.app.canvas.camera import Area, Camera
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.scene_painter import DETAIL_FROM, ScenePainter

SIDE = 256  # logical pixels
BUDGET = 0.0035  # seconds of painting per frame
MEMORY = 128 * 2**20  # bytes of cached tiles
MARGIN = 8  # canvas units that a node's mark extends beyond it
MAX_PATCHES = 4  # of one tile; with more the whole tile is repainted
Key = tuple[int, int]


class Tiles:
    """The finished tiles of one scale, and those of the previous scale as placeholders."""

    def __init__(self, painter: ScenePainter) -> None:
        self.painter = painter
        self.done: OrderedDict[Key, QPixmap] = OrderedDict()
        self.scale, self.ratio = 1.0, 1.0
        self._old: set[Key] = set()
        self._patches: dict[Key, list[Area]] = {}
        self._before: tuple[float, dict[Key, QPixmap]] | None = None

    def clear(self) -> None:
        """Delete all tiles, after a change of layout or palette."""
        self.done.clear()
        self._old.clear()
        self._patches.clear()
        self._before = None

    def stale(self, areas: list[Area] | None = None) -> None:
        """Mark areas, or all tiles, for repainting; the old tiles are shown until then."""
        if areas is None:
            self._old.update(self.done)
        for x, y, w, h in areas or ():
            around = (x - MARGIN, y - MARGIN, w + 2 * MARGIN, h + 2 * MARGIN)
            for key in filter(self.done.__contains__, self._keys(around)):
                patches = self._patches.setdefault(key, [])
                patches.append(around)
                if len(patches) > MAX_PATCHES or self.scale < DETAIL_FROM:  # small zoom thins out a whole area
                    self._old.add(key)

    def show(self, target: QPainter, scene: Scene, camera: Camera, size: QSizeF, moving: bool) -> bool:
        """Draw the view; returns whether all of it is final. `moving`: the zoom is changing, so paint no new tiles."""
        ratio = target.device().devicePixelRatioF()
        area = camera.area(size.width(), size.height())
        if not moving and (camera.scale != self.scale or ratio != self.ratio):
            self._change(camera.scale, ratio)
        if camera.scale != self.scale:
            self._stand_in(target, scene, camera, size, (self.scale, dict(self.done)))
            return False
        keys = self._keys(area)
        missing = [k for k in keys if k not in self.done or k in self._old or k in self._patches]
        if missing:
            missing = self._paint_some(scene, missing, camera, size)
        if any(k not in self.done for k in missing):
            self._stand_in(target, scene, camera, size, self._before)
        else:
            self._before = None
        left, top = self._corner(camera)
        for key in keys:
            tile = self.done.get(key)
            if tile is not None:
                target.drawPixmap(QPointF(key[0] * SIDE - left, key[1] * SIDE - top), tile)
        self._trim()
        return not missing

    def _corner(self, camera: Camera) -> tuple[float, float]:
        """The corner of the view in scaled canvas pixels, rounded to device pixels."""
        k = self.ratio
        return round(camera.x * camera.scale * k) / k, round(camera.y * camera.scale * k) / k

    def _keys(self, area: Area) -> list[Key]:
        x, y, w, h = (v * self.scale / SIDE for v in area)
        across = range(math.floor(x), math.floor(x + w) + 1)
        return [(i, j) for j in range(math.floor(y), math.floor(y + h) + 1) for i in across]

    def _change(self, scale: float, ratio: float) -> None:
        if self.done:
            self._before = (self.scale, dict(self.done))
        self.done.clear()
        self._old.clear()
        self._patches.clear()
        self.scale, self.ratio = scale, ratio

    def _paint_some(self, scene: Scene, missing: list[Key], camera: Camera, size: QSizeF) -> list[Key]:
        """Paint tiles, the centre first, within the time budget; returns the missing ones."""
        cx = (camera.x * self.scale + size.width() / 2) / SIDE - 0.5
        cy = (camera.y * self.scale + size.height() / 2) / SIDE - 0.5
        missing.sort(key=lambda k: (k[0] - cx) ** 2 + (k[1] - cy) ** 2)
        start = time.perf_counter()
        for n, key in enumerate(missing):
            if n and time.perf_counter() - start > BUDGET:
                return missing[n:]
            patches = self._patches.pop(key, [])
            if key in self.done and key not in self._old:
                for area in patches:
                    self._paint(scene, self.done[key], key, area)
                continue
            self.done[key] = self._tile(scene, key)
            self._old.discard(key)
        return []

    def _tile(self, scene: Scene, key: Key) -> QPixmap:
        side = math.ceil(SIDE * self.ratio)
        tile = QPixmap(side, side)
        tile.setDevicePixelRatio(self.ratio)
        side_canvas = SIDE / self.scale
        self._paint(scene, tile, key, (key[0] * side_canvas, key[1] * side_canvas, side_canvas, side_canvas))
        return tile

    def _paint(self, scene: Scene, tile: QPixmap, key: Key, area: Area) -> None:
        """Paint an area onto a tile, rounded to device pixels."""
        x, y, w, h = area
        k = self.ratio
        left, top = (math.floor((v * self.scale - n * SIDE) * k) / k for v, n in zip((x, y), key, strict=True))
        right, low = (math.ceil((v * self.scale - n * SIDE) * k) / k for v, n in zip((x + w, y + h), key, strict=True))
        box = QRectF(left, top, right - left, low - top).intersected(QRectF(0, 0, SIDE, SIDE))
        painter = QPainter(tile)
        try:
            painter.setClipRect(box)
            painter.fillRect(box, QColor(self.painter.palette.background))
            painter.translate(-key[0] * SIDE, -key[1] * SIDE)
            painter.scale(self.scale, self.scale)
            self.painter.paint(painter, scene, area, self.scale, self.ratio)
        finally:
            painter.end()

    def _stand_in(
        self,
        target: QPainter,
        scene: Scene,
        camera: Camera,
        size: QSizeF,
        old: tuple[float, dict[Key, QPixmap]] | None,
    ) -> None:
        target.save()
        target.scale(camera.scale, camera.scale)
        target.translate(-camera.x, -camera.y)
        area = camera.area(size.width(), size.height())
        self.painter.skeleton(target, scene, area, camera.scale)
        target.restore()
        if old is None:
            return
        scale, tiles = old
        factor = camera.scale / scale
        side = SIDE * factor
        for (i, j), tile in tiles.items():
            x, y = i * side - camera.x * camera.scale, j * side - camera.y * camera.scale
            if x < size.width() and y < size.height() and x + side > 0 and y + side > 0:
                target.drawPixmap(QRectF(x, y, side, side), tile, QRectF(tile.rect()))

    def _trim(self) -> None:
        limit = max(MEMORY // int((SIDE * self.ratio) ** 2 * 4), 64)
        while len(self.done) > limit:
            key = self.done.popitem(last=False)[0]
            self._old.discard(key)
            self._patches.pop(key, None)
