"""Actions of the Plots panel in its window: shown when a training starts, curves saved as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.features.plots.state import plotted_runs_of
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.features.plots.panel import PlotsPanel
    from espalier.app.host import Host


def follow(host: Host) -> None:
    """Show the panel when a training sends its first metric; one that was started in its panel stays in view."""

    def show(_: int) -> None:
        training = host.existing_panel("training")  # it has Pause and Stop
        if training is None or not training.isVisible():
            host.show_dock("plots")
        host.refresh_actions()

    plotted_runs_of(host.session).started.connect(show)


def connect(host: Host, panel: PlotsPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.save_wanted.connect(lambda: host.save_plots(panel, tr("Save the plots"), "training.png"))
