"""Actions of the Plots panel in its window: shown when a training starts, curves saved as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.plots.panel import PlotsPanel
    from espalier.app.host import Host


def connect(host: Host, panel: PlotsPanel) -> None:
    """Connect the panel's signals to the window."""
    # A training that was started in its panel stays in view, with its Pause and Stop.
    panel.run_started.connect(lambda: host.panel("training").isVisible() or host.show_dock("plots"))
    panel.run_started.connect(host.refresh_actions)
    panel.save_wanted.connect(lambda: host.save_plots(panel, "Save the plots", "training.png"))
