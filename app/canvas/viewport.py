"""The painted surface of the canvas: camera, tiles, marks and cards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.bars import CanvasBars
from espalier.app.canvas.camera import Area, Camera
from espalier.app.canvas.overlay import BUSY, EMPTY, Marks, paint_marks, paint_message
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.scene_painter import ScenePainter
from espalier.app.canvas.tiles import MARGIN, Tiles
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.file_export import write_image

REST = 90  # milliseconds without movement until a new zoom is repainted
READABLE = 0.62  # minimum scale for reading


class Viewport(QWidget):
    """A widget that shows a scene through a camera. `camera_moved`: the user or a command moved the camera."""

    camera_moved = Signal()

    def __init__(self, parent: QWidget | None, palette: Palette) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName(tr("Graph"))
        self.setMinimumSize(160, 120)
        self.tokens = palette
        self.scene: Scene | None = None
        self.camera = Camera()
        self.marks = Marks()
        self.waiting = False
        self.kit = ScenePainter(palette)
        self.tiles = Tiles(self.kit)
        self._zooming = self._first_look = False
        self._middle: tuple[float, float] | None = None  # the restored centre, until the view is moved
        self._window_size = self.window().size()
        self._rest_timer = QTimer(self, singleShot=True, interval=REST)
        self._rest_timer.timeout.connect(self._rested)
        self._repaint_timer = QTimer(self, singleShot=True, interval=0)
        self._repaint_timer.timeout.connect(self.update)
        self.bars = CanvasBars(self, palette, self.seen)
        self.bars.minimap.moved.connect(self.centre)
        self.bars.all_wanted.connect(self.fit)
        self.bars.group_wanted.connect(self.show_group)

    def seen(self) -> QRectF:
        """The part of the canvas in view."""
        return QRectF(*self.camera.area(self.width(), self.height()))

    def moved(self, zooming: bool = False) -> None:
        """Repaint after a movement of the camera; cards and breadcrumb are updated when it rests."""
        self._zooming = zooming or (self._zooming and self._rest_timer.isActive())
        self._first_look, self._middle = False, None
        self._rest_timer.start()
        self.update()
        self.camera_moved.emit()

    @property
    def is_first_look(self) -> bool:
        """Whether the camera was not moved since the graph was first shown."""
        return self._first_look

    def _rested(self) -> None:
        self._zooming = False
        self.show_path()
        self.update()

    def show_path(self) -> None:
        """Update the breadcrumb."""
        if self.scene is not None:
            self.bars.show_path(self.scene, self.here())

    def here(self) -> int:
        """The innermost expanded group in the middle of the view."""
        if self.scene is None:
            return 0
        x, y = self.camera.to_canvas(self.width() / 2, self.height() / 2)
        around = self.scene.groups_in((x, y, 0.0, 0.0))
        groups = self.scene.layout.groups[around[self.scene.layout.group_open[around]]].tolist()
        tree_groups = self.scene.layout.tree.groups
        return max(groups, key=lambda g: tree_groups[g].depth, default=0)

    # ---- camera

    def zoom_at(self, factor: float, spot: QPointF) -> None:
        """Zoom around a pixel."""
        self.camera.zoom(factor, spot.x(), spot.y())
        self.moved(zooming=True)

    def zoom_by(self, factor: float) -> None:
        """Zoom around the middle of the view."""
        self.zoom_at(factor, QPointF(self.width() / 2, self.height() / 2))

    def centre(self, x: float, y: float) -> None:
        """Centre a canvas point."""
        self.camera.centre(x, y, self.width(), self.height())
        self.moved()

    def hold(self, x: float, y: float) -> None:
        """Centre a canvas point, and keep it centred while the widget is resized."""
        self.centre(x, y)
        self._middle = (x, y)

    def look(self) -> tuple[float, float, float]:
        """The scale and the canvas point in the middle of the view."""
        return (self.camera.scale, *self.camera.to_canvas(self.width() / 2, self.height() / 2))

    def look_at(self, scale: float, x: float, y: float) -> None:
        """Centre a canvas point at a scale, and keep it centred while the widget is resized."""
        self.camera.scale = scale
        self.hold(x, y)

    def frame(self, area: Area) -> None:
        """Fit an area into the view."""
        self.camera.fit(area, _area(self.bars.room()))
        self.moved()

    def fit(self) -> None:
        """Fit the graph into the view; if it fits already but is too small to read, show its start."""
        if self.scene:
            before = (self.camera.scale, self.camera.x, self.camera.y)
            self.frame(self.scene.area)
            if before == (self.camera.scale, self.camera.x, self.camera.y) and self.camera.scale < READABLE:
                self.start_look()

    def start_look(self) -> None:
        """Set a readable first view: the whole graph if it is small, otherwise its start."""
        if self.scene is None:
            return
        self.camera.fit(self.scene.area, _area(self.bars.room()))
        if self.camera.scale < READABLE:
            self._show_start(self.scene)
        self.moved()
        self._first_look = True

    def _show_start(self, scene: Scene) -> None:
        """Show the start of the flow; centre the first node if the graph is wider than the view."""
        left, top, wide, high = _area(self.bars.room())
        sides = ((left, wide, scene.layout.width), (top, high, scene.layout.height))
        edge, front = scene.area[:2][:: -1 if scene.layout.horizontal else 1]  # of the bounds, across and along
        (start, room, across), (begin, _, _) = sides[::-1] if scene.layout.horizontal else sides
        scale = self.camera.scale = min(max(room / across, READABLE), 1.0)
        first = scene.layout.node_rects[:1, [1, 3] if scene.layout.horizontal else [0, 2]]
        place = float((first[:, 0] + first[:, 1] / 2).sum()) - (start + room / 2) / scale
        place = min(max(place, edge - start / scale), edge + across - (start + room) / scale)
        if across * scale <= room:
            place = edge + across / 2 - (start + room / 2) / scale
        along = front - begin / scale
        self.camera.x, self.camera.y = (along, place) if scene.layout.horizontal else (place, along)

    def bring(self, node: int) -> None:
        """Bring a node into view at a readable scale; does nothing if it is in view already."""
        rect = self.scene.rect_of(node) if self.scene else None
        if rect is None:
            return
        x, y, w, h = rect
        seen = self.seen().adjusted(20, 20, -20, -20)
        if self.camera.scale < READABLE or not seen.contains(QRectF(x, y, w, h)):
            self.camera.scale = max(self.camera.scale, READABLE + 0.2)
            self.centre(x + w / 2, y + h / 2)

    def show_group(self, number: int) -> None:
        """Bring a whole group into view, or the fold that hides it."""
        if self.scene and (rect := self.scene.rect_of_group(number)) is not None:
            self.frame(rect)

    # ---- painting

    def repaint_all(self) -> None:
        """Repaint everything in place."""
        self.tiles.stale()
        self.update()

    def repaint_areas(self, areas: Iterable[Area | None]) -> None:
        """Repaint these areas in place."""
        changed = [a for a in areas if a is not None]
        self.tiles.stale(changed)
        seen = self.seen()
        for area in changed:
            if seen.intersects(box := QRectF(*area).adjusted(-MARGIN, -MARGIN, MARGIN, MARGIN)):
                left, top = self.camera.to_screen(box.x(), box.y())
                self.update(QRectF(left, top, box.width() * self.camera.scale, box.height() * self.camera.scale)
                            .toAlignedRect().adjusted(-1, -1, 1, 1))  # fmt: skip

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        try:
            painter.fillRect(self.rect(), QColor(self.tokens.background))
            view = QRectF(self.rect())
            if self.scene is None:
                message = (BUSY, "") if self.waiting else EMPTY
                paint_message(painter, view, *message, self.tokens)
                return
            done = self.tiles.show(painter, self.scene, self.camera, QSizeF(self.size()), self._zooming)
            self.bars.show_zoom(self.camera.scale)
            self.bars.minimap.update()
            paint_marks(painter, self.scene, self.kit, self.camera, self.marks, view)
            if not done and not self._zooming:
                self._repaint_timer.start()
        finally:
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the first or the restored view until the user moves it, then the middle where the window is resized."""
        window = self.window().size()
        if self._first_look:
            self.start_look()
        elif self._middle is not None:
            self.hold(*self._middle)
        elif window != self._window_size and event.oldSize().isValid():  # a panel beside it leaves the corner in place
            grown = event.size() - event.oldSize()
            self.camera.pan(grown.width() / 2, grown.height() / 2)
        self._window_size = window
        super().resizeEvent(event)

    def render(self, path: Path, size: tuple[int, int]) -> None:
        """Paint the whole graph into a picture file. Raises FileError."""
        image = QImage(*size, QImage.Format.Format_RGB32)
        image.fill(QColor(self.tokens.background))
        if self.scene:
            camera = Camera()
            camera.fit(self.scene.area, (24, 24, max(size[0] - 48, 32), max(size[1] - 48, 32)), max_scale=4.0)
            painter = QPainter(image)
            painter.scale(camera.scale, camera.scale)
            painter.translate(-camera.x, -camera.y)
            ScenePainter(self.tokens, self.kit.casts).paint(painter, self.scene, camera.area(*size), camera.scale, 1.0)
            painter.end()
        write_image(path, image)


def _area(rect: QRectF) -> Area:
    return rect.x(), rect.y(), rect.width(), rect.height()
