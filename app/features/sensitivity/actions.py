"""The panel Sensitivity in its window: its options, room for its map, colours of the graph, its charts as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.sensitivity.panel import SensitivityPanel
    from espalier.app.host import Host

MODE = "sensitivity"  # of the graph's colours


def connect(host: Host, panel: SensitivityPanel) -> None:
    """Let the window do what the panel asks for."""
    findings = host.findings
    panel.begun.connect(lambda: host.lift_map("sensitivity"))
    panel.options_wanted.connect(lambda: ask(host, panel))
    panel.save_wanted.connect(lambda: host.save_plots(panel, "Save the sensitivities", "sensitivity.png"))
    panel.overlay_changed.connect(lambda: findings.show(MODE, panel.overlay()))
    panel.overlay_wanted.connect(lambda: host.canvas.set_mode(MODE))
    host.canvas.mode_chosen.connect(panel.colour_chosen)
    panel.known.stored.connect(host.keep)


def ask(host: Host, panel: SensitivityPanel) -> None:
    """Ask for the data and the options of the sensitivities, then find them."""
    host.ask_options("sensitivity", panel.known.default_options(), panel.find, "Run")
