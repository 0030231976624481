"""Which panels stand where round the canvas: one table, and the docks made of it."""

from __future__ import annotations

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
from espalier.app.widgets.bench import BEFORE, Bench
from espalier.app.widgets.heading import DockHeading

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.session.session import Session

Area = Qt.DockWidgetArea
LEFT, RIGHT, BOTTOM = Area.LeftDockWidgetArea, Area.RightDockWidgetArea, Area.BottomDockWidgetArea


@dataclass(frozen=True, slots=True)
class Spec:
    """One dock."""

    id: str
    title: str
    area: Area
    make: Callable[[Session, QWidget], QWidget]
    connect: Callable[[Host, Any], object] | None = None  # lets the window do what the panel asks for


DOCKS: tuple[Spec, ...] = (
    Spec("outline", "Outline", LEFT, OutlinePanel),
    Spec("recipe", "Recipe", LEFT, RecipePanel),
    Spec("inspector", "Inspector", RIGHT, InspectorPanel),
    Spec("training", "Training", RIGHT, TrainingPanel),
    Spec("jobs", "Jobs", BOTTOM, JobsPanel),
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
SIDE, LEAST = 262, 300
LOW = {"outline": 92, "recipe": 56}  # pixels that lists at the left keep where another panel is made large
READ_HIGH = {"plots": 240, "tables": 240, "data": 300, "sweeps": 340, "search": 400, "allocate": 300, "hardware": 340,
             "kernels": 340}  # fmt: skip
INVITING = 170  # of a panel that has nothing but words that invite
MAP_HEIGHT, MOST = 340, 0.45  # the heat map with more than eight rows; but no more than this part of the window
WORKPLACES = ("search", "hardware", "kernels")  # panels that one works in, and not beside
SHARE = 0.33  # of the window's height that a panel takes unasked at most: the rest stays for the graph and its lists


class Docks:
    """The docks by id and their panels."""

    def __init__(self, window: QMainWindow, host: Host) -> None:
        self._window, self._host = window, host
        self.panels: dict[str, QWidget] = {}
        self.docks: dict[str, QDockWidget] = {}
        self._placing = True
        self._low: set[str] = set()  # panels that were brought while they only invited
        window.setCorner(Qt.Corner.BottomLeftCorner, BOTTOM)
        window.setCorner(Qt.Corner.BottomRightCorner, BOTTOM)
        for area in (BOTTOM, RIGHT):
            window.setTabPosition(area, QTabWidget.TabPosition.North)

    def grow(self) -> bool:
        """Make the next panel; False when all are made, and now in their places."""
        if more := len(self.docks) < len(DOCKS):
            self._add(DOCKS[len(self.docks)])
        elif self._placing:
            self.reset()  # shows them, so whoever wants them hidden says so in the same turn
        return more

    def _add(self, spec: Spec) -> None:
        dock = QDockWidget(spec.title, self._window)
        dock.setObjectName(spec.id)
        # Made in its place: one that comes into a parent later takes its style anew, with all that is in it.
        panel = spec.make(self._host.session, dock)
        dock.setWidget(panel)
        if spec.area == BOTTOM or spec.id == "training":  # its tab says what it is
            bare = QWidget()
            bare.setFixedHeight(0)
            dock.setTitleBarWidget(bare)
        else:
            dock.setTitleBarWidget(DockHeading(spec.title, dock.close))
        keeps = panel.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)
        panel.setSizePolicy(keeps)
        panel.hide()
        dock.visibilityChanged.connect(lambda on: self._placing or self._uncover(spec.id, on))
        dock.topLevelChanged.connect(lambda on: on and self._uncover(spec.id, True))
        if isinstance(panel, DataPanel | TrainingPanel | SweepsPanel):  # they work unasked only while somebody looks
            dock.visibilityChanged.connect(panel.look_on)
        if spec.area == BOTTOM:
            panel.setMinimumWidth(LEAST)  # a wide panel must not make the window wider than the screen
        if spec.id in LOW:
            panel.setMinimumHeight(LOW[spec.id])
        panel.setProperty("surface", "panel")
        panel.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.panels[spec.id], self.docks[spec.id] = panel, dock

    def reset(self) -> None:
        """Every dock at its first place."""
        window, self._placing = self._window, True
        window.setProperty(BEFORE, None)  # no panel is large
        self._arrange()
        for name in ("jobs", "inspector"):
            self.docks[name].raise_()
        self._sizes()
        self._placed()

    def _arrange(self) -> None:
        """Add the docks area by area; those of an area, but for the left one, are tabs."""
        before: dict[Area, QDockWidget] = {}
        for dock in self.docks.values():
            dock.setFloating(False)
            self._window.removeDockWidget(dock)
        for spec in DOCKS:
            dock = self.docks[spec.id]
            self._window.addDockWidget(spec.area, dock)
            if spec.area != LEFT and spec.area in before:
                self._window.tabifyDockWidget(before[spec.area], dock)
            before[spec.area] = dock
            dock.show()

    def _sizes(self) -> None:
        held = self.docks
        window, across, down = self._window, Qt.Orientation.Horizontal, Qt.Orientation.Vertical
        window.resizeDocks([held["outline"], held["inspector"]], [SIDE, 320], across)
        window.resizeDocks([held["outline"], held["recipe"]], [380, 250], down)
        window.resizeDocks([held["jobs"]], [160], down)

    def restore(self, layout: QByteArray) -> None:
        """Put all back where a layout had them."""
        self._placing = True
        self._low.clear()
        self._window.restoreState(layout)
        self._placed()
        QTimer.singleShot(0, self._window, self.tidy)

    def _uncover(self, name: str, seen: bool) -> None:
        """Hide what lies behind another tab: Qt moves it out of sight, and it would go on drawing."""
        panel, focus = self.panels[name], QApplication.focusWidget()
        if not seen and focus is not None and panel.isAncestorOf(focus) and self.docks[name].isVisible():
            self._host.canvas.setFocus()
        panel.setVisible(seen)

    def _placed(self) -> None:
        """Show the panels that lie in front, once all stand in their places."""
        self._placing = False
        for name, dock in self.docks.items():
            self._uncover(name, dock.isVisible() and not dock.visibleRegion().isEmpty())

    def tidy(self) -> None:
        """Hide bars of tabs that a layout restored twice leaves behind: Qt makes new ones and paints both."""
        bars = [b for b in self._window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)]
        newest = {tuple(b.tabText(k) for k in range(b.count())): b for b in bars}
        for bar in bars:
            if bar not in newest.values():
                bar.hide()

    def hide_all(self) -> None:
        """Hide them all, as the welcome page wants it."""
        for dock in self.docks.values():
            dock.hide()

    def bring(self, name: str) -> None:
        """Show a dock and put its tab in front, high enough to be read."""
        dock, panel = self.docks[name], self.panels[name]
        dock.show()
        dock.raise_()
        self._low.discard(name)
        if isinstance(panel, Bench) and panel.inviting:
            self._low.add(name)
            self._lift(dock, INVITING)
        elif name in READ_HIGH:
            share = MOST if name in WORKPLACES else SHARE
            self._lift(dock, min(READ_HIGH[name], int(share * self._window.height())))

    def filled(self, name: str) -> None:
        """A panel that was brought when it was empty gets its room, once: then its height is the user's."""
        if name in self._low and self.panels[name].isVisible():
            self.bring(name)

    def _lift(self, dock: QDockWidget, height: int) -> None:
        """Make a dock at least this high."""
        if dock.height() < height and not dock.isFloating():
            self._window.resizeDocks([dock], [height], Qt.Orientation.Vertical)

    def mark(self, name: str, count: int) -> None:
        """Write a number beside the title of a dock's tab."""
        title = next(s.title for s in DOCKS if s.id == name)
        self.docks[name].setWindowTitle(f"{title} {count}" if count else title)

    def lift_map(self, name: str) -> None:
        """Give a map room for more than eight rows."""
        self._lift(self.docks[name], min(MAP_HEIGHT, int(MOST * self._window.height())))

    def enter(self, name: str) -> None:
        """Show a dock and put the keyboard into it."""
        self.bring(name)
        panel = self.panels[name]
        if isinstance(panel, InspectorPanel):
            panel.enter()
        else:
            inside = (
                w for w in panel.findChildren(QWidget) if w.focusPolicy() & Qt.FocusPolicy.TabFocus and w.isVisible()
            )
            (panel.focusProxy() or next(inside, panel)).setFocus(Qt.FocusReason.TabFocusReason)

    @property
    def tables(self) -> TablesPanel:
        """The panel of the reports."""
        panel = self.panels["tables"]
        assert isinstance(panel, TablesPanel)
        return panel
