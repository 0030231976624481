"""The main area of the window: the workspaces, one in front, with the drawer of tables and messages below them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QSplitter, QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from espalier.app.shell.workspaces import GRAPH, WORKSPACES, WorkspaceBar

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas

DRAWER = "drawer"
HEIGHT = "height_"  # of the drawer, in a stored arrangement
# All sizes are in pixels.
GRAPH_WIDTH, DRAWER_HEIGHT, MIN_GRAPH = 320, 240, 200
TABS_HEIGHT, TABS_WIDTH = 29, 510  # of the drawer
QWIDGETSIZE_MAX = 16777215  # of Qt: no maximum
FIRST_SIZE = 1360, 760  # of the areas before they are shown, so that the first sizes of their docks fit


class DockArea(QMainWindow):
    """A part of the window that holds docks: around `centre`, or alone."""

    corner: QWidget | None = None  # at the right of a row of tabs

    def __init__(self, parent: QWidget, name: str, centre: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowFlags(Qt.WindowType.Widget)  # the constructor makes every main window a window of its own
        self.setObjectName(name)
        option = QMainWindow.DockOption  # grouped: without it, Qt does not let a tab leave its row
        self.setDockOptions(option.AllowTabbedDocks | option.AllowNestedDocks | option.GroupedDragging)
        for area in (Qt.DockWidgetArea.TopDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea):
            self.setTabPosition(area, QTabWidget.TabPosition.North)
        if centre is not None:
            self.setCentralWidget(centre)
        self.resize(*FIRST_SIZE)
        self.show()  # with `parent`: a change of flags hides it

    def set_corner(self, corner: QWidget) -> None:
        """Show a widget at the right of the tabs of docks without a centre."""
        self.corner = corner
        corner.setParent(self)
        self._place_corner()
        corner.show()

    def _place_corner(self) -> None:
        if self.corner is not None:
            self.corner.setGeometry(TABS_WIDTH, 0, max(0, self.width() - TABS_WIDTH), TABS_HEIGHT - 2)
            self.corner.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_corner()


class CanvasPlace(QWidget):
    """Where a workspace shows the graph."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)

    def take(self, canvas: QWidget) -> None:
        """Move the canvas here."""
        self._box.addWidget(canvas)


class Workbench(QWidget):
    """The workspace bar, the workspaces and the drawer. `changed`: another workspace or another arrangement is shown.

    There is one canvas: it moves to the workspace in front, with a camera of its own in each.
    """

    changed = Signal()
    page_changed = Signal()  # a page is shown in place of the workspaces, or no longer

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.current = GRAPH
        self._canvas: GraphCanvas | None = None
        self._drawer_height = DRAWER_HEIGHT
        self._frame: QWidget | None = None
        self._cameras: dict[str, tuple[float, float, float]] = {}  # scale and centre by workspace
        self.bar = WorkspaceBar(self)
        self._column = QSplitter(Qt.Orientation.Vertical, self)
        self._pages = QStackedWidget(self._column)
        self.areas: dict[str, DockArea] = {}
        self._places: dict[str, CanvasPlace] = {}
        self._splits: dict[str, QSplitter] = {}
        for workspace in WORKSPACES:
            self._pages.addWidget(self._page(workspace.id))
        self.areas[DRAWER] = DockArea(self._column, DRAWER)
        self._column.addWidget(self.areas[DRAWER])  # a splitter does not take by itself what was made as a window
        self._column.setHandleWidth(1)
        self._column.setStretchFactor(0, 1)
        self._column.setCollapsible(0, False)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.bar)
        row.addWidget(self._column, 1)
        self.bar.chosen.connect(self.show_workspace)
        self.reset()

    def _page(self, name: str) -> QWidget:
        if name == GRAPH:
            self._places[name] = place = CanvasPlace(self)
            self.areas[name] = DockArea(self, name, place)
            return self.areas[name]
        self._splits[name] = split = QSplitter(Qt.Orientation.Horizontal, self)
        self._places[name], self.areas[name] = CanvasPlace(split), DockArea(split, name)
        split.addWidget(self.areas[name])
        split.setHandleWidth(1)
        split.setStretchFactor(1, 1)
        split.setChildrenCollapsible(False)
        self._places[name].setMinimumWidth(MIN_GRAPH)
        return split

    # -- the canvas

    def set_canvas(self, canvas: GraphCanvas, frame: QWidget) -> None:
        """Show this canvas, in its frame with the bars, in the workspace in front."""
        self._canvas, self._frame = canvas, frame
        self._places[self.current].take(frame)

    def forget_cameras(self) -> None:
        """Another document is shown: each workspace begins with a view of its own."""
        self._cameras.clear()

    def keep_camera(self, name: str, look: tuple[float, float, float]) -> None:
        """Keep the view of a workspace that is not in front."""
        self._cameras[name] = look

    def _move_canvas(self, before: str) -> None:
        canvas, frame = self._canvas, self._frame
        if canvas is None or frame is None:
            return
        self._cameras[before] = canvas.look()
        self._places[self.current].take(frame)
        frame.show()
        if self.current in self._cameras:
            canvas.look_at(*self._cameras[self.current])
        else:
            canvas.start_look()

    # -- what is in front

    def show_workspace(self, name: str) -> None:
        """Bring a workspace to the front; the graph goes with it."""
        before, self.current = self.current, name
        self.bar.show_current(name)
        if before != name or self._pages.currentWidget() is not self._page_of(name):
            self._pages.setCurrentWidget(self._page_of(name))
            if before != name:
                self._move_canvas(before)
            self._arrange()

    def _page_of(self, name: str) -> QWidget:
        return self._splits.get(name, self.areas[name])

    def cover(self, page: QWidget | None) -> None:
        """Show a page in place of the workspaces, until it is None or a workspace is chosen."""
        if page is not None and self._pages.indexOf(page) < 0:
            self._pages.addWidget(page)
        self._pages.setCurrentWidget(page or self._page_of(self.current))
        self._arrange()
        self.page_changed.emit()

    @property
    def page(self) -> QWidget | None:
        """The page that is shown in place of the workspaces."""
        return self._pages.currentWidget() if self.covered else None

    def lend_page(self, page: QWidget) -> Callable[[], None]:
        """Take the page out, so that it can be shown elsewhere; a blank stands for it. Returns what puts it back."""
        blank = QWidget()
        self._pages.insertWidget(self._pages.indexOf(page), blank)
        self._pages.setCurrentWidget(blank)
        self._pages.removeWidget(page)

        def give_back() -> None:
            in_front = self._pages.currentWidget() is blank
            self._pages.insertWidget(self._pages.indexOf(blank), page)
            if in_front:
                self._pages.setCurrentWidget(page)
            self._pages.removeWidget(blank)
            blank.deleteLater()

        return give_back

    @property
    def covered(self) -> bool:
        """Whether a page is shown in place of the workspaces."""
        return self._pages.currentWidget() is not self._page_of(self.current)

    @property
    def graph_shown(self) -> bool:
        """Whether the graph is shown beside the panels of the workspace in front."""
        return self._shows_graph[self.current]

    @property
    def drawer_shown(self) -> bool:
        """Whether the drawer is open in the workspace in front."""
        return self._shows_drawer[self.current]

    def show_drawer(self, shown: bool) -> None:
        """Open or close the drawer of the workspace in front."""
        self._shows_drawer[self.current] = shown
        self._arrange()

    def toggle_graph(self) -> None:
        """Give the panels of the workspace in front the whole width, or show the graph beside them.

        In the workspace Graph this opens or closes the drawer.
        """
        if self.current == GRAPH:
            self.show_drawer(not self.drawer_shown)
        else:
            self._shows_graph[self.current] = not self.graph_shown
            self._arrange()

    def _arrange(self) -> None:
        self._arrange_drawer()
        if self.current != GRAPH:
            self._places[self.current].setVisible(self.graph_shown)
        self.changed.emit()

    def _arrange_drawer(self) -> None:
        """Give the drawer its height, or only that of its tabs."""
        drawer, is_open = self.areas[DRAWER], self.drawer_shown
        if is_open == (drawer.maximumHeight() > TABS_HEIGHT):
            return
        if not is_open:
            self._drawer_height = drawer.height()
        drawer.setMinimumHeight(0 if is_open else TABS_HEIGHT)
        drawer.setMaximumHeight(QWIDGETSIZE_MAX if is_open else TABS_HEIGHT)
        height = self._drawer_height if is_open else TABS_HEIGHT
        self._column.setSizes([max(1, self._column.height() - height), height])

    # -- the arrangement

    def reset(self) -> None:
        """Show the workspace Graph, with the first sizes of all parts."""
        self._shows_graph = {w.id: w.graph_beside for w in WORKSPACES}
        self._shows_drawer = dict.fromkeys(self._places, False)
        for split in self._splits.values():
            split.setSizes([GRAPH_WIDTH, FIRST_SIZE[0] - GRAPH_WIDTH])
        self.show_workspace(GRAPH)
        self._arrange()
        self._drawer_height = DRAWER_HEIGHT  # after an open drawer was closed

    def state(self) -> dict[str, QByteArray]:
        """The sizes of all parts, by name."""
        splits = {f"split_{name}": split.saveState() for name, split in self._splits.items()}
        areas = {f"area_{name}": area.saveState() for name, area in self.areas.items()}
        shown = [self.current, *(f"graph_{n}" for n, on in self._shows_graph.items() if on),
                 *(f"drawer_{n}" for n, on in self._shows_drawer.items() if on),
                 f"{HEIGHT}{self.areas[DRAWER].height() if self.drawer_shown else self._drawer_height}"]  # fmt: skip
        return {"column": self._column.saveState(), **splits, **areas, "shown": QByteArray(" ".join(shown).encode())}

    def restore(self, state: dict[str, QByteArray]) -> None:
        """Restore a state; parts that it does not name keep their sizes."""
        if shown := bytes(state.get("shown", QByteArray()).data()).decode().split():
            self._shows_graph = {n: f"graph_{n}" in shown for n in self._shows_graph}
            self._shows_drawer = {n: f"drawer_{n}" in shown for n in self._shows_drawer}
            height = next((n.removeprefix(HEIGHT) for n in shown if n.startswith(HEIGHT)), "")
            self._drawer_height = int(height) if height.isdecimal() else self._drawer_height
        for name, widget in (("column", self._column), *((f"split_{n}", s) for n, s in self._splits.items()),
                             *((f"area_{n}", a) for n, a in self.areas.items())):  # fmt: skip
            if name in state:
                widget.restoreState(state[name])
        if shown and shown[0] in self._places:
            self.show_workspace(shown[0])
        self._arrange()
