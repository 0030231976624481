"""Connections of the panel Sweeps to the window: showing it, and saving charts and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.features.sweep.state import sweeps_of
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.features.sweep.panel import SweepsPanel
    from espalier.app.host import Host


def follow(host: Host) -> None:
    """Connect the sweeps to the window."""
    sweeps_of(host.session).stored.connect(host.mark_changed)


def connect(host: Host, panel: SweepsPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.begun.connect(lambda: host.show_dock("sweeps"))
    panel.save_wanted.connect(lambda: host.save_plots(panel, tr("Save the sweep"), "sweep.png"))
