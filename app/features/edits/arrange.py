"""Arranging by hand: pins, aligning, and frames around nodes. Each is one undo; nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from espalier.app.canvas.aligning import Way, aligned, least
from espalier.app.features.edits.titles import TitleField
from espalier.app.number_text import plural
from espalier.app.translation import tr, translated
from espalier.model.document.arrangement import Frame, Pin

if TYPE_CHECKING:
    from espalier.app.host import Host

WAYS: dict[Way, str] = translated({
    "left": "Align left edges", "centre": "Align centres", "right": "Align right edges",
    "top": "Align top edges", "middle": "Align middles", "bottom": "Align bottom edges",
    "horizontally": "Distribute horizontally", "vertically": "Distribute vertically",
})  # fmt: skip
ABOVE = 28  # canvas units between a box and the top of the frame around it
Keys = frozenset[tuple[str, str, str]]


def connect(host: Host) -> None:
    """Let boxes of the canvas be dragged."""
    host.canvas.may_move = True
    host.canvas.boxes_moved.connect(partial(keep_pins, host))


def _boxes(count: int) -> str:
    return plural(count, "box", "boxes")


# -- pins


def keep_pins(host: Host, pins: Sequence[Pin]) -> None:
    """Pin boxes that were dragged."""
    if (document := host.session.document) is not None and pins:
        what = pins[0].name if len(pins) == 1 else _boxes(len(pins))
        host.session.arrange(document.arrangement.with_pins(pins), tr("Move {}", what))


def pins_of(host: Host, ids: Sequence[str]) -> Keys:
    """The keys of the pins of these nodes, and of the boxes that show them, in this flow direction."""
    document = host.session.document
    if document is None or not document.arrangement.pins or (scene := host.canvas.scene) is None:
        return frozenset()
    from espalier.app.canvas.arranging import name_of  # here: the menus are built before the first paint

    flow = "right" if host.canvas.horizontal else "down"
    base = scene.base or scene.layout
    names = {(i.kind, name_of(base, i), flow) for i in host.canvas.items_of(ids)} | {("node", n, flow) for n in ids}
    return frozenset(p.key for p in document.arrangement.pins if p.key in names)


def unpin(host: Host, ids: Sequence[str]) -> None:
    """Return the boxes of these nodes to the places of the layout."""
    keys, document = pins_of(host, ids), host.session.document
    if keys and document is not None:
        host.session.arrange(document.arrangement.without_pins(keys), tr("Unpin {}", _boxes(len(keys))))


def has_pins(host: Host) -> bool:
    """Whether anything is pinned."""
    document = host.session.document
    return document is not None and bool(document.arrangement.pins)


def unpin_all(host: Host) -> None:
    """Return all boxes to the places of the layout, in both flow directions."""
    if (document := host.session.document) is not None and document.arrangement.pins:
        host.session.arrange(replace(document.arrangement, pins=()), tr("Unpin all"))


def align(host: Host, way: Way) -> None:
    """Align the selected boxes, or distribute them, and pin them there."""
    from espalier.app.canvas.arranging import pin_of

    canvas, document = host.canvas, host.session.document
    items = canvas.items_of(host.session.selection)
    if document is None or canvas.scene is None:
        return
    if len(items) < least(way):
        message = tr("{} selected; {} needs {}.", _boxes(len(items)), WAYS[way].lower(), least(way))
        host.banner.show_message(message, tr("Select more nodes, or whole collapsed groups."))
        return
    base = canvas.scene.base or canvas.scene.layout
    corners = aligned(canvas.rects(items), way).tolist()
    pins = [pin_of(base, item, x, y) for item, (x, y) in zip(items, corners, strict=True)]
    host.session.arrange(document.arrangement.with_pins(pins), tr("{} of {}", WAYS[way], _boxes(len(items))))


# -- frames


def frame_nodes(host: Host) -> None:
    """Ask for the title of a new frame around the selected nodes, where its title will be."""
    canvas, document, scene = host.canvas, host.session.document, host.canvas.scene
    ids = tuple(host.session.selection)
    if document is None or scene is None or not ids:
        return
    index = scene.layout.tree.index
    rects = [r for i in ids if (r := scene.rect_of(index[i])) is not None]
    if not rects:
        host.banner.show_message(
            tr("No selected node has a box."), tr("Show the shape operations, or select other nodes.")
        )
        return
    spot = (min(r[0] for r in rects), min(r[1] for r in rects) - ABOVE, 0.0, 0.0)
    title = tr("Frame {}", len(document.arrangement.frames) + 1)

    def give(text: str) -> None:
        host.session.arrange(document.arrangement.with_frame(Frame(text or title, ids)), tr("Frame {}", text or title))

    TitleField(canvas, title, title, spot, give, always=True)


def frame_at(host: Host, place: int) -> Frame | None:
    """A frame of the document."""
    document = host.session.document
    frames = document.arrangement.frames if document is not None else ()
    return frames[place] if 0 <= place < len(frames) else None


def set_frame(host: Host, place: int, frame: Frame, label: str) -> None:
    """Replace a frame."""
    if (document := host.session.document) is not None:
        host.session.arrange(document.arrangement.with_frame(frame, place), label)
        host.canvas.choose_frame(place)


def rename_frame(host: Host, place: int) -> None:
    """Type another title on the tab of a frame."""
    frame, scene = frame_at(host, place), host.canvas.scene
    shown = next((f for f in scene.layout.own_frames if f.number == place), None) if scene is not None else None
    if frame is None or shown is None:
        return

    def give(text: str) -> None:
        title = text or frame.title
        set_frame(host, place, replace(frame, title=title), tr("Rename the frame {}", title))

    TitleField(host.canvas, frame.title, frame.title, shown.tab, give)


def remove_frame(host: Host, place: int) -> None:
    """Remove a frame; its nodes stay, also where they were dragged."""
    frame, document = frame_at(host, place), host.session.document
    if frame is not None and document is not None:
        host.session.arrange(document.arrangement.without_frame(place), tr("Remove the frame {}", frame.title))
        host.canvas.choose_frame(-1)


def add_to_frame(host: Host, place: int, ids: Sequence[str]) -> None:
    """Let a frame reach around more nodes."""
    if (frame := frame_at(host, place)) is not None:
        nodes = tuple(dict.fromkeys([*frame.nodes, *ids]))
        set_frame(host, place, replace(frame, nodes=nodes), tr("Add to the frame {}", frame.title))


def take_out(host: Host, ids: Sequence[str]) -> None:
    """Take nodes out of all frames; a frame without nodes goes."""
    document = host.session.document
    if document is None:
        return
    frames = [replace(f, nodes=tuple(n for n in f.nodes if n not in ids)) for f in document.arrangement.frames]
    after = replace(document.arrangement, frames=tuple(f for f in frames if f.nodes))
    if after != document.arrangement:
        host.session.arrange(after, tr("Take {} out of the frame", plural(len(ids), "node")))


def framed(host: Host, ids: Sequence[str]) -> bool:
    """Whether one of the nodes is in a frame."""
    document = host.session.document
    return document is not None and any(not set(f.nodes).isdisjoint(ids) for f in document.arrangement.frames)
