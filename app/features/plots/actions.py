"""The panel Plots in its window: brought forward when a training begins, its curves as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.plots.panel import PlotsPanel
    from espalier.app.host import Host


def connect(host: Host, panel: PlotsPanel) -> None:
    """Let the window do what the panel asks for."""
    panel.begun.connect(lambda: host.show_dock("plots"))
    panel.begun.connect(host.refresh_actions)
    panel.save_wanted.connect(lambda: host.save_plots(panel, "Save the plots", "training.png"))
