"""The panel Sweeps in its window: brought forward when a sweep begins, its charts and figures as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.sweep.panel import SweepsPanel
    from espalier.app.host import Host


def connect(host: Host, panel: SweepsPanel) -> None:
    """Let the window do what the panel asks for."""
    panel.begun.connect(lambda: host.show_dock("sweeps"))
    panel.save_wanted.connect(lambda: host.save_plots(panel, "Save the sweep", "sweep.png"))
    panel.sweeps.stored.connect(host.mark_changed)
