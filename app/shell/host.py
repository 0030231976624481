"""What features may use of the window (app.host.Host), by the window's own parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject
from shiboken6 import isValid

from espalier.app.measured.findings import Findings
from espalier.app.shell import larger
from espalier.app.shell.actions import file as files
from espalier.app.shell.actions import model as models
from espalier.model.registry import PASSES

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDockWidget, QWidget

    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.errors import Banner
    from espalier.app.host import Exportable, Savable
    from espalier.app.session.session import Session
    from espalier.app.shell.window import Window


class WindowHost(QObject):
    """The host of a window's features; what is connected to it ends with the window."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._window = window
        self._findings: Findings | None = None

    @property
    def session(self) -> Session:
        """The session of the open document."""
        return self._window.session

    @property
    def canvas(self) -> GraphCanvas:
        """The graph canvas."""
        return self._window.canvas

    @property
    def banner(self) -> Banner:
        """Where messages are shown."""
        return self._window.banner

    @property
    def findings(self) -> Findings:
        """What was measured, as colours of the graph; it listens from when it is first needed."""
        if self._findings is None:
            self._findings = Findings(self._window.session, self._window.canvas)
        return self._findings

    @property
    def furnished(self) -> bool:
        """Whether canvas and docks are made."""
        return self._window.furnished

    def furnish(self) -> None:
        """Make canvas and docks, if they are not yet."""
        self._window.furnish()

    def panel(self, name: str) -> QWidget:
        """The panel in a dock."""
        return self._window.docks.panels[name]

    def dock(self, name: str) -> QDockWidget:
        """A dock."""
        return self._window.docks.docks[name]

    def show_dock(self, name: str) -> None:
        """Show a dock and bring its tab to the front."""
        self._window.docks.bring(name)

    def lift_map(self, name: str) -> None:
        """Give the map in a dock room for more than eight rows."""
        self._window.docks.lift_map(name)

    def toggle_large(self) -> None:
        """Make the panel at the bottom large, or as high again as before."""
        larger.toggle(self._window)

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        self._window.go_to(node)

    def keep(self) -> None:
        """Something that the project saves has changed: the title tells it, and the recovery copy has it."""
        self._window.refresh()
        self._window.recovery.look()

    def refresh_actions(self) -> None:
        """Something changed that menus depend on; a dying window too tells of its docks."""
        if isValid(self._window):
            self._window.actions_table.refresh()

    def ask_pass(self, name: str) -> None:
        """Show the options of a pass; Apply appends the step."""
        models.ask(self._window, name)

    def ask_options(self, name: str, options: Any, then: Callable[[Any], object], verb: str) -> None:
        """Show options of a pass; `then` is called with them when the button `verb` is pressed."""
        models.show_options(self._window, PASSES.get(name), options, then, verb)

    def open_spec(self, spec: str) -> None:
        """Open a source, after asking about unsaved changes."""
        files.open_spec(self._window, spec)

    def ask_path(
        self, title: str, then: Callable[[Path], object], *, save: bool = False, names: str = "",
        folder: bool = False, suggestion: str = "",
    ) -> None:  # fmt: skip
        """Show a file dialog; `then` is called with what was chosen."""
        files.ask_path(self._window, title, then, save=save, names=names, folder=folder, suggestion=suggestion)

    def telling(self, write: Callable[[], object]) -> None:
        """Write a file; the banner tells why that failed."""
        files.telling(self._window, write)

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Ask for a file and write charts into it."""
        files.save_plots(self._window, plots, title, suggestion)

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Ask for a file and write a table into it."""
        files.save_table(self._window, rows, suggestion)
