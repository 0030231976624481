"""The panel Kernels of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.features.kernels.panel import KernelsPanel

if TYPE_CHECKING:
    from espalier.app.host import Host


def made_panel(host: Host) -> KernelsPanel | None:
    """The panel if it exists; asking for actions does not create it."""
    panel = host.existing_panel("kernels")
    return panel if isinstance(panel, KernelsPanel) else None


def panel_of(host: Host) -> KernelsPanel:
    """The panel, brought to the front."""
    host.build_panels()
    panel = host.panel("kernels")
    assert isinstance(panel, KernelsPanel)
    host.show_dock("kernels")
    return panel
