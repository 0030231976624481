"""The panel Hardware in its window: folders to write to, forms of its passes, colours of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from espalier.app.actions import file as files
from espalier.app.actions import model as models
from espalier.app.panels.hardware.panel import HardwarePanel
from espalier.app.panels.hardware.views import MODULES
from espalier.app.words import plural

if TYPE_CHECKING:
    from espalier.app.measured.findings import Findings
    from espalier.app.panels.table import Table
    from espalier.app.window import Window


def connect(window: Window, panel: HardwarePanel, findings: Findings) -> None:
    """Let the window do what the panel asks for."""

    def colours() -> None:
        findings.show_all({mode: panel.overlay(mode) for mode in MODULES})

    panel.begun.connect(lambda: window.docks.bring("hardware"))
    panel.folder_wanted.connect(lambda: emit(window, panel))
    panel.pass_wanted.connect(lambda name: models.ask(window, name))
    panel.node_wanted.connect(window.go_to)
    panel.mode_wanted.connect(window.canvas.set_mode)
    panel.overlay_changed.connect(colours)
    panel.save_wanted.connect(lambda table: save(window, panel, table))
    panel.held.kept.connect(colours)
    panel.held.kept.connect(window.refresh)
    panel.held.kept.connect(window.recovery.look)
    window.session.changed.connect(lambda _: colours())
    panel.held.arrived.connect(lambda: _emitted(window, panel))


def emit(window: Window, panel: HardwarePanel) -> None:
    """Ask for a folder and write the design into it."""

    def write(path: Path) -> None:
        panel.run("emit", str(path))

    files.ask_path(window, "Emit the hardware", write, folder=True)


def save(window: Window, panel: HardwarePanel, table: Table | None) -> None:
    """Ask for a file and write a table into it, or the chart."""
    if table is None:
        files.save_plots(window, panel.views.front.chart, "Save the chart", "area.png")
    else:
        files.save_table(window, table)


def _emitted(window: Window, panel: HardwarePanel) -> None:
    """Say what was written, and where."""
    made = panel.held.made
    if made is None or made.verb != "emit":
        return
    home = made.summary["folder"]
    show = ("Show in folder", lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(home)))
    window.banner.tell(f"{plural(len(made.summary['files']), 'file')} written to {home}.", buttons=[show])


def panel_of(window: Window) -> HardwarePanel:
    """The panel, brought to the front."""
    panel = window.docks.panels["hardware"]
    assert isinstance(panel, HardwarePanel)
    window.docks.bring("hardware")
    return panel
