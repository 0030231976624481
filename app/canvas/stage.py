"""The painted surface below the canvas's behaviour: camera, tiles, marks and cards, frame by frame."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, QTimer
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.canvas.camera import Area, Camera
from app.canvas.chrome import Chrome
from app.canvas.overlay import BUSY, EMPTY, Marks, paint_marks, paint_words
from app.canvas.paint import Painter
from app.canvas.scene import Scene
from app.canvas.tiles import Tiles
from app.theme import Palette

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
        self._first_look = False
        self._rest.start()
        self.update()

    def _rested(self) -> None:
        self._zooming = False
        self.tell_place()
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

    def frame(self, area: Area) -> None:
        """Show all of an area."""
        self.camera.fit(area, self.width(), self.height())
        self.moved()

    def fit(self) -> None:
        """Show everything."""
        if self.scene:
            self.frame(self.scene.area)

    def start_look(self) -> None:
        """A first view that can be read: all if it is small, or else the beginning, as wide as it fits."""
        if self.scene is None:
            return
        self.camera.fit(self.scene.area, self.width(), self.height())
        if self.camera.scale < READABLE:
            width, height = self.scene.layout.width, self.scene.layout.height
            across = height if self.scene.layout.horizontal else width
            room = self.height() if self.scene.layout.horizontal else self.width()
            self.camera.scale = min(max((room - 96) / across, READABLE), 1.0)
            first = self.scene.layout.node_rects
            x, y = (first[0, 0] + first[0, 2] / 2, first[0, 1]) if len(first) else (0.0, 0.0)
            if self.scene.layout.horizontal:
                self.camera.x, self.camera.y = -56 / self.camera.scale, y - self.height() / 2 / self.camera.scale
            else:
                self.camera.x, self.camera.y = x - self.width() / 2 / self.camera.scale, -56 / self.camera.scale
            self._keep_inside(across)
        self.moved()
        self._first_look = True

    def _keep_inside(self, across: float) -> None:
        """Do not look past the sides while there is graph to see."""
        room = (self.height() if self.scene and self.scene.layout.horizontal else self.width()) / self.camera.scale
        name = "y" if self.scene and self.scene.layout.horizontal else "x"
        margin = 24 / self.camera.scale
        place = getattr(self.camera, name)
        if across + 2 * margin <= room:
            place = (across - room) / 2
        else:
            place = min(max(place, -margin), across + margin - room)
        setattr(self.camera, name, place)

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
        """Until somebody moves the view, the first look follows the size of the widget."""
        self.chrome.arrange()
        if self._first_look:
            self.start_look()
        super().resizeEvent(event)

    def render(self, path: str, size: tuple[int, int]) -> bool:
        """Paint the whole graph into a picture file; False when it could not be written."""
        image = QImage(*size, QImage.Format.Format_RGB32)
        image.fill(QColor(self.tokens.background))
        if self.scene:
            camera = Camera()
            camera.fit(self.scene.area, *size, margin=24, most=4.0)
            painter = QPainter(image)
            painter.scale(camera.scale, camera.scale)
            painter.translate(-camera.x, -camera.y)
            Painter(self.tokens).paint(painter, self.scene, camera.area(*size), camera.scale, 1.0)
            painter.end()
        return image.save(path)
