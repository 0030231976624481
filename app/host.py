"""The interface of the window for its features, so that each can be read and tested without the window."""

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
    """Charts that can write themselves as a picture, or their values as CSV."""

    def export(self, path: Path) -> object:
        """Write the file; raises EspalierError."""
        ...


class Savable(Protocol):
    """A table that can write its rows as CSV."""

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
        """The measurements as colours of the graph."""
        ...

    @property
    def panels_built(self) -> bool:
        """Whether canvas and docks exist; each panel is created when it is first asked for."""
        ...

    def build_panels(self) -> None:
        """Create canvas and docks, if they do not exist."""
        ...

    def panel(self, name: str) -> QWidget:
        """The panel in a dock, created at the first call."""
        ...

    def existing_panel(self, name: str) -> QWidget | None:
        """The panel in a dock, or None if it was not created yet."""
        ...

    def dock(self, name: str) -> QDockWidget:
        """A dock."""
        ...

    def show_dock(self, name: str) -> None:
        """Show a dock and bring its tab to the front."""
        ...

    def enter_dock(self, name: str) -> None:
        """Show a dock and give its panel the focus."""
        ...

    def toggle_graph(self) -> None:
        """Give the panels of the workspace the whole width, or show the graph beside them."""
        ...

    def cover(self, page: QWidget | None) -> None:
        """Show a page in place of graph and docks, until it is None."""
        ...

    def go_to(self, node: str) -> None:
        """Select a node and bring it into view."""
        ...

    def mark_changed(self) -> None:
        """Mark the document as changed besides its graph."""
        ...

    def refresh_actions(self) -> None:
        """Update the state of all actions."""
        ...

    def ask_pass(self, name: str) -> None:
        """Show the options of a pass; Apply appends a step."""
        ...

    def ask_options(self, name: str, options: Any, then: Callable[[Any], object], verb: str) -> None:
        """Show options of a pass; the button `verb` calls `then` with them."""
        ...

    def open_spec(self, spec: str) -> None:
        """Open a source, after asking about unsaved changes."""
        ...

    def ask_model(self, title: str, then: Callable[[str], object]) -> None:
        """Ask for a model or a project; `then` is called with its source."""
        ...

    def ask_path(
        self, title: str, then: Callable[[Path], object], *, save: bool = False, names: str = "",
        folder: bool = False, suggestion: str = "",
    ) -> None:  # fmt: skip
        """Show a file dialog; `then` is called with the chosen path."""
        ...

    def report_errors(self, write: Callable[[], object]) -> None:
        """Call `write`; the banner shows its EspalierError."""
        ...

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Ask for a file and write charts into it."""
        ...

    def export(self, form: str) -> None:
        """Export the model in a form such as "gguf", after asking for its path."""
        ...

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Ask for a file and write a table into it."""
        ...
