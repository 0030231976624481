"""Window wiring of the panel SQNR: saving the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.features.sqnr.panel import SqnrPanel
    from espalier.app.host import Host


def connect(host: Host, panel: SqnrPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.save_wanted.connect(lambda: host.save_table(panel, "sqnr.csv"))
