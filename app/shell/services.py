"""The services behind the menus and panels of a window, and the rows of its menus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from PySide6.QtWidgets import QMainWindow, QMenu, QMenuBar, QWidget

from espalier.app.menu import MENUS
from espalier.app.shell.actions import edit, file, help, model, run, tabs, view
from espalier.app.shell.dialogs import Dialogs
from espalier.app.shell.evaluation import Evaluation
from espalier.app.shell.exports import Exports, model_name
from espalier.app.shell.keys import KeyBindings
from espalier.app.shell.menus import Menus
from espalier.app.shell.opening import Opening
from espalier.app.shell.pass_forms import PassForms
from espalier.app.shell.presenting import Presenting
from espalier.app.shell.reopening import Reopening
from espalier.app.shell.reports import Reports
from espalier.app.shell.saving import Saving
from espalier.app.shell.tour import Tour
from espalier.app.shell.what_is import WhatIs
from espalier.app.translation import tr
from espalier.app.widgets.figure_files import FigureFiles
from espalier.app.widgets.selections_menu import fill_selections

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.measured.live import LiveMeasure
    from espalier.app.settings import Settings
    from espalier.app.shell.actions.tabs import TabActions
    from espalier.app.shell.docks import Docks
    from espalier.app.shell.find_field import FindField
    from espalier.app.shell.frame import StatusLine
    from espalier.app.shell.ownership import Ownership
    from espalier.app.shell.plugins import Plugins
    from espalier.app.shell.start_pages import StartPages
    from espalier.app.widgets.style import Appearance

MENU_ORDER = ("File", "Edit", "View", "Model", "Run", "", "Help")  # "": menus that only features have


class Parts(Protocol):
    """The parts of a window that its services use; the window creates its docks lazily."""

    settings: Settings
    appearance: Appearance
    ownership: Ownership
    live: LiveMeasure
    plugins: Plugins
    pages: StartPages
    status: StatusLine
    find_field: FindField
    tabs: TabActions | None

    @cached_property
    def docks(self) -> Docks:
        """The panels around the canvas."""
        ...

    def begin_opening(self, spec: str) -> None:
        """Open a source or project without asking about unsaved changes."""
        ...


class Services:
    """One object per task; menus and panels are connected to them."""

    def __init__(self, window: QMainWindow, host: Host, parts: Parts) -> None:
        session, banner = host.session, host.banner
        self._window, self._host, self._parts, self._session = window, host, parts, session
        self.dialogs = Dialogs(window, parts.settings, banner)
        files = FigureFiles(window, lambda: model_name(session))
        files.failed.connect(banner.show_error)
        session.ending.connect(files.end)
        self.saving = Saving(window, session, parts.ownership, self.dialogs)
        self.opening = Opening(
            session, parts.settings, banner, self.dialogs, self.saving, parts.begin_opening, self._open_in_tab
        )
        self.reopening = Reopening(
            session, parts.settings, banner, self.opening.open_spec, parts.begin_opening, lambda: parts.tabs
        )
        self.exports = Exports(session, banner, self.dialogs, lambda: host.canvas, lambda: host.show_dock("exports"))
        self.presenting = Presenting(window, host, lambda: parts.docks, parts.pages.workbench)
        self.forms = PassForms(window, host)
        self.reports = Reports(host, self.forms)
        self.evaluation = Evaluation(session, parts.live, self.forms)
        self.tour = Tour(window, host, self._part)
        self.what_is = WhatIs(window, lambda: help.guide(window, parts.appearance))

    def _part(self, name: str) -> QWidget:
        """A part of the window that the tour points at."""
        parts = self._parts
        match name:
            case "graph":
                return self._host.canvas
            case "inspector":
                return self._host.dock("inspector")
            case "score":
                return parts.status.score
            case "workspaces":
                return parts.pages.workbench.bar
            case _:
                return parts.find_field

    def _quit(self) -> None:
        self._window.window().close()

    def _can_close(self) -> bool:
        return self._session.document is not None or self._has_tabs

    @property
    def _has_tabs(self) -> bool:
        return self._parts.tabs is not None and self._parts.tabs.count > 1

    def _close(self) -> None:
        """Close the document; with its tab, if there are others."""
        if self._parts.tabs is not None and self._has_tabs:
            self._parts.tabs.close_current()
        else:
            self.saving.close()

    def _open_in_tab(self, spec: str, is_used: bool) -> bool:
        """Open a source in another tab; False where this one can take it. `is_used`: this one has a document."""
        tabs = self._parts.tabs
        if tabs is None:
            return False
        if tabs.bring(spec):
            return True
        if is_used:
            tabs.open(spec)
        return is_used

    def menus(self, bar: QMenuBar, find: FindField) -> Menus:
        """Build the menus in a menu bar."""

        def follow(present: Mapping[str, tuple[str, ...]]) -> None:
            parts.pages.workbench.bar.show_keys(present)
            find.show_keys(present["find"])

        parts, host, session = self._parts, self._host, self._session
        rows = [
            *tabs.rows(lambda: parts.tabs),
            *file.rows(self.opening, self.saving, self.exports, self._close, self._can_close, self._quit),
            *file.reopening_rows(self.reopening, parts.settings),
            *edit.rows(session, find.begin),
            *view.rows(view.View(host, lambda: parts.docks, parts.pages.workbench, self.presenting), host),
            *view.theme_rows(parts.settings, parts.appearance),
            *view.size_rows(parts.settings, host),
            *view.language_rows(parts.settings, host),
            *model.rows(session, self.forms, self.reports, self.exports, self._show_plugins),
            *run.rows(session, self.evaluation),
            *(row for _, rows_of in MENUS.items() for row in rows_of(host)),
            *help.rows(self._window, parts.appearance, lambda: keys, self.what_is.explain_pointer, self.tour.start),
        ]
        menus = Menus(self._window, bar, rows, MENU_ORDER, lambda: session.document is not None)
        menus.menus["View"].aboutToShow.connect(menus.refresh)  # what is presented follows the focus
        keys = KeyBindings(menus, parts.settings, follow)
        recent = menus.submenu("File", tr("Open recent"), "save")
        recent.aboutToShow.connect(lambda: self.opening.fill_recent(recent))
        selections, saved = menus.submenu("Edit", tr("Saved selections"), "find"), session.saved_selections
        selections.aboutToShow.connect(
            lambda: fill_selections(selections, saved, self._window, can_save=bool(session.selection))
        )
        saved.changed.connect(host.mark_changed)
        passes = menus.submenu("Model", tr("Plug-in passes"), "plugins")
        passes.aboutToShow.connect(lambda: self.fill_plugins(passes))
        return menus

    def fill_plugins(self, menu: QMenu) -> None:
        """Fill a menu with the passes of plug-ins."""
        model.fill_plugins(menu, self._parts.plugins, self.forms, self._session.document is not None)

    def _show_plugins(self) -> None:
        from espalier.app.shell.plugins_window import PluginsWindow

        dialog = PluginsWindow(self._window, self._parts.plugins, self.dialogs, self._parts.appearance)
        dialog.show()
        dialog.activateWindow()  # not every platform gives a Qt.Tool window the focus
