"""The handle of a figure: dragged into another program, clicked for its menu; Ctrl+C copies the figure."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QDrag, QGuiApplication, QKeySequence, QMouseEvent, QPainter, QPaintEvent, QShortcut
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QMenu, QToolButton, QWidget

from espalier.app.widgets.figure_files import (
    FigureData,
    Offer,
    Write,
    copy_figure,
    files_of,
    picture_offer,
    table_offer,
)
from espalier.app.widgets.forms.fields import tokens

SIZE = QSize(16, 20)
MARGIN = 3  # pixels between the handle and the corner of the figure
DOT, PITCH = 1.4, 4.5  # pixels, radius and distance of the dots
PREVIEW = 200  # pixels of the longer side of the picture under the pointer
PICTURE_TIP = "Drag this picture into another program; with Shift, as an SVG file. Click to copy it."
TABLE_TIP = "Drag the selected rows, or all, into another program. Click to copy them."
SHOWING = (QEvent.Type.Enter, QEvent.Type.Leave, QEvent.Type.FocusIn, QEvent.Type.FocusOut)
PLACING = (QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.LayoutRequest)


class DragHandle(QToolButton):
    """Six dots in a corner of a figure, visible while the pointer or the focus is on the figure."""

    def __init__(self, figure: QWidget, offer: Callable[[bool], Offer], rows: dict[str, Callable[[], object]]) -> None:
        super().__init__(figure)
        self.figure, self._offer, self._rows = figure, offer, rows
        self._pressed: QPoint | None = None
        self.setProperty("quiet", True)
        self.setFixedSize(SIZE)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.OpenHandCursor)
        self.clicked.connect(lambda: self.open_menu(self.mapToGlobal(self.rect().bottomLeft())))
        self.hide()
        figure.installEventFilter(self)
        if isinstance(figure, QAbstractScrollArea):
            figure.viewport().installEventFilter(self)

    # -- what is offered

    def data(self, vector: bool = False) -> FigureData:
        """The data of a drag; `vector`: its file is the SVG."""
        return FigureData(self._offer(vector), files_of(self.figure))

    def copy(self) -> None:
        """Put the figure on the clipboard."""
        copy_figure(self._offer(False), files_of(self.figure))

    def open_menu(self, spot: QPoint) -> QMenu:
        """Show the menu of the figure at a point of the screen."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for title, act in self._rows.items():
            menu.addAction(title, act)
        menu.popup(spot)
        return menu

    def drag(self, vector: bool = False) -> Qt.DropAction:
        """Drag the figure until it is dropped."""
        drag = QDrag(self.figure)
        data = self.data(vector)
        drag.setMimeData(data)
        picture = self.figure.grab()
        size = picture.size().boundedTo(QSize(PREVIEW, PREVIEW) * picture.devicePixelRatio())
        keep, smooth = Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
        drag.setPixmap(picture.scaled(size, keep, smooth))
        return drag.exec(Qt.DropAction.CopyAction)

    # -- events of the handle

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position().toPoint()
        event.accept()  # a figure below takes it for its own

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        event.accept()
        if self._pressed is None:
            return
        moved = event.position().toPoint() - self._pressed
        if moved.manhattanLength() >= QApplication.startDragDistance():
            self._pressed = None
            self.drag(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()
        if self._pressed is not None and event.button() == Qt.MouseButton.LeftButton:
            self._pressed = None
            self.click()

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = tokens(self), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QColor(look.panel)
        ground.setAlpha(230)
        painter.setBrush(ground)
        painter.setPen(QColor(look.accent) if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 3, 3)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.accent if self.hasFocus() or self.underMouse() else look.muted))
        middle = QPointF(self.width() / 2, self.height() / 2)
        for column in (-0.5, 0.5):
            for row in (-1, 0, 1):
                painter.drawEllipse(middle + QPointF(column, row) * PITCH, DOT, DOT)
        painter.end()

    def focusOutEvent(self, event: object) -> None:
        super().focusOutEvent(event)  # type: ignore[arg-type]
        self._show_or_hide()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._show_or_hide()

    # -- events of the figure

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Show the handle while the pointer or the focus is on the figure, in its corner."""
        kind = event.type()
        if kind in SHOWING:
            self._show_or_hide(entered=kind in (QEvent.Type.Enter, QEvent.Type.FocusIn))
        elif kind in PLACING:
            self._place()
        return False

    def _show_or_hide(self, *, entered: bool = False) -> None:
        figure = self.figure
        shown = entered or figure.underMouse() or figure.hasFocus() or self.hasFocus()
        if shown != self.isVisible():
            self._place()
            self.setVisible(shown)
            self.raise_()

    def _place(self) -> None:
        """In the corner at the top right; of a table at the bottom right of its rows, so that no title is covered."""
        raise NotImplementedError


class PictureHandle(DragHandle):
    """The handle of a chart or another picture."""

    def _place(self) -> None:
        inner = self.figure.viewport() if isinstance(self.figure, QAbstractScrollArea) else self.figure
        corner = inner.mapTo(self.figure, QPoint(inner.width(), 0)) if inner is not self.figure else QPoint(
            self.figure.width(), 0)  # fmt: skip
        self.move(corner.x() - self.width() - MARGIN, corner.y() + MARGIN)


class TableHandle(DragHandle):
    """The handle of a table."""

    def _place(self) -> None:
        assert isinstance(self.figure, QAbstractScrollArea)
        inner = self.figure.viewport()
        corner = inner.mapTo(self.figure, QPoint(inner.width(), inner.height()))
        self.move(corner.x() - self.width() - MARGIN, corner.y() - self.height() - MARGIN)


def offer_picture(
    figure: QWidget, write: Write, values: Callable[[str], str] | None = None, *, keys: bool = True, menu: bool = True
) -> DragHandle:
    """Let a figure be dragged and copied as a picture that `write` writes; its files take its accessible name.

    `values`: returns its values with a delimiter. `keys`: Ctrl+C copies it while it has the focus. `menu`: it has no
    context menu of its own, so that it gets that of the handle.
    """

    def offer(vector: bool) -> Offer:
        return picture_offer(figure.accessibleName() or "chart", write, vector=vector)

    rows: dict[str, Callable[[], object]] = {"Copy picture": lambda: handle.copy()}
    if values is not None:
        rows["Copy values"] = lambda: _copy_text(values("\t"))
    handle = PictureHandle(figure, offer, rows)
    handle.setToolTip(PICTURE_TIP)
    handle.setAccessibleName("Drag or copy the picture")
    if figure.focusPolicy() == Qt.FocusPolicy.NoFocus and keys:
        figure.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    if keys:
        _shortcut(figure, handle.copy)
    if menu:
        figure.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        figure.customContextMenuRequested.connect(lambda at: handle.open_menu(figure.mapToGlobal(at)))
    return handle


def offer_table(view: QAbstractScrollArea, text: Callable[[str], str], *, keys: bool = True) -> DragHandle:
    """Let a table be dragged and copied; `text` returns its rows with a delimiter. `keys`: Ctrl+C copies them."""

    def offer(_: bool) -> Offer:
        return table_offer(view.accessibleName() or "table", text)

    def copy() -> None:
        _copy_text(text("\t"))

    handle = TableHandle(view, offer, {"Copy rows": copy})
    handle.setToolTip(TABLE_TIP)
    handle.setAccessibleName("Drag or copy the rows")
    if keys:
        _shortcut(view, copy)
    return handle


def _copy_text(text: str) -> None:
    QGuiApplication.clipboard().setText(text)


def _shortcut(figure: QWidget, act: Callable[[], object]) -> None:
    copy = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), figure)
    copy.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    copy.activated.connect(act)
