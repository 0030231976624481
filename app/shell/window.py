"""The main window: puts the panels round the canvas and passes on what the session tells. No logic of its own."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import QMainWindow, QMenuBar, QVBoxLayout, QWidget

from espalier.app.errors import CRASHES, Banner, show_crash
from espalier.app.measured.live import LiveMeasure
from espalier.app.session.recovery import Recovery
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.aside import DocksAside
from espalier.app.shell.consent import Consent
from espalier.app.shell.entrance import Entrance, dropped
from espalier.app.shell.finding import Finding
from espalier.app.shell.frame import MenuRow, StatusLine, TitleLabel, toolbar
from espalier.app.shell.furnishing import Furnishing
from espalier.app.shell.host import WindowHost
from espalier.app.shell.memory import FreeMemory
from espalier.app.shell.ownership import Ownership
from espalier.app.shell.palette import FindField
from espalier.app.shell.plugins import Plugins
from espalier.app.shell.services import Services
from espalier.app.theme import Palette
from espalier.app.widgets.style import Appearance
from espalier.model.document.document import Change
from espalier.passes.jobs.kinds import TERMINAL, JobEvent

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.shell.docks import Docks


class Window(QMainWindow):
    """Everything that the user sees; what it does is in the actions, what it knows is in the session."""

    def __init__(self, session: Session, settings: Settings, appearance: Appearance) -> None:
        super().__init__()
        self.session, self.settings, self.appearance = session, settings, appearance
        self.furnished, self._leaving = False, False
        self._aside = DocksAside(self)
        self.live, self.recovery, self.banner = LiveMeasure(session), Recovery(session), Banner()
        self._build()
        self._follow()
        self.plugins, self.consent = Plugins(session, settings), Consent(session, self.banner)
        self.host, self.ownership = WindowHost(self, self), Ownership(self, session, self.banner)
        self._furnishing = Furnishing(self, self.host, self._make_canvas, self.furnish)
        self.services = Services(self, self.host, self)
        self._free_memory = FreeMemory(session, self)
        self.actions_table = self.services.menus(self.menus, self.finder.begin)
        self.finding = Finding(self.host, self.actions_table, self.plugins, self.services.forms)
        self._panels = self.actions_table.submenu("View", "Panels", "reset_layout")
        self.addToolBar(toolbar(self.actions_table, self.finder))
        self._connect()
        if kept := settings.layout():
            self.restoreGeometry(kept[0])
        self.show_page()
        self.refresh()

    # -- building

    def _build(self) -> None:
        self.pages = Entrance(self.session, self.settings, self.banner, self.recovery)
        self.title = TitleLabel()
        self.finder = FindField(lambda text: self.finding.entries(text), self)
        centre = QWidget()
        box = QVBoxLayout(centre)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.banner)
        box.addWidget(self.pages, 1)
        self.setCentralWidget(centre)
        self.status = StatusLine(self.session)
        self.setStatusBar(self.status)
        self.setAcceptDrops(True)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AllowNestedDocks)
        self.menus = QMenuBar()
        self.setMenuWidget(MenuRow(self.menus, self.title))
        self.resize(1440, 900)

    @cached_property
    def canvas(self) -> GraphCanvas:
        """The graph canvas, made when it is first needed."""
        from espalier.app.canvas.view import GraphCanvas

        canvas = GraphCanvas(palette=self.appearance.palette)
        self.pages.addWidget(canvas)
        canvas.selection_changed.connect(self.session.select)
        return canvas

    def _make_canvas(self) -> bool:
        if "canvas" in self.__dict__:
            return False
        self.canvas.hide()
        return True

    @cached_property
    def docks(self) -> Docks:
        """The panels round the canvas, made when they are first needed."""
        docks = self._furnishing.finish()
        for dock in docks.docks.values():
            self._panels.addAction(dock.toggleViewAction())
        if kept := self.settings.layout():
            self.restoreState(kept[1])
        return docks

    def furnish(self) -> None:
        """Make canvas and docks; they stay hidden until a model is open."""
        self._furnishing.stop()
        if not self.furnished:
            self.furnished = True
            self._connect_panels()
            self.show_page()
            self.actions_table.refresh()

    def _connect_panels(self) -> None:
        from espalier.app.shell.panel_ties import connect

        connect(self.docks, self.host, self.services, self.plugins, self.status.tell)
        self.actions_table.menus["Run"].aboutToShow.connect(self.actions_table.refresh)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self.furnished:
            self._furnishing.start()

    def _follow(self) -> None:
        """Hear the session before others do: they may write into the banner, or close the window after a save."""
        session = self.session
        session.arriving.connect(self.furnish)
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.selection_changed.connect(self._selected)
        session.saved.connect(self._saved)
        session.job_event.connect(self._heard)
        self.banner.follow(session)
        session.view_provider = self.view_state

    def _connect(self) -> None:
        self.status.score.follow(self.live)
        self.status.score.wanted.connect(self.services.measuring.evaluate)
        self.live.state_changed.connect(self.actions_table.refresh)
        pages = self.pages
        pages.changed.connect(self.show_page)
        pages.recover_wanted.connect(lambda found: self.services.saving.guard(lambda: pages.recover_still(found)))
        pages.welcome.open_wanted.connect(self.services.opening.open_spec)
        pages.welcome.browse_wanted.connect(self.services.opening.open_file)
        pages.welcome.folder_wanted.connect(self.services.opening.open_folder)
        self.ownership.changed.connect(self.refresh)
        self.ownership.reload_wanted.connect(self.begin_opening)
        self.appearance.changed.connect(self._recolour)
        self.banner.show_node.connect(self.go_to)
        self.banner.show_log.connect(lambda: self.show_dock("log"))
        self.status.pressed.connect(lambda: self.docks.bring("jobs"))
        CRASHES.happened.connect(self._crashed)

    # -- what the session tells

    def _opened(self) -> None:
        document = self.session.document
        self.furnish()
        if document:
            self.pages.arrived(document)
            self.settings.add_recent(str(document.path or self.session.named))
        else:
            self.pages.refresh()
        self.show_page()
        self.refresh()
        self.canvas.set_graph(None)  # another document is looked at from its beginning
        self.canvas.set_graph(document.graph if document else None)
        self.canvas.set_problems({p.node: p.message for p in self.session.problems if p.node})
        if document and (view := document.project.view.get("canvas")):
            self.canvas.restore(view)

    def _changed(self, change: Change) -> None:
        self._tell()
        self.actions_table.refresh_soon()
        self.canvas.set_graph(change.after.graph, change.delta)

    def _saved(self) -> None:
        document = self.session.document
        if document and document.path:
            self.settings.add_recent(str(document.path))
        self.refresh()

    def _selected(self, ids: tuple[str, ...]) -> None:
        if ids != self.canvas.selection():
            self.canvas.select(ids, reveal=True)
        self.actions_table.refresh()

    def _heard(self, heard: JobEvent) -> None:
        if isinstance(heard.event, TERMINAL):
            self.actions_table.refresh()

    def _crashed(self, path: str, error: BaseException) -> None:
        show_crash(self.banner, path, error)

    def _recolour(self, palette: Palette) -> None:
        if self.furnished:
            self.canvas.set_palette(palette)
        self.actions_table.refresh()

    def refresh(self) -> None:
        """Say what is open, whether it is saved, and what can be done."""
        self._tell()
        self.actions_table.refresh()

    def keep(self) -> None:
        """Something that the project saves has changed: the title tells it, and the recovery copy has it."""
        self.refresh()
        self.recovery.look()

    def _tell(self) -> None:
        document = self.session.document
        name, dirty = self.ownership.title, bool(document and document.dirty)
        self.setWindowTitle(f"{name}[*] — Espalier" if name else "Espalier")
        self.setWindowModified(dirty)
        self.title.tell(name, dirty)

    # -- pages and docks

    def show_page(self) -> None:
        """Show the canvas where a model is open, else the way in."""
        held = self.session.document is not None
        page: QWidget = self.canvas if held else self.pages.page
        self.pages.setCurrentWidget(page)
        if self.furnished:
            self._aside.place(self.docks, held)

    def show_dock(self, name: str) -> None:
        """Bring a panel to the front."""
        self.docks.bring(name)

    def view_state(self) -> dict[str, Any]:
        """What a project remembers of the view."""
        return {"canvas": self.canvas.view_state()}

    # -- what the actions use

    def begin_opening(self, spec: str) -> None:
        """Open a source or project; asks nothing."""
        self.banner.leave()
        spec = str(Path(spec).expanduser()) if spec.startswith("~") else spec
        self.consent.name(spec)
        self.pages.begin(spec)
        self.show_page()

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        self.session.select((node,))
        self.canvas.reveal(node)
        self.canvas.setFocus()

    # -- what the system tells

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if paths := dropped(event.mimeData()):
            event.acceptProposedAction()
            self.services.opening.open_path(paths[0])

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._leaving and self.services.saving.unsaved():
            event.ignore()
            self.services.saving.guard(self.leave)
            return
        if self.furnished:
            self.settings.save_layout(self.saveGeometry(), self._aside.layout or self.saveState())
        self.settings.sync()
        self.hide()
        self.recovery.end()
        self.ownership.end()
        self.session.shutdown()
        event.accept()

    def leave(self) -> None:
        """Close without asking."""
        self._leaving = True
        self.close()
