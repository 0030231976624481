"""What the window offers to its features: they know this and not the window, so each can be read and tested alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDockWidget, QWidget

    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.errors import Banner
    from espalier.app.measured.findings import Findings
    from espalier.app.session.session import Session


class Exportable(Protocol):
    """Charts that write what they show as a picture, or its figures as CSV."""

    def export(self, path: Path) -> object:
        """Write the file; raises EspalierError."""
        ...


class Savable(Protocol):
    """A table that writes its rows as CSV."""

    def save(self, path: Path) -> object:
        """Write the file; raises EspalierError."""
        ...


class Host(Protocol):
    """The window as a feature sees it."""

    @property
    def session(self) -> Session:
        """The session of the open document."""
        ...

    @property
    def canvas(self) -> GraphCanvas:
        """The graph canvas."""
        ...

    @property
    def banner(self) -> Banner:
        """Where messages are shown."""
        ...

    @property
    def findings(self) -> Findings:
        """What was measured, as colours of the graph."""
        ...

    @property
    def furnished(self) -> bool:
        """Whether canvas and docks are made."""
        ...

    def furnish(self) -> None:
        """Make canvas and docks, if they are not yet."""
        ...

    def panel(self, name: str) -> QWidget:
        """The panel in a dock."""
        ...

    def dock(self, name: str) -> QDockWidget:
        """A dock."""
        ...

    def show_dock(self, name: str) -> None:
        """Show a dock and bring its tab to the front."""
        ...

    def enter_dock(self, name: str) -> None:
        """Show a dock and put the keyboard into it."""
        ...

    def lift_map(self, name: str) -> None:
        """Give the map in a dock room for more than eight rows."""
        ...

    def toggle_large(self) -> None:
        """Make the panel at the bottom large, or as high again as before."""
        ...

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        ...

    def keep(self) -> None:
        """Something that the project saves has changed."""
        ...

    def refresh_actions(self) -> None:
        """Something changed that menus depend on."""
        ...

    def ask_pass(self, name: str) -> None:
        """Show the options of a pass; Apply appends the step."""
        ...

    def ask_options(self, name: str, options: Any, then: Callable[[Any], object], verb: str) -> None:
        """Show options of a pass; `then` is called with them when the button `verb` is pressed."""
        ...

    def open_spec(self, spec: str) -> None:
        """Open a source, after asking about unsaved changes."""
        ...

    def ask_path(
        self, title: str, then: Callable[[Path], object], *, save: bool = False, names: str = "",
        folder: bool = False, suggestion: str = "",
    ) -> None:  # fmt: skip
        """Show a file dialog; `then` is called with what was chosen."""
        ...

    def telling(self, write: Callable[[], object]) -> None:
        """Write a file; the banner tells why that failed."""
        ...

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Ask for a file and write charts into it."""
        ...

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Ask for a file and write a table into it."""
        ...
