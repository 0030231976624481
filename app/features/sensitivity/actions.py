"""Window wiring of the panel Sensitivity: options dialog, graph colours, saving charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.sensitivity.panel import SensitivityPanel
    from espalier.app.host import Host

MODE = "sensitivity"  # of the graph's colours


def connect(host: Host, panel: SensitivityPanel) -> None:
    """Connect the panel's signals to the window."""
    findings = host.findings
    panel.options_wanted.connect(lambda: ask(host, panel))
    panel.save_wanted.connect(lambda: host.save_plots(panel, "Save the sensitivities", "sensitivity.png"))
    panel.overlay_changed.connect(lambda: findings.show(MODE, panel.overlay()))
    panel.overlay_wanted.connect(lambda: host.canvas.set_mode(MODE))
    host.canvas.mode_chosen.connect(panel.colour_chosen)
    panel.known.stored.connect(host.mark_changed)


def ask(host: Host, panel: SensitivityPanel) -> None:
    """Ask for data and options, then start a run."""
    host.ask_options("sensitivity", panel.known.default_options(), panel.start_run, "Run")
