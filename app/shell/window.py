"""The main window: puts the panels round the canvas and passes on what the session tells. No logic of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, QTimer
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import QMainWindow, QMenu, QMenuBar, QVBoxLayout, QWidget

from espalier.app.errors import CRASHES, Banner, show_crash
from espalier.app.measured.live import LiveMeasure
from espalier.app.session.recovery import Recovery
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.actions import file as files
from espalier.app.shell.actions import model as models
from espalier.app.shell.actions.table import Actions
from espalier.app.shell.consent import Consent
from espalier.app.shell.entrance import Entrance, dropped
from espalier.app.shell.finding import entries
from espalier.app.shell.frame import MenuRow, StatusLine, TitleLabel, toolbar
from espalier.app.shell.furnishing import Furnishing
from espalier.app.shell.host import WindowHost
from espalier.app.shell.ownership import Ownership
from espalier.app.shell.palette import FindField
from espalier.app.shell.plugins import Plugins
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
        self.after_save: Callable[[], object] | None = None
        self.furnished, self._leaving = False, False
        self._furnishing = Furnishing(self)
        self._layout: QByteArray | None = None
        self.live, self.recovery, self.host = LiveMeasure(session), Recovery(session), WindowHost(self)
        self.banner = Banner()
        self.finder = FindField(lambda text: entries(self, text), self)
        self.title = TitleLabel()
        self._build()
        self.actions_table = Actions(self)
        self._finish_menus()
        self._connect()
        self.ownership = Ownership(self)
        self.plugins, self.consent = Plugins(session, settings), Consent(session, self.banner)
        if kept := settings.layout():
            self.restoreGeometry(kept[0])
        self.show_page()
        self.refresh()
        # The first paint does not wait for the canvas and the panels.
        self._later = QTimer(self, interval=20, singleShot=True)
        self._later.timeout.connect(self._furnish_some)

    # -- building

    def _build(self) -> None:
        self.pages = Entrance(self)
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

    @cached_property
    def docks(self) -> Docks:
        """The panels round the canvas, made when they are first needed."""
        docks = self._furnishing.finish()
        for dock in docks.docks.values():
            self._panels.addAction(dock.toggleViewAction())
        if kept := self.settings.layout():
            self.restoreState(kept[1])
        return docks

    def _furnish_some(self) -> None:
        """A part of the furnishing at a time, so that the window answers in between."""
        if "canvas" not in self.__dict__:
            self.canvas.hide()
        elif not self._furnishing.go_on():
            self.furnish()
            return
        self._later.start()  # only here: what raised would raise again and again

    def furnish(self) -> None:
        """Make canvas and docks; they stay hidden until a model is open."""
        self._later.stop()
        if not self.furnished:
            self.furnished = True
            self.docks.connect(self, self.status.tell)
            self.show_page()
            self.actions_table.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self.furnished:
            self._later.start()

    def _finish_menus(self) -> None:
        menus = self.actions_table.menus
        self._panels = QMenu("Panels", self)
        menus["View"].insertMenu(self.actions_table.actions["reset_layout"], self._panels)
        recent = QMenu("Open recent", self)
        recent.aboutToShow.connect(lambda: files.fill_recent(self, recent))
        menus["File"].insertMenu(self.actions_table.actions["save"], recent)
        passes = QMenu("Plug-in passes", self)
        passes.aboutToShow.connect(lambda: models.fill_plugins(self, passes))
        menus["Model"].insertMenu(self.actions_table.actions["plugins"], passes)
        self.addToolBar(toolbar(self.actions_table, self.finder))

    def _connect(self) -> None:
        session = self.session
        session.arriving.connect(self.furnish)
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.saved.connect(self._saved)
        session.selection_changed.connect(self._selected)
        session.job_event.connect(self._heard)
        models.show_live(self)
        self.banner.follow(session)
        session.view_provider = self.view_state
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
        if self.after_save and document and not document.dirty:
            then, self.after_save = self.after_save, None
            then()

    def _selected(self, ids: tuple[str, ...]) -> None:
        if ids != self.canvas.selection():
            self.canvas.select(ids, reveal=True)
        self.actions_table.refresh()

    def _heard(self, heard: JobEvent) -> None:
        if isinstance(heard.event, TERMINAL):
            self.actions_table.refresh()
            files.forget_failed_save(self, heard)

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
            self._place_docks(held)

    def _place_docks(self, wanted: bool) -> None:
        if wanted and self._layout is not None:
            self.docks.restore(self._layout)
            self._layout = None
        elif not wanted and self._layout is None:
            self._layout = self.saveState()
            self.docks.hide_all()

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
            files.open_path(self, paths[0])

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._leaving and files.unsaved(self):
            event.ignore()
            files.guard(self, self.leave)
            return
        if self.furnished:
            self.settings.save_layout(self.saveGeometry(), self._layout or self.saveState())
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
