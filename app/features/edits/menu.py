"""The rows of the menu Edit that edit the graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.edits import arrange
from espalier.app.features.edits.actions import KEYS
from espalier.app.menu import MENUS, Action
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.host import Host


def add(host: Host) -> None:
    """Ask for an operation to insert."""
    host.canvas.operation_wanted.emit(None, None)


@MENUS.register("edits")
def rows(host: Host) -> list[Action]:
    """Rows of the canvas's keys; other edits need a node or an edge under the pointer."""
    return [*_edits(host), *_arranging(host)]


def _is_selected(host: Host, least: int = 1) -> bool:
    return len(host.session.selection) >= least


def _edits(host: Host) -> list[Action]:
    def row(name: str, title: str, key: str, text: str) -> Action:
        run = KEYS[name if name != "bypass" else "delete"]
        return Action(f"{name}_nodes", title, "Edit", partial(run, host), needs=partial(_is_selected, host), group=1,
                      help=tr("{} On the canvas: {}", text, key))  # fmt: skip

    return [
        row("bypass", tr("Bypass the selected nodes"), "Delete", tr("Their users take what they took.")),
        row("mute", tr("Mute the selected nodes"), "M", tr("Identities stand for them, until they are unmuted.")),
        row("rename", tr("Rename the selected nodes"), "F2", tr("They are shown under another title.")),
        row(
            "copy", tr("Copy the configuration"), "Ctrl+C", tr("Formats, sparsities and adapter of the selected node.")
        ),
        row("paste", tr("Paste the configuration"), "Ctrl+V", tr("The selected nodes take the copied choices.")),
        row("duplicate", tr("Duplicate the selected node"), "Ctrl+D", tr("A new module of its kind takes its result.")),
        Action(
            "add_operation",
            "Add operation…",
            "Edit",
            partial(add, host),
            needs=partial(_is_selected, host),
            group=1,
            help="Find one, and insert it after the selected node. On the canvas: Shift+A",
        ),
    ]


def _arranging(host: Host) -> list[Action]:
    def has_pins() -> bool:
        return bool(arrange.pins_of(host, host.session.selection))

    def unpin() -> None:
        arrange.unpin(host, host.session.selection)

    return [
        Action("frame_nodes", "Group in a frame…", "Edit", partial(arrange.frame_nodes, host), "Ctrl+G",
               needs=partial(_is_selected, host), group=3, help="A titled frame around the selected nodes"),
        *(Action(f"align_{way}", title, "Edit/Align", partial(arrange.align, host, way),
                 needs=partial(_is_selected, host, 2), group=3, help="The selected boxes are pinned there")
          for way, title in arrange.WAYS.items()),
        Action("unpin", "Unpin the selected boxes", "Edit", unpin, needs=has_pins, group=3,
               help="They return to the places of the layout"),
        Action("unpin_all", "Unpin all", "Edit", partial(arrange.unpin_all, host),
               needs=partial(arrange.has_pins, host), group=3, help="All boxes return to the places of the layout"),
    ]  # fmt: skip
