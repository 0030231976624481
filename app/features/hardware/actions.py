"""Window wiring of the panel Hardware: folder dialogs, pass forms, colours of the graph."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from espalier.app.features.hardware.state.hardware import hardware_of
from espalier.app.features.hardware.state.overlays import MODULES, overlay
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.ops import category
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select

if TYPE_CHECKING:
    from espalier.app.features.hardware.panel import HardwarePanel
    from espalier.app.features.hardware.state.hardware import Hardware
    from espalier.app.host import Host
    from espalier.app.widgets.table import Table


def follow(host: Host) -> None:
    """Connect the runs to the window: colours of the graph, the project, and what was written."""
    hardware, findings = hardware_of(host.session), host.findings

    def colours() -> None:
        findings.show_all({mode: overlay(hardware, mode) for mode in MODULES})

    hardware.result_ready.connect(colours)
    hardware.stored.connect(colours)
    hardware.stored.connect(host.mark_changed)
    host.session.changed.connect(lambda _: colours())
    hardware.result_ready.connect(lambda: _emitted(host, hardware))


def connect(host: Host, panel: HardwarePanel) -> None:
    """Connect the panel's signals to the window."""
    panel.begun.connect(lambda: host.show_dock("hardware"))
    panel.folder_wanted.connect(lambda: emit(host, panel))
    panel.pass_wanted.connect(lambda name: ask_formats(host) if name == "quantize" else host.ask_pass(name))
    panel.node_wanted.connect(host.go_to)
    panel.mode_wanted.connect(host.canvas.set_mode)
    panel.save_wanted.connect(lambda table: save(host, panel, table))


def ask_formats(host: Host) -> None:
    """Show the form of quantize for all layers with weights, whatever is selected: a design needs them all."""
    ops = {n.op for n in host.session.open_document.graph if category(n) == "linear" and "weight" in n.weights}
    formats: dict[str, Format | None] = {"data_in": Integer(8, 4), "weight": Integer(8, 6), "bias": Integer(12, 8)}
    rule = Rule(Select("type", tuple(sorted(ops)) or ("linear",)), formats)
    host.ask_options("quantize", QuantizeOptions((rule,)), partial(host.session.run_pass, "quantize"), tr("Apply"))


def emit(host: Host, panel: HardwarePanel) -> None:
    """Ask for a folder and write the design into it."""

    def write(path: Path) -> None:
        panel.run("emit", str(path))

    host.ask_path(tr("Emit the hardware"), write, folder=True)


def save(host: Host, panel: HardwarePanel, table: Table | None) -> None:
    """Ask for a file and write a table into it, or the chart."""
    if table is None:
        host.save_plots(panel.views.front.chart, tr("Save the chart"), "area.png")
    else:
        host.save_table(table)


def _emitted(host: Host, hardware: Hardware) -> None:
    """Show what was written, with a link to the folder."""
    result = hardware.result
    if result is None or result.verb != "emit":
        return
    folder = result.summary["folder"]
    show = (tr("Show in folder"), lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(folder)))
    host.banner.show_message(
        tr("{} written to {}.", plural(len(result.summary["files"]), "file"), folder), buttons=[show]
    )


def panel_of(host: Host) -> HardwarePanel:
    """Bring the panel to the front and return it."""
    from espalier.app.features.hardware.panel import HardwarePanel

    panel = host.panel("hardware")
    assert isinstance(panel, HardwarePanel)
    host.show_dock("hardware")
    return panel
