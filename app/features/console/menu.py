"""The row of the console in the menu View."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.menu import MENUS, Action, always

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("console")
def rows(host: Host) -> list[Action]:
    """Opens the console."""
    return [Action("console", "Python console", "View", partial(host.enter_dock, "console"), "Ctrl+`", needs=always,
                   group=4, help="Python on the open model, in a process of its own")]  # fmt: skip
