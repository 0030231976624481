"""The panels of the workspaces and of the drawer: a table of docks, and the docks created from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, QTimer
from PySide6.QtWidgets import QApplication, QDockWidget, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.allocate import actions as allocate
from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.features.console import actions as console
from espalier.app.features.console.panel import ConsolePanel
from espalier.app.features.console.state import console_of
from espalier.app.features.data.panel import DataPanel
from espalier.app.features.deploy import actions as deploy
from espalier.app.features.deploy.panel import DeployPanel
from espalier.app.features.exports import actions as exports
from espalier.app.features.exports.panel import ExportPanel
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
from espalier.app.features.recipe.state import failed_edit_of
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
from espalier.app.features.training.state.trainings import trainings_of
from espalier.app.session.opened_state import opened_state_of
from espalier.app.shell.workbench import DRAWER, Workbench
from espalier.app.shell.workspaces import GRAPH
from espalier.app.translation import tr
from espalier.app.widgets.collector import without_garbage_collection
from espalier.app.widgets.docked import follow_visibility, is_in_front
from espalier.app.widgets.heading import DockHeading

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.session.session import Session

Area = Qt.DockWidgetArea
LEFT, RIGHT, TOP = Area.LeftDockWidgetArea, Area.RightDockWidgetArea, Area.TopDockWidgetArea


@dataclass(frozen=True, slots=True)
class Spec:
    """One dock: its id, title, workspace (or the drawer), area in it and panel class."""

    id: str
    title: str
    workspace: str
    make: Callable[[Session, QWidget], QWidget]  # called when the panel is first shown or asked for
    connect: Callable[[Host, Any], object] | None = None  # connects the panel's signals to the window
    follow: Callable[[Host], object] | None = None  # connects what needs no panel, before a document opens
    area: Area = TOP


def _state(of: Callable[[Session], object]) -> Callable[[Host], object]:
    """Creates the state that a panel shows, which follows the session from then on."""
    return lambda host: of(host.session)


DOCKS: tuple[Spec, ...] = (
    Spec("outline", tr("Outline"), GRAPH, OutlinePanel, area=LEFT),
    Spec("recipe", tr("Recipe"), GRAPH, RecipePanel, follow=_state(failed_edit_of), area=LEFT),
    Spec("inspector", tr("Inspector"), GRAPH, InspectorPanel, area=RIGHT),
    Spec("nodes", tr("Nodes"), DRAWER, NodesPanel, nodes.connect),
    Spec("tables", tr("Reports"), DRAWER, TablesPanel),
    Spec("jobs", tr("Jobs"), DRAWER, JobsPanel),
    Spec("problems", tr("Problems"), DRAWER, ProblemsPanel),
    Spec("log", tr("Log"), DRAWER, LogPanel),
    Spec("console", tr("Console"), DRAWER, ConsolePanel, console.connect, _state(console_of)),
    Spec("sensitivity", tr("Sensitivity"), "compress", SensitivityPanel, sensitivity.connect, sensitivity.follow),
    Spec("sqnr", tr("SQNR"), "compress", SqnrPanel, sqnr.connect),
    Spec("allocate", tr("Allocate"), "compress", AllocatePanel, allocate.connect),
    Spec("search", tr("Search"), "experiments", SearchPanel, search.connect, search.follow),
    Spec("sweeps", tr("Sweeps"), "experiments", SweepsPanel, sweep.connect, sweep.follow),
    Spec("training", tr("Training"), "experiments", TrainingPanel, follow=_state(trainings_of)),
    Spec("plots", tr("Plots"), "experiments", PlotsPanel, plots.connect, plots.follow),
    Spec("hardware", tr("Hardware"), "hardware", HardwarePanel, hardware.connect, hardware.follow),
    Spec("kernels", tr("Kernels"), "kernels", KernelsPanel, kernels.connect, kernels.follow),
    Spec("deploy", tr("Deploy"), "deploy", DeployPanel, deploy.connect, deploy.follow),
    Spec("exports", tr("Export"), "deploy", ExportPanel, exports.connect),
    Spec("data", tr("Data"), "data", DataPanel, follow=_state(opened_state_of)),
)
# All sizes are in pixels.
OUTLINE_WIDTH, INSPECTOR_WIDTH, MIN_WIDTH = 247, 400, 300
OUTLINE_HEIGHT, RECIPE_HEIGHT = 380, 250
VACANT = 640, 240  # preferred size of a dock without its panel


class PanelPlace(QWidget):
    """The place of a panel in its dock. It has a size without the panel, too: an empty dock gets none beside others."""

    def __init__(self, dock: QDockWidget, minimum: int) -> None:
        super().__init__(dock)
        self.setMinimumWidth(minimum)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)

    def put(self, panel: QWidget) -> None:
        """Put the panel in; a hidden one stays hidden."""
        self._box.addWidget(panel)

    def sizeHint(self) -> QSize:
        return super().sizeHint() if self._box.count() else QSize(*VACANT)


class Panels(dict[str, QWidget]):
    """The panels that exist, by id. `panels[id]` creates a panel that does not exist yet."""

    def __init__(self, create: Callable[[str], QWidget]) -> None:
        super().__init__()
        self._create = create

    def __missing__(self, name: str) -> QWidget:
        return self._create(name)


class Docks(QObject):
    """The docks by id, and their panels: each is created when its dock is first seen, or when it is asked for."""

    def __init__(self, workbench: Workbench, host: Host) -> None:
        super().__init__(workbench)
        self._workbench, self._host = workbench, host
        self._connect: Callable[[str, QWidget], object] | None = None
        self.panels, self.docks = Panels(self._create), dict[str, QDockWidget]()
        self._places: dict[str, PanelPlace] = {}
        self._arranging = True
        self._put_away: list[QDockWidget] = []  # floating docks that `show_floating` has hidden
        for spec in DOCKS:
            self._add(spec)
        self.reset()
        workbench.changed.connect(self._show_front_panels)

    def _add(self, spec: Spec) -> None:
        dock = self.docks[spec.id] = QDockWidget(spec.title, self._workbench.areas[spec.workspace])
        dock.setObjectName(spec.id)
        title = DockHeading(spec.title, dock.close)
        dock.setTitleBarWidget(title)
        # A wide panel must not make the window wider than the screen.
        place = self._places[spec.id] = PanelPlace(dock, 0 if spec.workspace == GRAPH else MIN_WIDTH)
        dock.setWidget(place)
        if spec.workspace != GRAPH:  # its tab or its workspace shows the title, unless it floats
            title.unfold(False)
            dock.topLevelChanged.connect(title.unfold)
        dock.visibilityChanged.connect(lambda visible: self._arranging or self._set_panel_visible(spec.id, visible))
        dock.topLevelChanged.connect(lambda floating: floating and self._set_panel_visible(spec.id, True))
        if spec.workspace == DRAWER:  # a group of tabs that was made by hand has a bar of its own
            dock.dockLocationChanged.connect(
                lambda _: self._arranging or QTimer.singleShot(0, self, self._follow_drawer_tabs)
            )

    def _create(self, name: str) -> QWidget:
        """Create a panel in its dock."""
        spec, dock, place = next(s for s in DOCKS if s.id == name), self.docks[name], self._places[name]
        # In its place from the start: a later change of parent would restyle the whole panel.
        panel = self.panels[name] = spec.make(self._host.session, place)
        panel.hide()
        panel.setProperty("surface", "panel")
        panel.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        if spec.workspace != GRAPH:
            panel.setMinimumWidth(MIN_WIDTH)
        policy = panel.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        panel.setSizePolicy(policy)
        place.put(panel)
        if isinstance(panel, DataPanel | TrainingPanel | SweepsPanel):  # they compute by themselves only while visible
            follow_visibility(dock, panel.look_on)
        if self._connect is not None:
            self._connect(name, panel)
        panel.setVisible(is_in_front(dock))
        return panel

    def put_back(self, name: str) -> None:
        """Put a panel that was taken out of its dock back."""
        self._places[name].put(self.panels[name])

    def connect_panels(self, connect: Callable[[str, QWidget], object]) -> None:
        """Call `connect` with each panel, now or when it is created."""
        self._connect = connect
        for name, panel in self.panels.items():
            connect(name, panel)

    # -- the arrangement

    def reset(self) -> None:
        """Move every dock to its first place."""
        with self.arranging():
            self._arrange()
            self._workbench.reset()
            for name in ("nodes", "sensitivity", "search", "deploy"):
                self.docks[name].raise_()
            self._set_sizes()
        self._follow_drawer_tabs()

    def _arrange(self) -> None:
        """Add the docks area by area; the docks of an area become tabs, except at the left."""
        last: dict[tuple[str, Area], QDockWidget] = {}
        for spec in DOCKS:
            dock, area = self.docks[spec.id], self._workbench.areas[spec.workspace]
            dock.setFloating(False)
            area.removeDockWidget(dock)
            area.addDockWidget(spec.area, dock)
            if spec.area != LEFT and (place := (spec.workspace, spec.area)) in last:
                area.tabifyDockWidget(last[place], dock)
            last[spec.workspace, spec.area] = dock
            dock.show()

    def _set_sizes(self) -> None:
        docks, area = self.docks, self._workbench.areas[GRAPH]
        sides, columns = [docks["outline"], docks["inspector"]], [docks["outline"], docks["recipe"]]
        area.resizeDocks(sides, [OUTLINE_WIDTH, INSPECTOR_WIDTH], Qt.Orientation.Horizontal)
        area.resizeDocks(columns, [OUTLINE_HEIGHT, RECIPE_HEIGHT], Qt.Orientation.Vertical)

    def state(self) -> dict[str, QByteArray]:
        """The arrangement, as Workbench.state."""
        return self._workbench.state()

    def restore(self, state: dict[str, QByteArray]) -> None:
        """Restore an arrangement."""
        with self.arranging():
            self._workbench.restore(state)
        self._follow_drawer_tabs()
        QTimer.singleShot(0, self, self.hide_stale_tabs)

    def _follow_drawer_tabs(self) -> None:
        """A click on a tab of the closed drawer opens it; one on the tab in front closes it."""
        for bar in self._tab_bars(self._workbench.areas[DRAWER]):
            if not bar.property("opens_drawer"):
                bar.setProperty("opens_drawer", True)
                bar.tabBarClicked.connect(partial(self._drawer_tab_clicked, bar))

    def _drawer_tab_clicked(self, bar: QTabBar, tab: int) -> None:
        workbench = self._workbench
        if QApplication.mouseButtons() & Qt.MouseButton.RightButton:  # asks for the menu of panels
            return
        if tab >= 0 and (tab == bar.currentIndex() or not workbench.drawer_shown):
            workbench.show_drawer(not workbench.drawer_shown)

    @contextmanager
    def arranging(self) -> Iterator[None]:
        """Show or hide docks within; the panels follow at the end, each at most once."""
        self._arranging = True
        try:
            yield
        finally:
            self._show_front_panels()

    def _set_panel_visible(self, name: str, visible: bool) -> None:
        """Show a panel, or hide it behind another tab: Qt only moves it out of sight, so it would go on painting."""
        if not visible and name not in self.panels:
            return
        panel, focus = self.panels[name], QApplication.focusWidget()
        if not visible and focus is not None and panel.isAncestorOf(focus) and self.docks[name].isVisible():
            self._host.canvas.setFocus()
        panel.setVisible(visible)

    def _show_front_panels(self) -> None:
        """Show the panels in front and hide the others, after the docks were arranged."""
        self._arranging = False
        for area in self._workbench.areas.values():
            if area.isVisible() and (layout := area.layout()):
                layout.activate()  # a dock behind another one is known by its place
        for name, dock in self.docks.items():
            self._set_panel_visible(name, is_in_front(dock))

    def hide_stale_tabs(self) -> None:
        """Hide the tab bars that Qt leaves behind when a layout is restored twice; it paints old and new ones."""
        for area in self._workbench.areas.values():
            bars = self._tab_bars(area)
            newest = {tuple(b.tabText(k) for k in range(b.count())): b for b in bars}
            for bar in bars:
                if bar not in newest.values():
                    bar.hide()

    @staticmethod
    def _tab_bars(area: QWidget) -> list[QTabBar]:
        """The tab bars of docks. `findChildren` would keep what it finds until the area is destroyed."""
        with without_garbage_collection():
            return [w for w in QApplication.allWidgets() if isinstance(w, QTabBar) and w.parent() is area]

    def show_floating(self, shown: bool) -> None:
        """Hide the docks that float, or show those again: they are windows of their own, not parts of the workbench."""
        put_away, self._put_away = self._put_away, []
        if not shown:
            put_away += [d for d in self.docks.values() if not d.isHidden()]
            self._put_away = [d for d in put_away if d.isFloating()]
        for dock in put_away:
            if dock.isFloating():
                dock.setVisible(shown)

    # -- what is in front

    def bring(self, name: str) -> None:
        """Show a dock: bring its workspace, or the drawer, and its tab to the front."""
        dock, workspace = self.docks[name], next(s.workspace for s in DOCKS if s.id == name)
        dock.show()
        dock.raise_()  # before its workspace appears: the panel that was in front does not begin to compute
        if not dock.isFloating():
            if workspace != DRAWER:
                self._workbench.show_workspace(workspace)
            elif not self._workbench.drawer_shown:
                self._workbench.show_drawer(True)
        dock.show()
        dock.raise_()

    def show_count(self, name: str, count: int) -> None:
        """Show a number after the title of a dock; none for 0."""
        title = next(s.title for s in DOCKS if s.id == name)
        self.docks[name].setWindowTitle(f"{title} {count}" if count else title)

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
