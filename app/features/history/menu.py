"""The row of the history in the menu Edit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.menu import MENUS, Action

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("history")
def rows(host: Host) -> list[Action]:
    """The list of edits."""
    return [Action("history", "History of edits…", "Edit", partial(show, host), "Ctrl+Alt+Z",
                   help="All edits with their times; a click goes to one")]  # fmt: skip


def show(host: Host) -> None:
    """Show the list."""
    from espalier.app.features.history.window import HistoryWindow

    window = host.canvas.window()
    page = window.findChild(HistoryWindow) or HistoryWindow(host.session, window)
    page.show()
    page.raise_()
    page.activateWindow()
