"""Puts what a person has arranged on a layout: pinned boxes at their places, edges to them, frames around nodes.

Free of Qt. A layout without pins and frames is returned as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from espalier.app.canvas.boxes import Item, Kind, OwnFrame
from espalier.app.canvas.layout import HEAD, MAX_LABEL_WIDTH, PADDING, Layout, cover_of
from espalier.app.canvas.movement import EdgeIndex, Movement, Rects, parent_of, rect_of, tags_of
from espalier.app.figures.captions import text_width
from espalier.app.theme import SECONDARY
from espalier.model.document.arrangement import Arrangement, Flow, Frame, Pin

FRAME_HEAD, FRAME_PADDING = 20.0, 8.0  # canvas units
SEPARATOR = " … "  # between the paths of the first and the last group of a fold


def arranged(layout: Layout, arrangement: Arrangement, index: EdgeIndex | None = None) -> Layout:
    """The layout with the pins of its flow direction and the frames. `index`: of its edges, if it is known."""
    pins = pinned(layout, arrangement)
    if not pins and not arrangement.frames:
        return layout
    if pins:
        items = list(pins)
        layout = moved(index or EdgeIndex(layout), items, np.array([pins[i] for i in items]))
    frames = _frames(layout, arrangement.frames) if arrangement.frames else ()
    return _bounded(replace(layout, own_frames=frames, labels=_beside_tabs(layout.labels, frames)))


def flow_of(layout: Layout) -> Flow:
    """The flow direction, as pins name it."""
    return "right" if layout.horizontal else "down"


def pinned(layout: Layout, arrangement: Arrangement) -> dict[Item, tuple[float, float]]:
    """The items of a layout that are pinned, and their corners in canvas units."""
    found: dict[Item, tuple[float, float]] = {}
    flow, names = flow_of(layout), _Names(layout)
    for pin in arrangement.pins:
        item = names.item(pin.kind, pin.name) if pin.flow == flow else None
        if item is not None:
            x, y = corner_of(layout, parent_of(layout, item))
            found[item] = (x + pin.x, y + pin.y)
    return found


def corner_of(layout: Layout, group: int) -> tuple[float, float]:
    """The corner of an expanded group of a layout that was not changed by hand; pins are relative to it."""
    place = np.flatnonzero(layout.groups == group)  # the root, 0, is no frame
    return tuple(layout.group_rects[place[0], :2].tolist()) if len(place) else (0.0, 0.0)


def pin_of(layout: Layout, item: Item, x: float, y: float) -> Pin:
    """The pin that puts an item of a layout that was not changed by hand at (x, y) in canvas units."""
    left, top = corner_of(layout, parent_of(layout, item))
    return Pin(item.kind, name_of(layout, item), round(x - left, 1), round(y - top, 1), flow_of(layout))


def name_of(layout: Layout, item: Item) -> str:
    """The name of an item in pins."""
    tree = layout.tree
    if item.kind == "node":
        return tree.ids[int(layout.nodes[item.place])]
    if item.kind == "group":
        return tree.groups[int(layout.groups[item.place])].path
    members = layout.folds[item.place].members
    return SEPARATOR.join(tree.groups[m].path for m in (members[0], members[-1]))


class _Names:
    """Finds items by the names that pins have; expanded groups are no items."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folds = {name_of(layout, Item("fold", k)): k for k in range(len(layout.folds))}

    def item(self, kind: Kind, name: str) -> Item | None:
        """The item, if the layout shows it."""
        layout, tree = self._layout, self._layout.tree
        if kind == "fold":
            place = self._folds.get(name)
            return Item("fold", place) if place is not None else None
        number = tree.index.get(name, -1) if kind == "node" else tree.paths.get(name, -1)
        if kind == "group" and (number <= 0 or tree.groups[number].path != name):
            return None
        at = np.flatnonzero((layout.nodes if kind == "node" else layout.groups) == number)
        if not len(at) or (kind == "group" and layout.group_open[at[0]]):
            return None
        return Item(kind, int(at[0]))


def moved(index: EdgeIndex, items: Sequence[Item], corners: Rects) -> Layout:
    """The layout with items at these corners. The frames of the groups around them grow; all else stays."""
    layout, routes = index.layout, Movement(index, items).routes(corners)
    rects = {"node": layout.node_rects.copy(), "group": layout.group_rects.copy(), "fold": layout.fold_rects.copy()}
    stubs = layout.stub_rects.copy()
    for item, corner in zip(items, corners, strict=True):
        stubs[tags_of(layout, item), :2] += corner - rect_of(layout, item)[:2]
        rects[item.kind][item.place, :2] = corner
    after = replace(layout, node_rects=rects["node"], group_rects=rects["group"], fold_rects=rects["fold"],
                    stub_rects=stubs, pinned=tuple(items))  # fmt: skip
    _grow(after, items)
    return _rerouted(after, routes)


def _grow(layout: Layout, items: Iterable[Item]) -> None:
    """Let the expanded groups around moved items reach around them."""
    places = {int(number): place for place, number in enumerate(layout.groups.tolist())}
    for item in items:
        inner = rect_of(layout, item)
        for group in reversed(layout.tree.ancestors(max(parent_of(layout, item), 0))):
            if group not in places:
                continue
            outer = layout.group_rects[places[group]]
            low = np.minimum(outer[:2], inner[:2] - (PADDING, HEAD + 4.0))
            high = np.maximum(outer[:2] + outer[2:], inner[:2] + inner[2:] + PADDING)
            outer[:2], outer[2:] = low, high - low
            inner = outer


def _rerouted(layout: Layout, routes: dict[int, Rects]) -> Layout:
    """The layout with other routes of some edges, which have no room for labels then."""
    if not routes:
        return layout
    points, starts = layout.points, layout.starts
    lengths, labels, pieces, at = np.diff(starts), layout.labels.copy(), list[Rects](), 0
    for edge in sorted(routes):
        pieces += [points[at : starts[edge]], routes[edge]]
        at = int(starts[edge + 1])
        lengths[edge], labels[edge, 2] = len(routes[edge]), 0.0
    ends = np.zeros(len(starts), np.int64)
    np.cumsum(lengths, out=ends[1:])
    return replace(layout, points=np.concatenate([*pieces, points[at:]]), starts=ends, labels=labels)


def _frames(layout: Layout, frames: Sequence[Frame]) -> tuple[OwnFrame, ...]:
    """The rectangles of the frames around what is seen of their nodes; those of which nothing is seen are left out."""
    cover, index = cover_of(layout), layout.tree.index
    places = np.full(len(layout.tree.ids), -1, np.int64)
    places[layout.nodes] = np.arange(len(layout.nodes))
    hiding = np.vstack([layout.group_rects, layout.fold_rects])
    found: list[OwnFrame] = []
    for number, frame in enumerate(frames):
        numbers = np.array([index[n] for n in frame.nodes if n in index], np.int64)
        shown, hidden = places[numbers], np.unique(cover[numbers])
        rects = np.vstack([layout.node_rects[shown[shown >= 0]], hiding[hidden[hidden >= 0]]])
        if len(rects):
            low = rects[:, :2].min(axis=0) - (FRAME_PADDING, FRAME_PADDING + FRAME_HEAD)
            high = (rects[:, :2] + rects[:, 2:]).max(axis=0) + FRAME_PADDING
            x, y, w, h = *low.tolist(), *(high - low).tolist()
            tab = (x, y, min(text_width(frame.title, SECONDARY + 1, True) + 20, w), FRAME_HEAD)
            found.append(OwnFrame(number, (x, y, w, h), frame.title, frame.colour, tab))
    return tuple(sorted(found, key=lambda f: -f.rect[2] * f.rect[3]))  # a smaller one lies on a larger one


def _beside_tabs(labels: Rects, frames: Sequence[OwnFrame]) -> Rects:
    """The labels of edges without those on which the title of a frame would lie."""
    labels = labels.copy() if frames else labels
    for frame in frames:
        x, y, w, h = frame.tab
        across = (labels[:, 0] + 6 < x + w) & (labels[:, 0] + np.minimum(labels[:, 2], MAX_LABEL_WIDTH) > x)
        labels[across & (labels[:, 1] + 8 > y) & (labels[:, 1] - 8 < y + h), 2] = 0.0
    return labels


def _bounded(layout: Layout) -> Layout:
    """The layout with bounds around all that was moved and framed."""
    rects = [rect_of(layout, item) for item in layout.pinned] + [np.array(f.rect) for f in layout.own_frames]
    rects += [layout.group_rects[layout.group_open]] if layout.pinned else []
    all_rects = np.vstack(rects) if rects else np.zeros((0, 4))
    if not len(all_rects):
        return layout
    low = np.minimum(all_rects[:, :2].min(axis=0), 0.0)
    high = np.maximum((all_rects[:, :2] + all_rects[:, 2:]).max(axis=0), (layout.width, layout.height))
    left, top = low.tolist()
    width, height = (high - low).tolist()
    return replace(layout, left=left, top=top, width=width, height=height)
