"""Window wiring of the panel Sensitivity: options dialog, graph colours, saving charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.measured.sensitivities import sensitivities_of
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.features.sensitivity.panel import SensitivityPanel
    from espalier.app.host import Host

MODE = "sensitivity"  # of the graph's colours


def follow(host: Host) -> None:
    """Connect the results to the project; the panel gives the graph its colours by sensitivity."""
    sensitivities_of(host.session).stored.connect(host.mark_changed)
    host.canvas.mode_chosen.connect(lambda mode: _colour(host) if mode == MODE else None)


def _colour(host: Host) -> None:
    from espalier.app.features.sensitivity.panel import SensitivityPanel

    panel = host.panel("sensitivity")
    assert isinstance(panel, SensitivityPanel)
    panel.colour_chosen(MODE)


def connect(host: Host, panel: SensitivityPanel) -> None:
    """Connect the panel's signals to the window."""
    findings = host.findings
    panel.options_wanted.connect(lambda: ask(host, panel))
    panel.save_wanted.connect(lambda: host.save_plots(panel, tr("Save the sensitivities"), "sensitivity.png"))
    panel.overlay_changed.connect(lambda: findings.show(MODE, panel.overlay()))
    panel.overlay_wanted.connect(lambda: host.canvas.set_mode(MODE))
    findings.show(MODE, panel.overlay())


def ask(host: Host, panel: SensitivityPanel) -> None:
    """Ask for data and options, then start a run."""
    host.ask_options("sensitivity", panel.known.default_options(), panel.start_run, tr("Run"))
