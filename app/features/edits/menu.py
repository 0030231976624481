"""The row of the menu Edit that edits the graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.edits.context_menu import bypass
from espalier.app.menu import MENUS, Action

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("edits")
def rows(host: Host) -> list[Action]:
    """Bypass; the other edits need a node under the pointer, and stand in the context menu."""
    return [
        Action("bypass_nodes", "Bypass the selected nodes", "Edit", partial(bypass, host),
               needs=lambda: bool(host.session.selection), group=1,
               help="Their users take what they took; on the canvas: Delete, and more edits by the context menu"),
    ]  # fmt: skip
