"""The handle of a figure: dragged into another program, clicked for its menu; Ctrl+C copies the figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QDrag, QGuiApplication, QKeySequence, QMouseEvent, QPainter, QPaintEvent, QShortcut
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QMenu, QToolButton, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.figure_files import FigureData, Offer, copy_figure, files_of, picture_offer, table_offer
from espalier.app.widgets.forms.fields import tokens

WriteFigure = Callable[[Any, Path], object]  # raises FileError
TextOf = Callable[[Any, str], str]  # of a figure, with a delimiter
SIZE = QSize(16, 20)
MARGIN = 3  # pixels between the handle and the corner of the figure
DOT, PITCH = 1.4, 4.5  # pixels, radius and distance of the dots
PREVIEW = 200  # pixels of the longer side of the picture under the pointer
PICTURE_TIP = tr("Drag this picture into another program; with Shift, as an SVG file. Click to copy it.")
TABLE_TIP = tr("Drag the selected rows, or all, into another program. Click to copy them.")
SHOWING = (QEvent.Type.Enter, QEvent.Type.Leave, QEvent.Type.FocusIn, QEvent.Type.FocusOut)
PLACING = (QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.LayoutRequest)


class DragHandle(QToolButton):
    """Six dots in a corner of a figure, visible while the pointer or the focus is on the figure.

    Neither it nor its functions hold the figure, which would then outlive its panel until garbage is collected.
    """

    def __init__(self, figure: QWidget, *, keys: bool) -> None:
        super().__init__(figure)
        self._pressed: QPoint | None = None
        self.setProperty("quiet", True)
        self.setFixedSize(SIZE)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.OpenHandCursor)
        self.clicked.connect(self._open_below)
        self.hide()
        figure.installEventFilter(self)
        if isinstance(figure, QAbstractScrollArea):
            figure.viewport().installEventFilter(self)
        if keys:
            copy = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), figure)
            copy.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            copy.activated.connect(self.copy)

    @property
    def figure(self) -> QWidget:
        """The figure that is dragged."""
        figure = self.parentWidget()
        assert figure is not None
        return figure

    # -- what is offered

    def offer(self, vector: bool = False) -> Offer:
        """What other programs get; `vector`: its file is the SVG."""
        raise NotImplementedError

    def rows(self) -> dict[str, Callable[[], object]]:
        """The titles of the menu and what they do."""
        raise NotImplementedError

    def data(self, vector: bool = False) -> FigureData:
        """The data of a drag; `vector`: its file is the SVG."""
        return FigureData(self.offer(vector), files_of(self.figure))

    def copy(self) -> None:
        """Put the figure on the clipboard."""
        copy_figure(self.offer(), files_of(self.figure))

    def open_menu(self, spot: QPoint) -> QMenu:
        """Show the menu of the figure at a point of the screen."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for title, act in self.rows().items():
            menu.addAction(title, act)
        menu.popup(spot)
        return menu

    def _open_below(self) -> None:
        self.open_menu(self.mapToGlobal(self.rect().bottomLeft()))

    def _open_at(self, spot: QPoint) -> None:
        self.open_menu(self.figure.mapToGlobal(spot))

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
    """The handle of a chart or another picture: `write` writes a figure, `values` returns its values as text."""

    def __init__(self, figure: QWidget, write: WriteFigure, values: TextOf | None, *, keys: bool, menu: bool) -> None:
        super().__init__(figure, keys=keys)
        self._write, self._values = write, values
        self.setToolTip(PICTURE_TIP)
        self.setAccessibleName(tr("Drag or copy the picture"))
        if keys and figure.focusPolicy() == Qt.FocusPolicy.NoFocus:
            figure.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        if menu:
            figure.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            figure.customContextMenuRequested.connect(self._open_at)

    def offer(self, vector: bool = False) -> Offer:
        """SVG and PNG."""
        figure, write = self.figure, self._write
        return picture_offer(figure.accessibleName() or "chart", lambda path: write(figure, path), vector=vector)

    def rows(self) -> dict[str, Callable[[], object]]:
        """Copy the picture, or its values."""
        values = {tr("Copy values"): self.copy_values} if self._values else {}
        return {tr("Copy picture"): self.copy, **values}

    def copy_values(self) -> None:
        """Put the values on the clipboard as TSV."""
        if self._values:
            QGuiApplication.clipboard().setText(self._values(self.figure, "\t"))

    def _place(self) -> None:
        figure = self.figure
        inner = figure.viewport() if isinstance(figure, QAbstractScrollArea) else figure
        corner = inner.mapTo(figure, QPoint(inner.width(), 0)) if inner is not figure else QPoint(inner.width(), 0)
        self.move(corner.x() - self.width() - MARGIN, corner.y() + MARGIN)


class TableHandle(DragHandle):
    """The handle of a table: `text` returns its rows with a delimiter."""

    def __init__(self, view: QAbstractScrollArea, text: TextOf, *, keys: bool) -> None:
        super().__init__(view, keys=keys)
        self._text = text
        self.setToolTip(TABLE_TIP)
        self.setAccessibleName(tr("Drag or copy the rows"))

    def offer(self, vector: bool = False) -> Offer:
        """TSV and CSV."""
        view, text = self.figure, self._text
        return table_offer(view.accessibleName() or "table", lambda mark: text(view, mark))

    def rows(self) -> dict[str, Callable[[], object]]:
        """Copy the rows."""
        return {"Copy rows": self.copy}

    def copy(self) -> None:
        """Put the rows on the clipboard as TSV."""
        QGuiApplication.clipboard().setText(self._text(self.figure, "\t"))

    def _place(self) -> None:
        view = self.figure
        assert isinstance(view, QAbstractScrollArea)
        inner = view.viewport()
        corner = inner.mapTo(view, QPoint(inner.width(), inner.height()))
        self.move(corner.x() - self.width() - MARGIN, corner.y() - self.height() - MARGIN)


def offer_picture(
    figure: QWidget, write: WriteFigure, values: TextOf | None = None, *, keys: bool = True, menu: bool = True
) -> DragHandle:
    """Let a figure be dragged and copied as a picture; its files take its accessible name.

    `write`: writes the figure by the suffix of a path. `values`: returns its values with a delimiter. Both get the
    figure, and hold none. `keys`: Ctrl+C copies it while it has the focus. `menu`: it has no context menu of its own,
    so that it gets that of the handle.
    """
    return PictureHandle(figure, write, values, keys=keys, menu=menu)


def offer_table(view: QAbstractScrollArea, text: TextOf, *, keys: bool = True) -> DragHandle:
    """Let a table be dragged and copied; `text` gets the view and a delimiter. `keys`: Ctrl+C copies the rows."""
    return TableHandle(view, text, keys=keys)
