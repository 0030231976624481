"""The panels around the canvas: a table of docks, and the docks created from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, Qt, QTimer
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QTabWidget, QWidget

from espalier.app.features.allocate import actions as allocate
from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.features.data.panel import DataPanel
from espalier.app.features.hardware import actions as hardware
from espalier.app.features.hardware.panel import HardwarePanel
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.features.kernels import actions as kernels
from espalier.app.features.kernels.panel import KernelsPanel
from espalier.app.features.log.panel import LogPanel
from espalier.app.features.nodes import actions as nodes
from espalier.app.features.nodes.panel import NodesPanel
from espalier.app.features.outline.panel import OutlinePanel
from espalier.app.features.plots import actions as plots
from espalier.app.features.plots.panel import PlotsPanel
from espalier.app.features.problems.panel import ProblemsPanel
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.features.search import actions as search
from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.sensitivity import actions as sensitivity
from espalier.app.features.sensitivity.panel import SensitivityPanel
from espalier.app.features.sqnr import actions as sqnr
from espalier.app.features.sqnr.panel import SqnrPanel
from espalier.app.features.sweep import actions as sweep
from espalier.app.features.sweep.panel import SweepsPanel
from espalier.app.features.tables.panel import TablesPanel
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.widgets.collector import without_garbage_collection
from espalier.app.widgets.form_panel import HEIGHT_BEFORE, FormPanel
from espalier.app.widgets.heading import DockHeading

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.session.session import Session

Area = Qt.DockWidgetArea
LEFT, RIGHT, BOTTOM = Area.LeftDockWidgetArea, Area.RightDockWidgetArea, Area.BottomDockWidgetArea


@dataclass(frozen=True, slots=True)
class Spec:
    """One dock: its id, title, area and panel class."""

    id: str
    title: str
    area: Area
    make: Callable[[Session, QWidget], QWidget]
    connect: Callable[[Host, Any], object] | None = None  # connects the panel's signals to the window


DOCKS: tuple[Spec, ...] = (
    Spec("outline", "Outline", LEFT, OutlinePanel),
    Spec("recipe", "Recipe", LEFT, RecipePanel),
    Spec("inspector", "Inspector", RIGHT, InspectorPanel),
    Spec("training", "Training", RIGHT, TrainingPanel),
    Spec("jobs", "Jobs", BOTTOM, JobsPanel),
    Spec("nodes", "Nodes", BOTTOM, NodesPanel, nodes.connect),
    Spec("tables", "Tables", BOTTOM, TablesPanel),
    Spec("plots", "Plots", BOTTOM, PlotsPanel, plots.connect),
    Spec("sweeps", "Sweeps", BOTTOM, SweepsPanel, sweep.connect),
    Spec("search", "Search", BOTTOM, SearchPanel, search.connect),
    Spec("sqnr", "SQNR", BOTTOM, SqnrPanel, sqnr.connect),
    Spec("sensitivity", "Sensitivity", BOTTOM, SensitivityPanel, sensitivity.connect),
    Spec("allocate", "Allocate", BOTTOM, AllocatePanel, allocate.connect),
    Spec("hardware", "Hardware", BOTTOM, HardwarePanel, hardware.connect),
    Spec("kernels", "Kernels", BOTTOM, KernelsPanel, kernels.connect),
    Spec("data", "Data", BOTTOM, DataPanel),
    Spec("log", "Log", BOTTOM, LogPanel),
    Spec("problems", "Problems", BOTTOM, ProblemsPanel),
)
# All sizes are in pixels.
SIDE_WIDTH, MIN_BOTTOM_WIDTH = 262, 300
MIN_HEIGHT = {"outline": 92, "recipe": 56}  # of lists at the left while another panel is maximised
OPEN_HEIGHT = {"plots": 240, "nodes": 260, "tables": 240, "data": 300, "sweeps": 340, "search": 400, "allocate": 300,
               "hardware": 340, "kernels": 340}  # fmt: skip
EMPTY_HEIGHT = 170  # of a panel that shows only its introduction
MAP_HEIGHT = 340  # of a heat map with more than eight rows
# Shares of the window's height that a panel takes by itself at most; the rest stays for the graph.
MAX_SHARE, MAX_WORK_SHARE = 0.33, 0.45
RESTORED = "restored"  # property of a tab bar: the number of the restored layout that it is older than
WORK_PANELS = ("search", "hardware", "kernels")  # panels that are used without the graph


class Docks:
    """The docks and their panels, by id."""

    def __init__(self, window: QMainWindow, host: Host) -> None:
        self._window, self._host = window, host
        self.panels: dict[str, QWidget] = {}
        self.docks: dict[str, QDockWidget] = {}
        self._arranging, self._restored = True, 0  # how often a layout was restored
        self._shown_empty: set[str] = set()  # panels that were brought to the front while empty
        window.setCorner(Qt.Corner.BottomLeftCorner, BOTTOM)
        window.setCorner(Qt.Corner.BottomRightCorner, BOTTOM)
        for area in (BOTTOM, RIGHT):
            window.setTabPosition(area, QTabWidget.TabPosition.North)

    def build_next(self) -> bool:
        """Create the next panel; returns False after the last one, when all are arranged."""
        if more := len(self.docks) < len(DOCKS):
            self._add(DOCKS[len(self.docks)])
        elif self._arranging:
            self.reset()  # shows all docks: to keep them hidden, hide them before the next paint
        return more

    def _add(self, spec: Spec) -> None:
        dock = QDockWidget(spec.title, self._window)
        dock.setObjectName(spec.id)
        # The dock is the parent from the start: a later change of parent would restyle the whole panel.
        panel = spec.make(self._host.session, dock)
        dock.setWidget(panel)
        if spec.area == BOTTOM or spec.id == "training":  # its tab shows the title
            no_title = QWidget()
            no_title.setFixedHeight(0)
            dock.setTitleBarWidget(no_title)
        else:
            dock.setTitleBarWidget(DockHeading(spec.title, dock.close))
        policy = panel.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        panel.setSizePolicy(policy)
        panel.hide()
        dock.visibilityChanged.connect(lambda visible: self._arranging or self._set_panel_visible(spec.id, visible))
        dock.topLevelChanged.connect(lambda floating: floating and self._set_panel_visible(spec.id, True))
        if isinstance(panel, DataPanel | TrainingPanel | SweepsPanel):  # they compute by themselves only while visible
            dock.visibilityChanged.connect(panel.look_on)
        if spec.area == BOTTOM:
            panel.setMinimumWidth(MIN_BOTTOM_WIDTH)  # a wide panel must not make the window wider than the screen
        if spec.id in MIN_HEIGHT:
            panel.setMinimumHeight(MIN_HEIGHT[spec.id])
        panel.setProperty("surface", "panel")
        panel.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.panels[spec.id], self.docks[spec.id] = panel, dock

    def reset(self) -> None:
        """Move every dock to its default place."""
        self._arranging = True
        self._window.setProperty(HEIGHT_BEFORE, None)  # no panel is maximised
        self._arrange()
        for name in ("jobs", "inspector"):
            self.docks[name].raise_()
        self._set_sizes()
        self._show_front_panels()

    def _arrange(self) -> None:
        """Add the docks area by area; the docks of an area become tabs, except at the left."""
        last: dict[Area, QDockWidget] = {}
        for dock in self.docks.values():
            dock.setFloating(False)
            self._window.removeDockWidget(dock)
        for spec in DOCKS:
            dock = self.docks[spec.id]
            self._window.addDockWidget(spec.area, dock)
            if spec.area != LEFT and spec.area in last:
                self._window.tabifyDockWidget(last[spec.area], dock)
            last[spec.area] = dock
            dock.show()

    def _set_sizes(self) -> None:
        docks, resize = self.docks, self._window.resizeDocks
        resize([docks["outline"], docks["inspector"]], [SIDE_WIDTH, 320], Qt.Orientation.Horizontal)
        resize([docks["outline"], docks["recipe"]], [380, 250], Qt.Orientation.Vertical)
        resize([docks["jobs"]], [160], Qt.Orientation.Vertical)

    def restore(self, layout: QByteArray) -> None:
        """Restore a layout of QMainWindow.saveState."""
        self._arranging = True
        self._shown_empty.clear()
        self._restored += 1
        for bar in self._tab_bars():
            if bar.property(RESTORED) is None:
                bar.setProperty(RESTORED, self._restored)  # Qt makes the new ones now
        self._window.restoreState(layout)
        self._show_front_panels()
        QTimer.singleShot(0, self._window, self.hide_stale_tabs)

    def _set_panel_visible(self, name: str, visible: bool) -> None:
        """Hide a panel behind another tab: Qt only moves it out of sight, so that it would go on painting."""
        panel, focus = self.panels[name], QApplication.focusWidget()
        if not visible and focus is not None and panel.isAncestorOf(focus) and self.docks[name].isVisible():
            self._host.canvas.setFocus()
        panel.setVisible(visible)

    def _show_front_panels(self) -> None:
        """Show the panels in front and hide the others, after the docks were arranged."""
        self._arranging = False
        for name, dock in self.docks.items():
            self._set_panel_visible(name, dock.isVisible() and not dock.visibleRegion().isEmpty())

    def hide_stale_tabs(self) -> None:
        """Hide the tab bars that Qt leaves behind when a layout is restored twice; it paints old and new ones."""
        bars = sorted(self._tab_bars(), key=lambda bar: bar.property(RESTORED) or math.inf)
        newest = {tuple(b.tabText(k) for k in range(b.count())): b for b in bars}
        for bar in bars:
            if bar not in newest.values():
                bar.hide()

    def _tab_bars(self) -> list[QTabBar]:
        """The tab bars of the docks. `findChildren` would keep what it finds until the window closes."""
        with without_garbage_collection():
            return [w for w in QApplication.allWidgets() if isinstance(w, QTabBar) and w.parent() is self._window]

    def hide_all(self) -> None:
        """Hide all docks."""
        for dock in self.docks.values():
            dock.hide()

    def bring(self, name: str) -> None:
        """Show a dock and bring its tab to the front, high enough to be read."""
        dock, panel = self.docks[name], self.panels[name]
        dock.show()
        dock.raise_()
        self._shown_empty.discard(name)
        if isinstance(panel, FormPanel) and panel.inviting:
            self._shown_empty.add(name)
            self._set_min_height(dock, EMPTY_HEIGHT)
        elif name in OPEN_HEIGHT:
            share = MAX_WORK_SHARE if name in WORK_PANELS else MAX_SHARE
            self._set_min_height(dock, min(OPEN_HEIGHT[name], int(share * self._window.height())))

    def filled(self, name: str) -> None:
        """Give a panel that was shown empty its full height, once; later the user sets the height."""
        if name in self._shown_empty and self.panels[name].isVisible():
            self.bring(name)

    def _set_min_height(self, dock: QDockWidget, height: int) -> None:
        """Enlarge a docked panel to at least this height."""
        if dock.height() < height and not dock.isFloating():
            self._window.resizeDocks([dock], [height], Qt.Orientation.Vertical)

    def show_count(self, name: str, count: int) -> None:
        """Show a number after the title of a dock; none for 0."""
        title = next(s.title for s in DOCKS if s.id == name)
        self.docks[name].setWindowTitle(f"{title} {count}" if count else title)

    def make_room_for_map(self, name: str) -> None:
        """Give a heat map room for more than eight rows."""
        self._set_min_height(self.docks[name], min(MAP_HEIGHT, int(MAX_WORK_SHARE * self._window.height())))

    def enter(self, name: str) -> None:
        """Show a dock and give its panel the focus."""
        self.bring(name)
        panel = self.panels[name]
        if isinstance(panel, InspectorPanel):
            panel.enter()
        else:
            (panel.focusProxy() or _first_field(panel)).setFocus(Qt.FocusReason.TabFocusReason)

    @property
    def tables(self) -> TablesPanel:
        """The panel of the reports."""
        panel = self.panels["tables"]
        assert isinstance(panel, TablesPanel)
        return panel


def _first_field(panel: QWidget) -> QWidget:
    """The first visible widget inside that Tab reaches; the panel itself where there is none."""
    widget = panel.nextInFocusChain()
    while widget is not None and widget is not panel:
        if panel.isAncestorOf(widget) and widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            return widget
        widget = widget.nextInFocusChain()
    return panel
