"""The main window: lays out canvas, panels and menus, and connects them to the session. No logic of its own."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import QMainWindow, QMenuBar, QVBoxLayout, QWidget

from espalier.app.errors import CRASHES, Banner, show_crash
from espalier.app.measured.live import LiveMeasure
from espalier.app.session.recovery import Recovery
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.code_line import CodeLine
from espalier.app.shell.consent import Consent
from espalier.app.shell.find_field import FindField
from espalier.app.shell.frame import MenuRow, StatusLine, TitleLabel, Tools
from espalier.app.shell.host import WindowHost
from espalier.app.shell.job_alert import JobAlert
from espalier.app.shell.lazy_panels import IDLE, LazyPanels
from espalier.app.shell.memory import FreeMemory
from espalier.app.shell.ownership import Ownership
from espalier.app.shell.plugins import Plugins
from espalier.app.shell.quick_find import QuickFind
from espalier.app.shell.services import Services
from espalier.app.shell.session_canvas import SessionCanvas
from espalier.app.shell.start_pages import StartPages, dropped_paths
from espalier.app.shell.workbench import DRAWER
from espalier.app.shell.workspaces import GRAPH
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.style import Appearance
from espalier.passes.jobs.kinds import TERMINAL, JobEvent

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.shell.actions.tabs import TabActions
    from espalier.app.shell.docks import Docks


class Window(QMainWindow):
    """The main window of one session, which holds the document; a tab of `tabs`, unless that is None."""

    title_changed = Signal()

    def __init__(self, session: Session, settings: Settings, appearance: Appearance) -> None:
        super().__init__()
        self.session, self.settings, self.appearance = session, settings, appearance
        self.panels_built, self._closing_now = False, False
        self.tabs: TabActions | None = None
        self.live, self.recovery, self.banner = LiveMeasure(session), Recovery(session), Banner()
        self._build()
        self._follow_session()
        self.plugins, self.consent = Plugins(session, settings), Consent(session, self.banner)
        self.host, self.ownership = WindowHost(self, self), Ownership(self, session, self.banner)
        self._lazy_panels = LazyPanels(self.pages.workbench, self.host, self.graph_view.build, self.build_panels)
        self.services = Services(self, self.host, self)
        self._free_memory, self._job_alert = FreeMemory(session, self), JobAlert(session, self)
        self.actions_table = self.services.menus(self.menus, self.find_field)
        self.quick_find = QuickFind(
            self.host, self.actions_table, self.plugins, self.services.forms, self.services.what_is.explain
        )
        self._panel_menu = self.actions_table.submenu("View", tr("Panels"), "reset_layout")
        self.tools = Tools(self.actions_table, self.find_field)
        self.addToolBar(self.tools)
        self._connect()
        self._recolour(appearance.palette)
        self.pages.workbench.areas[DRAWER].set_corner(CodeLine(session))
        if layout := settings.layout():
            self.restoreGeometry(layout[0])
        self.show_page()
        self.refresh()

    # -- building

    def _build(self) -> None:
        self.pages = StartPages(self.session, self.settings, self.banner, self.recovery)
        self.graph_view = SessionCanvas(self, self.session, self.appearance, self.pages.workbench)
        self.title = TitleLabel()
        self.find_field = FindField(lambda text: self.quick_find.entries(text), self)
        centre = QWidget()
        self.setCentralWidget(centre)  # first: what gets a new parent is styled again with all its children
        box = QVBoxLayout(centre)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.pages, 1)
        self.banner.float_over(centre)
        self.status = StatusLine(self.session)
        self.setStatusBar(self.status)
        self.setAcceptDrops(True)
        self.menus = QMenuBar()
        self.setMenuWidget(MenuRow(self.menus, self.title))
        self.resize(1440, 900)

    @property
    def canvas(self) -> GraphCanvas:
        """The graph canvas, created on first use."""
        return self.graph_view.canvas

    @cached_property
    def docks(self) -> Docks:
        """The docks around the canvas, created on first use."""
        docks = self._lazy_panels.docks()
        for name, dock in docks.docks.items():
            self._panel_menu.addAction(dock.windowTitle()).triggered.connect(lambda _=False, n=name: docks.bring(n))
        if layout := self.settings.layout():
            docks.restore(layout[1])
        return docks

    def build_panels(self) -> None:
        """Create canvas and docks, which stay hidden until a model is open. Panels are created where they are seen."""
        self._lazy_panels.stop()
        if not self.panels_built:
            self.panels_built = True
            self._connect_panels()
            self.show_page()
            self.actions_table.refresh()

    def _connect_panels(self) -> None:
        from espalier.app.shell.panel_connections import connect_panels

        connect_panels(self.docks, self.host, self.services, self.plugins, self.status.show_job)
        self.actions_table.menus["Run"].aboutToShow.connect(self.actions_table.refresh)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self.panels_built:
            self._lazy_panels.start()

    def _follow_session(self) -> None:
        """Connect the session before anything else does: other slots may show messages or close the window."""
        session = self.session
        session.about_to_open.connect(self.build_panels)
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.changed.connect(self.graph_view.show_change)
        session.arranged.connect(self._changed)
        session.arranged.connect(self.graph_view.show_change)
        session.selection_changed.connect(self.graph_view.show_selection)
        session.selection_changed.connect(lambda: self.actions_table.refresh())
        session.saved.connect(self._saved)
        session.job_event.connect(self._job_event)
        self.banner.follow(session)
        session.view_provider = self.graph_view.view_state

    def _connect(self) -> None:
        self.status.score.follow(self.live)
        self.status.score.wanted.connect(self.services.evaluation.evaluate)
        self.live.state_changed.connect(self.actions_table.refresh)
        self.plugins.changed.connect(self.pages.refresh)  # unsaved work with their formats can be read now
        self.pages.workbench.changed.connect(self.actions_table.refresh_soon)
        self.pages.workbench.bar.chosen.connect(self._workspace_chosen)
        pages = self.pages
        pages.changed.connect(self.show_page)
        pages.recover_wanted.connect(lambda leftover: self.services.saving.guard(lambda: pages.recover(leftover)))
        pages.welcome.open_wanted.connect(self.services.opening.open_spec)
        pages.welcome.browse_wanted.connect(self.services.opening.open_file)
        pages.welcome.folder_wanted.connect(self.services.opening.open_folder)
        self.ownership.changed.connect(self.refresh)
        self.ownership.reload_wanted.connect(self.begin_opening)
        self.appearance.changed.connect(self._recolour)
        self.banner.show_node.connect(self.graph_view.go_to)
        self.banner.show_log.connect(lambda: self.show_dock("log"))
        self.status.pressed.connect(lambda: self.docks.bring("jobs"))
        CRASHES.happened.connect(self._crashed)

    # -- slots of the session

    def _opened(self) -> None:
        document = self.session.document
        self.build_panels()
        if document:
            self.pages.document_opened(document)
            self.settings.add_recent(self.recovery.source)
        else:
            self.pages.refresh()
        self.show_page()
        self.refresh()
        self.graph_view.show_document()
        self._lazy_panels.start(IDLE)

    def _changed(self) -> None:
        self._show_title()
        self.actions_table.refresh_soon()

    def _saved(self) -> None:
        document = self.session.document
        if document and document.path:
            self.settings.add_recent(str(document.path))
        self.refresh()

    def _job_event(self, event: JobEvent) -> None:
        if isinstance(event.event, TERMINAL):
            self.actions_table.refresh()

    def _crashed(self, path: str, error: BaseException) -> None:
        show_crash(self.banner, path, error)

    def _workspace_chosen(self, name: str) -> None:
        """Without a model, the workspace Graph is the welcome page."""
        if name == GRAPH and self.session.document is None:
            self.show_page()

    def _recolour(self, palette: Palette) -> None:
        for part in (self.pages.workbench.bar, self.tools):
            part.set_palette(palette)
        if self.panels_built:
            self.canvas.set_palette(palette)
        self.actions_table.refresh()

    def refresh(self) -> None:
        """Update the title and the state of all actions."""
        self._show_title()
        self.actions_table.refresh()

    def mark_changed(self) -> None:
        """Mark the document as changed besides its graph: update the title and the recovery copy."""
        self.refresh()
        self.recovery.update()

    def _show_title(self) -> None:
        document = self.session.document
        name, dirty = self.ownership.title, bool(document and document.dirty)
        self.setWindowTitle(f"{name}[*] — Espalier" if name else "Espalier")
        self.setWindowModified(dirty)
        self.title.show_name(name, dirty)
        self.title_changed.emit()

    # -- pages and docks

    def show_page(self) -> None:
        """Show the canvas if a model is open, or the page that covers it, else the welcome or loading page."""
        is_open = self.session.document is not None
        page: QWidget = self.pages.workbench if is_open else self.pages.page
        if not self.panels_built:
            self.pages.setCurrentWidget(page)
            return
        with self.docks.arranging():
            self.pages.setCurrentWidget(page)
            self.docks.show_floating(is_open and (self.tabs is None or self.isVisible()))

    def cover(self, page: QWidget | None) -> None:
        """Show a page in place of the workspaces, until it is None or a workspace is chosen."""
        self.pages.workbench.cover(page)
        self.actions_table.refresh()

    def show_dock(self, name: str) -> None:
        """Bring a panel to the front; kernels, jobs and the log are of use without a model, too."""
        self.docks.bring(name)
        if self.session.document is None and not self.pages.workbench.isVisible():
            with self.docks.arranging():
                self.pages.setCurrentWidget(self.pages.workbench)

    def begin_opening(self, spec: str) -> None:
        """Open a source or project without asking about unsaved changes."""
        self.banner.dismiss()
        spec = str(Path(spec).expanduser()) if spec.startswith("~") else spec
        self.consent.allow_named(spec)
        self.pages.begin(spec)
        self.show_page()

    # -- events of the system

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if paths := dropped_paths(event.mimeData()):
            event.acceptProposedAction()
            self.services.opening.open_path(paths[0])

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._closing_now and self.services.saving.unsaved():
            event.ignore()
            self.services.saving.guard(self.close_now)
            return
        if self.panels_built and (self.tabs is None or self.tabs.current is self):
            self.settings.save_layout(self.window().saveGeometry(), self.docks.state())
        self.settings.sync()
        self.hide()
        self.recovery.end()
        self.ownership.end()
        self.session.shutdown()
        event.accept()

    def close_now(self) -> None:
        """Close without asking about unsaved changes."""
        self._closing_now = True
        self.close()
