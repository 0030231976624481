"""What features may use of the window (app.host.Host), by the window's own parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject
from shiboken6 import isValid

from espalier.app.measured.findings import Findings
from espalier.app.shell import larger
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


class Parts(Protocol):
    """The parts of a window that its host hands on; the window makes some of them late."""

    session: Session
    banner: Banner
    furnished: bool
    services: Services
    actions_table: Menus

    @cached_property
    def canvas(self) -> GraphCanvas:
        """The graph canvas."""
        ...

    @cached_property
    def docks(self) -> Docks:
        """The panels round it."""
        ...

    def furnish(self) -> None:
        """Make canvas and docks."""
        ...

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        ...

    def keep(self) -> None:
        """Tell that the project has changed."""
        ...


class WindowHost(QObject):
    """The host of a window's features; what is connected to it ends with the window."""

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
        return self._parts.canvas

    @property
    def banner(self) -> Banner:
        """Where messages are shown."""
        return self._parts.banner

    @property
    def findings(self) -> Findings:
        """What was measured, as colours of the graph; it listens from when it is first needed."""
        if self._findings is None:
            self._findings = Findings(self._parts.session, self._parts.canvas)
        return self._findings

    @property
    def furnished(self) -> bool:
        """Whether canvas and docks are made."""
        return self._parts.furnished

    def furnish(self) -> None:
        """Make canvas and docks, if they are not yet."""
        self._parts.furnish()

    def panel(self, name: str) -> QWidget:
        """The panel in a dock."""
        return self._parts.docks.panels[name]

    def dock(self, name: str) -> QDockWidget:
        """A dock."""
        return self._parts.docks.docks[name]

    def show_dock(self, name: str) -> None:
        """Show a dock and bring its tab to the front."""
        self._parts.docks.bring(name)

    def enter_dock(self, name: str) -> None:
        """Show a dock and put the keyboard into it."""
        self._parts.docks.enter(name)

    def lift_map(self, name: str) -> None:
        """Give the map in a dock room for more than eight rows."""
        self._parts.docks.lift_map(name)

    def toggle_large(self) -> None:
        """Make the panel at the bottom large, or as high again as before."""
        larger.toggle(self._main, self._parts.docks.docks.values())

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        self._parts.go_to(node)

    def keep(self) -> None:
        """Something that the project saves has changed: the title tells it, and the recovery copy has it."""
        self._parts.keep()

    def refresh_actions(self) -> None:
        """Something changed that menus depend on; a dying window too tells of its docks."""
        if isValid(self._main):
            self._parts.actions_table.refresh()

    def ask_pass(self, name: str) -> None:
        """Show the options of a pass; Apply appends the step."""
        self._parts.services.forms.ask(name)

    def ask_options(self, name: str, options: Any, then: Callable[[Any], object], verb: str) -> None:
        """Show options of a pass; `then` is called with them when the button `verb` is pressed."""
        self._parts.services.forms.show(PASSES.get(name), options, then, verb)

    def open_spec(self, spec: str) -> None:
        """Open a source, after asking about unsaved changes."""
        self._parts.services.opening.open_spec(spec)

    def ask_path(
        self, title: str, then: Callable[[Path], object], *, save: bool = False, names: str = "",
        folder: bool = False, suggestion: str = "",
    ) -> None:  # fmt: skip
        """Show a file dialog; `then` is called with what was chosen."""
        self._parts.services.dialogs.ask_path(title, then, save=save, names=names, folder=folder, suggestion=suggestion)

    def telling(self, write: Callable[[], object]) -> None:
        """Write a file; the banner tells why that failed."""
        self._parts.services.dialogs.telling(write)

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Ask for a file and write charts into it."""
        self._parts.services.dialogs.save_plots(plots, title, suggestion)

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Ask for a file and write a table into it."""
        self._parts.services.dialogs.save_table(rows, suggestion)
