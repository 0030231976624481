"""The panel SQNR in its window: room for its map, its table as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.sqnr.panel import SqnrPanel
    from espalier.app.host import Host


def connect(host: Host, panel: SqnrPanel) -> None:
    """Let the window do what the panel asks for."""
    panel.begun.connect(lambda: host.lift_map("sqnr"))
    panel.save_wanted.connect(lambda: host.save_table(panel, "sqnr.csv"))
