"""The rows of the menu Edit that edit the graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.edits.actions import press
from espalier.app.menu import MENUS, Action

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("edits")
def rows(host: Host) -> list[Action]:
    """Rows of the canvas's keys; other edits need a node or an edge under the pointer."""

    def needs() -> bool:
        return bool(host.session.selection)

    def row(name: str, title: str, key: str, text: str) -> Action:
        return Action(f"{name}_nodes", title, "Edit", partial(press, host, name if name != "bypass" else "delete"),
                      needs=needs, group=1, help=f"{text} On the canvas: {key}")  # fmt: skip

    return [
        row("bypass", "Bypass the selected nodes", "Delete", "Their users take what they took."),
        row("mute", "Mute the selected nodes", "M", "Identities stand for them, until they are unmuted."),
        row("rename", "Rename the selected nodes", "F2", "They are shown under another title."),
        row("copy", "Copy the configuration", "Ctrl+C", "Formats, sparsities and adapter of the selected node."),
        row("paste", "Paste the configuration", "Ctrl+V", "The selected nodes take the copied choices."),
        row("duplicate", "Duplicate the selected node", "Ctrl+D", "A new module of its kind takes its result."),
    ]
