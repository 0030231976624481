"""The rows of the menu Edit that edit the graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.edits import arrange
from espalier.app.features.edits.actions import press
from espalier.app.menu import MENUS, Action

if TYPE_CHECKING:
    from espalier.app.host import Host


def add(host: Host) -> None:
    """Ask for an operation to insert."""
    host.canvas.operation_wanted.emit(None, None)


@MENUS.register("edits")
def rows(host: Host) -> list[Action]:
    """What the keys of the canvas do; the other edits need a node or an edge under the pointer."""

    def needs() -> bool:
        return bool(host.session.selection)

    def several() -> bool:
        return len(host.session.selection) > 1

    def row(name: str, title: str, key: str, text: str) -> Action:
        return Action(f"{name}_nodes", title, "Edit", partial(press, host, name if name != "bypass" else "delete"),
                      needs=needs, group=1, help=f"{text} On the canvas: {key}")  # fmt: skip

    return [  # a row that needs the canvas asks for it when it is used: the menu is built before
        Action(
            "frame_nodes",
            "Group in a frame…",
            "Edit",
            partial(arrange.frame_nodes, host),
            "Ctrl+G",
            needs=needs,
            group=3,
            help="A titled frame around the selected nodes",
        ),
        *(
            Action(
                f"align_{way}",
                title,
                "Edit/Align",
                partial(arrange.align, host, way),
                needs=several,
                group=3,
                help="The selected boxes are pinned there",
            )
            for way, title in arrange.WAYS.items()
        ),
        Action(
            "unpin",
            "Unpin the selected boxes",
            "Edit",
            lambda: arrange.unpin(host, host.session.selection),
            needs=lambda: bool(arrange.pins_of(host, host.session.selection)),
            group=3,
            help="They return to the places of the layout",
        ),
        Action(
            "unpin_all",
            "Unpin all",
            "Edit",
            partial(arrange.unpin_all, host),
            needs=partial(arrange.has_pins, host),
            group=3,
            help="All boxes return to the places of the layout",
        ),
        row("bypass", "Bypass the selected nodes", "Delete", "Their users take what they took."),
        row("mute", "Mute the selected nodes", "M", "Identities stand for them, until they are unmuted."),
        row("rename", "Rename the selected nodes", "F2", "They are shown under another title."),
        row("copy", "Copy the configuration", "Ctrl+C", "Formats, sparsities and adapter of the selected node."),
        row("paste", "Paste the configuration", "Ctrl+V", "The selected nodes take the copied choices."),
        Action(
            "add_operation",
            "Add operation…",
            "Edit",
            partial(add, host),
            needs=needs,
            group=1,
            help="Find one, and insert it after the selected node. On the canvas: Shift+A",
        ),
        row("duplicate", "Duplicate the selected node", "Ctrl+D", "A new module of its kind takes its result."),
    ]
