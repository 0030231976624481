"""Window wiring of the panel Export: exporting, saving the table, going to a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.exports.panel import ExportPanel
    from espalier.app.host import Host


def connect(host: Host, panel: ExportPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.export_wanted.connect(host.export)
    panel.save_wanted.connect(lambda: host.save_table(panel.table, "targets.csv"))
    panel.table.node_wanted.connect(host.go_to)
