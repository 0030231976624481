"""Presents one panel or the graph alone in the window, enlarged, without bars."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QGraphicsProxyWidget,
    QGraphicsScene,
    QGraphicsView,
    QMainWindow,
    QVBoxLayout,
    QWidget,
)

from espalier.app.shell.workbench import QWIDGETSIZE_MAX
from espalier.app.shell.workspaces import GRAPH
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.shell.docks import Docks
    from espalier.app.shell.workbench import Workbench

SCALE = 1.5
PAGE = "page"  # in the place of a panel's id


class ScaledPanel(QGraphicsView):
    """A panel drawn at SCALE, to be used as it is. `fits`: at less where its parts need more room than that leaves."""

    def __init__(self, panel: QWidget, parent: QWidget, *, fits: bool = False) -> None:
        super().__init__(parent)
        self.setScene(QGraphicsScene(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        for set_policy in (self.setHorizontalScrollBarPolicy, self.setVerticalScrollBarPolicy):
            set_policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        panel.setParent(None)
        panel.move(0, 0)  # the proxy takes the place that it had in its dock
        # Of its own: the proxy that `QGraphicsScene.addWidget` returns keeps a reference to the panel, and its deletion
        # would make the layout items below the panel unusable in Python.
        self._proxy = QGraphicsProxyWidget()
        self.scene().addItem(self._proxy)
        self._proxy.setWidget(panel)
        self._panel, self._fits = panel, fits
        self._proxy.setPos(0, 0)
        panel.show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        scale, needed = SCALE, self._panel.minimumSizeHint()
        if self._fits and not needed.isEmpty():
            scale = max(min(SCALE, self.width() / needed.width(), self.height() / needed.height()), 1.0)
        self._proxy.setScale(scale)
        self._proxy.resize(self.width() / scale, self.height() / scale)
        self.setSceneRect(0, 0, self.width(), self.height())

    def release(self) -> None:
        """Give the panel back: it has no parent then."""
        self._proxy.setWidget(None)  # type: ignore[arg-type]


class Presenting(QObject):
    """Shows one panel or the graph over the whole window, which fills the screen, until Escape; then all is as before.

    The parts of the window below keep their sizes meanwhile.
    """

    def __init__(self, window: QMainWindow, host: Host, docks: Callable[[], Docks], workbench: Workbench) -> None:
        super().__init__(window)
        self._window, self._host, self._docks, self._workbench = window, host, docks, workbench
        self._cover: QWidget | None = None
        self._restore: Callable[[], object] = lambda: None
        self._state = Qt.WindowState.WindowNoState
        workbench.changed.connect(self.end)
        workbench.page_changed.connect(self.end)
        host.session.opened.connect(self.end)

    @property
    def active(self) -> bool:
        """Whether something is presented."""
        return self._cover is not None

    @property
    def target(self) -> str:
        """The id of the panel to present, the one with the focus or the one in front; empty for the graph.

        PAGE for what is shown in place of the workspaces.
        """
        if self._workbench.covered:
            return PAGE
        if not self._host.panels_built:
            return ""
        docks, focus = self._docks(), QApplication.focusWidget()
        visible = [n for n, p in docks.panels.items() if p.isVisible()]
        if focus is not None and (inside := next((n for n in visible if docks.panels[n].isAncestorOf(focus)), "")):
            return inside
        if self._workbench.current == GRAPH or (focus is not None and focus is self._host.canvas):
            return ""
        area = self._workbench.areas[self._workbench.current]
        return next((n for n in visible if area.isAncestorOf(docks.docks[n])), "")

    def title(self) -> str:
        """The title of the row, with what it presents."""
        if self.active:
            return tr("Present")
        if (page := self._workbench.page) is not None:
            return tr("Present {}", page.windowTitle()).strip()
        name = self._docks().docks[self.target].windowTitle() if self.target else tr("the graph")
        return tr("Present {}", name)

    def available(self) -> bool:
        """Whether there is something to present."""
        page = self._workbench.page
        return self.active or (self._host.session.document is not None and (page is None or bool(page.windowTitle())))

    def toggle(self) -> None:
        """Begin to present, or end it."""
        if self.active:
            self.end()
        else:
            self.begin(self.target)

    def begin(self, name: str) -> None:
        """Present a panel by its id, the page in place of the workspaces, or the graph."""
        self.end()
        self._state = self._window.window().windowState()
        self._workbench.setFixedSize(self._workbench.size())
        self._cover = cover = QWidget(self._window)
        cover.setProperty("surface", "background")
        cover.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        box = QVBoxLayout(cover)
        box.setContentsMargins(0, 0, 0, 0)
        take = {"": self._take_canvas, PAGE: partial(self._take_page, cover)}.get(name)
        box.addWidget(take() if take else self._take_panel(name, cover))
        self._window.installEventFilter(self)
        QApplication.instance().installEventFilter(self)  # type: ignore[union-attr]
        self._window.window().setWindowState(self._state | Qt.WindowState.WindowFullScreen)
        self._place()
        cover.show()

    def _take_panel(self, name: str, cover: QWidget) -> QWidget:
        docks = self._docks()
        panel = docks.panels[name]
        view = ScaledPanel(panel, cover)

        def restore() -> None:
            view.release()
            docks.put_back(name)
            panel.show()

        self._restore = restore
        return view

    def _take_page(self, cover: QWidget) -> QWidget:
        page = self._workbench.page
        assert page is not None
        give_back = self._workbench.lend_page(page)
        view = ScaledPanel(page, cover, fits=True)

        def restore() -> None:
            view.release()
            give_back()

        self._restore = restore
        return view

    def _take_canvas(self) -> QWidget:
        canvas, workspace = self._host.canvas, self._workbench.current
        scale, x, y = look = canvas.look()
        frame = canvas.parentWidget()
        column = frame.layout() if frame is not None else None
        assert isinstance(column, QBoxLayout)
        place = column.indexOf(canvas)

        def restore() -> None:
            column.insertWidget(place, canvas, 1)
            canvas.show()
            if self._workbench.current == workspace:
                canvas.look_at(*look)
            else:
                self._workbench.keep_camera(workspace, look)

        self._restore = restore
        canvas.look_at(SCALE * scale, x, y)
        return canvas

    def end(self) -> None:
        """Put all back in its place."""
        if self._cover is None:
            return
        cover, self._cover = self._cover, None
        QApplication.instance().removeEventFilter(self)  # type: ignore[union-attr]
        self._window.removeEventFilter(self)
        self._restore()
        self._restore = lambda: None
        cover.hide()
        cover.deleteLater()
        self._window.window().setWindowState(self._state)
        self._workbench.setMinimumSize(0, 0)
        self._workbench.setMaximumSize(QWIDGETSIZE_MAX, QWIDGETSIZE_MAX)
        self._host.refresh_actions()

    def _place(self) -> None:
        if self._cover is not None:
            self._cover.setGeometry(self._window.rect())
            self._cover.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._window:
            if event.type() == QEvent.Type.Resize:
                self._place()
            elif event.type() == QEvent.Type.Close:
                self.end()
        elif isinstance(event, QKeyEvent) and self._ends(event):
            if event.type() == QEvent.Type.KeyPress:
                self.end()
            event.accept()  # an accepted ShortcutOverride is no shortcut of a panel
            return True
        return False

    def _ends(self, event: QKeyEvent) -> bool:
        """Whether a key ends the presentation, rather than a menu or a dialog that is open."""
        open_ = QApplication.activePopupWidget() or QApplication.activeModalWidget()
        return event.key() == Qt.Key.Key_Escape and open_ is None
