"""The painted surface below the canvas's behaviour: camera, tiles, marks and cards, frame by frame."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, QTimer
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.camera import Area, Camera
from espalier.app.canvas.chrome import Chrome
from espalier.app.canvas.overlay import BUSY, EMPTY, Marks, paint_marks, paint_words
from espalier.app.canvas.paint import Painter
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.tiles import MARGIN, Tiles
from espalier.app.theme import Palette
from espalier.app.widgets.file_export import write_image

REST = 90  # ms without movement after which a zoom is painted anew
READABLE = 0.62


class Stage(QWidget):
    """A widget that shows a scene through a camera."""

    def __init__(self, parent: QWidget | None, palette: Palette) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Graph")
        self.setMinimumSize(160, 120)
        self.tokens = palette
        self.scene: Scene | None = None
        self.camera = Camera()
        self.marks = Marks()
        self.waiting = False
        self.kit = Painter(palette)
        self.tiles = Tiles(self.kit)
        self._zooming = self._first_look = False
        self._middle: tuple[float, float] | None = None  # that was remembered, until somebody moves the view
        self._rest = QTimer(self, singleShot=True, interval=REST)
        self._rest.timeout.connect(self._rested)
        self._again = QTimer(self, singleShot=True, interval=0)
        self._again.timeout.connect(self.update)
        self.chrome = Chrome(self, palette, self.seen)
        self.chrome.minimap.moved.connect(self.centre)
        self.chrome.all_wanted.connect(self.fit)
        self.chrome.group_wanted.connect(self.show_group)

    def seen(self) -> QRectF:
        """The part of the canvas in view."""
        return QRectF(*self.camera.area(self.width(), self.height()))

    def moved(self, zooming: bool = False) -> None:
        """The camera has moved: show it, and do the rest once it stands still."""
        self._zooming = zooming or (self._zooming and self._rest.isActive())
        self._first_look, self._middle = False, None
        self._rest.start()
        self.update()

    def _rested(self) -> None:
        self._zooming = False
        self.tell_place()
        if self.scene is not None:
            self.chrome.look_changed(self.seen().contains(QRectF(*self.scene.area)))
        self.update()

    def tell_place(self) -> None:
        """Name where the user is in the breadcrumb."""
        if self.scene is not None:
            self.chrome.trace(self.scene, self.here())

    def here(self) -> int:
        """The innermost open group in the middle of the view."""
        if self.scene is None:
            return 0
        x, y = self.camera.to_canvas(self.width() / 2, self.height() / 2)
        around = self.scene.groups_in((x, y, 0.0, 0.0))
        groups = self.scene.layout.groups[around[self.scene.layout.group_open[around]]].tolist()
        known = self.scene.layout.tree.groups
        return max(groups, key=lambda g: known[g].depth, default=0)

    # ---- where to look

    def zoom_at(self, factor: float, spot: QPointF) -> None:
        """Zoom about a pixel."""
        self.camera.zoom(factor, spot.x(), spot.y())
        self.moved(zooming=True)

    def zoom_by(self, factor: float) -> None:
        """Zoom about the middle of the view."""
        self.zoom_at(factor, QPointF(self.width() / 2, self.height() / 2))

    def centre(self, x: float, y: float) -> None:
        """Put a canvas point into the middle."""
        self.camera.centre(x, y, self.width(), self.height())
        self.moved()

    def hold(self, x: float, y: float) -> None:
        """Put a canvas point into the middle, and keep it there while the widget finds its size."""
        self.centre(x, y)
        self._middle = (x, y)

    def frame(self, area: Area) -> None:
        """Show all of an area."""
        self.camera.fit(area, _area(self.chrome.room(False)))
        self.moved()

    def fit(self) -> None:
        """Show everything; where that is seen already but cannot be read, the beginning."""
        if self.scene:
            before = (self.camera.scale, self.camera.x, self.camera.y)
            self.frame(self.scene.area)
            if before == (self.camera.scale, self.camera.x, self.camera.y) and self.camera.scale < READABLE:
                self.start_look()

    def start_look(self) -> None:
        """A first view that can be read: all if it is small, or else the beginning, as wide as it fits."""
        if self.scene is None:
            return
        self.camera.fit(self.scene.area, _area(self.chrome.room(False)))
        if self.camera.scale < READABLE:
            self._look_at_beginning(self.scene)
        self.moved()
        self._first_look = True

    def _look_at_beginning(self, scene: Scene) -> None:
        """The start of the flow at the edge of the view; the first node in the middle, if not all fits across."""
        left, top, wide, high = _area(self.chrome.room(not scene.layout.horizontal))
        sides = ((left, wide, scene.layout.width), (top, high, scene.layout.height))
        (start, room, across), (begin, _, _) = sides[::-1] if scene.layout.horizontal else sides
        scale = self.camera.scale = min(max(room / across, READABLE), 1.0)
        first = scene.layout.node_rects[:1, [1, 3] if scene.layout.horizontal else [0, 2]]
        place = float((first[:, 0] + first[:, 1] / 2).sum()) - (start + room / 2) / scale
        place = min(max(place, -start / scale), across - (start + room) / scale)
        if across * scale <= room:
            place = across / 2 - (start + room / 2) / scale
        self.camera.x, self.camera.y = (-begin / scale, place) if scene.layout.horizontal else (place, -begin / scale)

    def bring(self, node: int) -> None:
        """Bring a node into view, large enough to read; the picture stays when it is in view already."""
        rect = self.scene.rect_of(node) if self.scene else None
        if rect is None:
            return
        x, y, w, h = rect
        seen = self.seen().adjusted(20, 20, -20, -20)
        if self.camera.scale < READABLE or not seen.contains(QRectF(x, y, w, h)):
            self.camera.scale = max(self.camera.scale, READABLE + 0.2)
            self.centre(x + w / 2, y + h / 2)

    def show_group(self, number: int) -> None:
        """Bring a whole group into view."""
        if self.scene and (place := self.scene.group_place.get(number)) is not None:
            self.frame(tuple(self.scene.layout.group_rects[place].tolist()))

    # ---- painting

    def repaint_all(self) -> None:
        """The picture is out of date everywhere, but nothing has moved."""
        self.tiles.stale()
        self.update()

    def repaint_areas(self, areas: Iterable[Area | None]) -> None:
        """The picture is out of date in these parts of the canvas."""
        known = [a for a in areas if a is not None]
        self.tiles.stale(known)
        seen = self.seen()
        for area in known:
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
                words = (BUSY, "") if self.waiting else EMPTY
                paint_words(painter, view, *words, self.tokens)
                return
            done = self.tiles.show(painter, self.scene, self.camera, QSizeF(self.size()), self._zooming)
            paint_marks(painter, self.scene, self.kit, self.camera, self.marks, view)
            if not done and not self._zooming:
                self._again.start()
        finally:
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Until somebody moves the view, the first look or what was remembered follows the size of the widget."""
        self.chrome.arrange()
        if self._first_look:
            self.start_look()
        elif self._middle is not None:
            self.hold(*self._middle)
        super().resizeEvent(event)

    def render(self, path: Path, size: tuple[int, int]) -> None:
        """Paint the whole graph into a picture file; raises FileError."""
        image = QImage(*size, QImage.Format.Format_RGB32)
        image.fill(QColor(self.tokens.background))
        if self.scene:
            camera = Camera()
            camera.fit(self.scene.area, (24, 24, max(size[0] - 48, 32), max(size[1] - 48, 32)), most=4.0)
            painter = QPainter(image)
            painter.scale(camera.scale, camera.scale)
            painter.translate(-camera.x, -camera.y)
            Painter(self.tokens, self.kit.casts).paint(painter, self.scene, camera.area(*size), camera.scale, 1.0)
            painter.end()
        write_image(path, image)


def _area(rect: QRectF) -> Area:
    return rect.x(), rect.y(), rect.width(), rect.height()
