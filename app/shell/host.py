"""Implements `app.host.Host` for the features by the parts of the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject
from shiboken6 import isValid

from espalier.app.measured.findings import Findings
from espalier.model.registry import PASSES

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.errors import Banner
    from espalier.app.host import Exportable, Savable
    from espalier.app.session.session import Session
    from espalier.app.shell.docks import Docks
    from espalier.app.shell.menus import Menus
    from espalier.app.shell.services import Services
    from espalier.app.shell.session_canvas import SessionCanvas
    from espalier.app.shell.start_pages import StartPages


class Parts(Protocol):
    """The parts of a window that its host uses; the window creates some of them lazily."""

    session: Session
    banner: Banner
    panels_built: bool
    services: Services
    actions_table: Menus
    graph_view: SessionCanvas
    pages: StartPages

    @cached_property
    def docks(self) -> Docks:
        """The panels around the canvas."""
        ...

    def build_panels(self) -> None:
        """Create canvas and docks."""
        ...

    def mark_changed(self) -> None:
        """Mark the document as changed."""
        ...

    def cover(self, page: QWidget | None) -> None:
        """Show a page in place of graph and docks."""
        ...

    def show_dock(self, name: str) -> None:
        """Bring a panel to the front."""
        ...


class WindowHost(QObject):
    """The host of a window's features; Qt disconnects its slots when the window is destroyed."""

    def __init__(self, window: QMainWindow, parts: Parts) -> None:
        super().__init__(window)
        self._main, self._parts = window, parts
        self._findings: Findings | None = None

    @property
    def session(self) -> Session:
        """The session of the open document."""
        return self._parts.session

    @property
    def canvas(self) -> GraphCanvas:
        """The graph canvas."""
        return self._parts.graph_view.canvas

    @property
    def banner(self) -> Banner:
        """Where messages are shown."""
        return self._parts.banner

    @property
    def findings(self) -> Findings:
        """The measurements as colours of the graph, created on first use."""
        if self._findings is None:
            self._findings = Findings(self._parts.session, self.canvas)
        return self._findings

    @property
    def panels_built(self) -> bool:
        """Whether canvas and docks exist."""
        return self._parts.panels_built

    def build_panels(self) -> None:
        """Create canvas and docks, if they do not exist."""
        self._parts.build_panels()

    def panel(self, name: str) -> QWidget:
        """The panel in a dock, created at the first call."""
        return self._parts.docks.panels[name]

    def existing_panel(self, name: str) -> QWidget | None:
        """The panel in a dock, or None if it was not created yet."""
        return self._parts.docks.panels.get(name) if self._parts.panels_built else None

    def dock(self, name: str) -> QDockWidget:
        """A dock."""
        return self._parts.docks.docks[name]

    def show_dock(self, name: str) -> None:
        """Show a dock and bring its tab to the front."""
        self._parts.show_dock(name)

    def enter_dock(self, name: str) -> None:
        """Show a dock and give its panel the focus."""
        self._parts.docks.enter(name)

    def toggle_graph(self) -> None:
        """Give the panels of the workspace the whole width, or show the graph beside them."""
        self._parts.pages.workbench.toggle_graph()

    def cover(self, page: QWidget | None) -> None:
        """Show a page in place of graph and docks, until it is None."""
        self._parts.cover(page)

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        self.cover(None)
        self._parts.graph_view.go_to(node)

    def mark_changed(self) -> None:
        """Mark the document as changed besides its graph: update the title and the recovery copy."""
        self._parts.mark_changed()

    def refresh_actions(self) -> None:
        """Update the state of all actions; docks signal changes even while their window is destroyed."""
        if isValid(self._main):
            self._parts.actions_table.refresh()

    def ask_pass(self, name: str) -> None:
        """Show the options of a pass; Apply appends a step."""
        self._parts.services.forms.ask(name)

    def ask_options(self, name: str, options: Any, then: Callable[[Any], object], verb: str) -> None:
        """Show options of a pass; the button `verb` calls `then` with them."""
        self._parts.services.forms.show(PASSES.get(name), options, then, verb)

    def open_spec(self, spec: str) -> None:
        """Open a source, after asking about unsaved changes."""
        self._parts.services.opening.open_spec(spec)

    def ask_model(self, title: str, then: Callable[[str], object]) -> None:
        """Ask for a model or a project; `then` is called with its source."""
        self._parts.services.opening.ask_model(title, then)

    def ask_path(
        self, title: str, then: Callable[[Path], object], *, save: bool = False, names: str = "",
        folder: bool = False, suggestion: str = "",
    ) -> None:  # fmt: skip
        """Show a file dialog; `then` is called with the chosen path."""
        self._parts.services.dialogs.ask_path(title, then, save=save, names=names, folder=folder, suggestion=suggestion)

    def report_errors(self, write: Callable[[], object]) -> None:
        """Call `write`; the banner shows its EspalierError."""
        self._parts.services.dialogs.report_errors(write)

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Ask for a file and write charts into it."""
        self._parts.services.dialogs.save_plots(plots, title, suggestion)

    def export(self, form: str) -> None:
        """Export the model in a form such as "gguf", after asking for its path."""
        self._parts.services.exports.export(form)

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Ask for a file and write a table into it."""
        self._parts.services.dialogs.save_table(rows, suggestion)
