"""The panel Kernels in its window: files to write and read, forms of passes, colours of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import file_actions as files
from app import model_actions as models
from app.panels.kernels import KernelsPanel
from app.panels.table import Table

if TYPE_CHECKING:
    from app.findings import Findings
    from app.window import Window


def connect(window: Window, panel: KernelsPanel, findings: Findings) -> None:
    """Let the window do what the panel asks for."""
    panel.begun.connect(lambda: window.docks.bring("kernels"))
    panel.node_wanted.connect(window.go_to)
    panel.mode_wanted.connect(window.canvas.set_mode)
    panel.pass_wanted.connect(lambda name: models.ask(window, name))
    panel.overlay_changed.connect(findings.show)
    panel.save_wanted.connect(lambda what, title, name: save(window, what, title, name))


def save(window: Window, what: Any, title: str, name: str) -> None:
    """Ask for a file and write a table, a chart or a result into it."""
    if isinstance(what, Table):
        files.save_table(window, what)
    else:
        files.save_plots(window, what, title, name)


def panel_of(window: Window) -> KernelsPanel:
    """The panel, brought to the front."""
    panel = window.docks.panels["kernels"]
    assert isinstance(panel, KernelsPanel)
    window.docks.bring("kernels")
    return panel
