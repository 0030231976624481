"""The panel Kernels of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.features.kernels.panel import KernelsPanel

if TYPE_CHECKING:
    from espalier.app.host import Host


def made_panel(host: Host) -> KernelsPanel | None:
    """The panel, where it is made: the table of actions asks while the window is being panels_built."""
    panel = host.panel("kernels") if host.panels_built else None
    return panel if isinstance(panel, KernelsPanel) else None


def panel_of(host: Host) -> KernelsPanel:
    """The panel, brought to the front. Panels that are still to be made are made first: that hides them all."""
    host.build_panels()
    panel = host.panel("kernels")
    assert isinstance(panel, KernelsPanel)
    host.show_dock("kernels")
    return panel
