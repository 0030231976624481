"""What the node table asks of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.nodes.panel import NodesPanel
    from espalier.app.host import Host


def connect(host: Host, panel: NodesPanel) -> None:
    """Connect its signals."""
    panel.save_wanted.connect(lambda: host.save_table(panel, "nodes.csv"))
    panel.overlay_wanted.connect(lambda title, values: host.canvas.set_overlay(title, values if title else None))
    panel.bars_wanted.connect(lambda title, values: host.canvas.set_size_bars(title, values if title else None))
    host.canvas.bars.plain_wanted.connect(lambda: panel.bars.put(""))
    panel.node_wanted.connect(host.go_to)
