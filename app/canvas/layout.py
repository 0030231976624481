"""The layout of the canvas: one layered drawing per distinct block, assembled bottom-up.

Pure and deterministic. Depends on the structure and on the expanded groups, not on choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.boxes import Item, OwnFrame
from espalier.app.canvas.fold_card import card_size
from espalier.app.canvas.folding import Fold, Folding, Inside
from espalier.app.canvas.hierarchy import Cancelled, Group, Hierarchy, Tensor
from espalier.app.canvas.hierarchy_builder import never
from espalier.app.canvas.layered import Drawing, draw
from espalier.app.canvas.routing import Box, Frame
from espalier.app.figures.captions import NODE_HEIGHT, text_width
from espalier.app.theme import NODE_LABEL, SECONDARY

HEAD, PADDING, CLOSED_HEIGHT, STUB_HEIGHT = 34.0, 16.0, 44.0, 18.0
TAG_LEFT, TAG_STEP = 24.0, 22.0
MAX_LABEL_WIDTH = 240.0  # canvas units, of the shape beside an edge
COUNTS_ROOM, BARS_ROOM = 150.0, 62.0

Rects = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Layout:
    """Rectangles (x, y, width, height) and routes in canvas units; numbers are indices of the hierarchy.

    `group_doors`: the first and last x at which wires cross the header of an expanded group, else NaN. Edge k runs
    through points[starts[k]:starts[k + 1]] and carries the tensor tensors[k]; labels[k] (x, y, width) is its label's
    space. If arrows[k], it ends in an arrowhead: at a node, a stub or a collapsed group.
    """

    tree: Hierarchy
    open_groups: frozenset[str]
    horizontal: bool
    width: float
    height: float
    nodes: Numbers
    node_rects: Rects
    groups: Numbers
    group_rects: Rects
    group_open: NDArray[np.bool_]
    group_doors: Rects
    stubs: Numbers
    stub_rects: Rects
    points: Rects
    starts: Numbers
    tensors: Numbers
    labels: Rects
    arrows: NDArray[np.bool_]
    folds: tuple[Fold, ...] = ()
    fold_rects: Rects = field(default_factory=lambda: np.zeros((0, 4)))
    folding: bool = False
    left: float = 0.0  # of the bounds
    top: float = 0.0
    pinned: tuple[Item, ...] = ()  # boxes that a person has put somewhere
    own_frames: tuple[OwnFrame, ...] = ()  # around nodes, the larger ones first

    def free_in_head(self, place: int, left: float, right: float) -> list[tuple[float, float]]:
        """The intervals of a group's header between `left` and `right` that no wire crosses, the rightmost first."""
        first, last = self.group_doors[place].tolist()
        if first != first:
            return [(left, right)]
        two = len(self.tree.groups[int(self.groups[place])].ins) == 2
        between = [(max(first + 8, left), last - 8)] if two else []
        return [(max(last + 8, left), right), *between, (left, first - 8)]


def cover_of(layout: Layout) -> Numbers:
    """By node: the index of the collapsed group that hides it, or the number of groups + that of the fold, or -1."""
    tree = layout.tree
    cover = np.full(len(tree.groups) + 1, -1, np.int64)  # the last one: nodes that have no box
    closed = np.flatnonzero(~layout.group_open)
    cover[layout.groups[closed]] = closed
    shown = np.zeros(len(tree.groups), bool)
    shown[layout.groups] = shown[0] = True
    for place, fold in enumerate(layout.folds):
        cover[list(fold.members)] = len(layout.groups) + place
        shown[list(fold.members)] = True
    for number in np.flatnonzero(~shown).tolist():  # a group comes after the one around it
        cover[number] = cover[tree.groups[number].parent]
    return cover[np.array(tree.home, np.int64)]


@dataclass(slots=True)
class _Block:
    """A drawn group without node numbers, shared by all equal groups; positions are relative to its corner."""

    number: int
    drawing: Drawing
    width: float
    height: float
    nodes: Rects
    groups: Rects
    opened: NDArray[np.bool_]
    doors: Rects
    stubs: Rects
    points: Rects
    lengths: Numbers
    labels: Rects
    arrows: NDArray[np.bool_]
    folds: Rects


@dataclass(slots=True)
class _Names:
    """The numbers of nodes, groups, stubs, tensors and folds of one instance of a block, in the block's order."""

    nodes: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    stubs: list[int] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)


def layout(
    tree: Hierarchy,
    open_groups: frozenset[str],
    horizontal: bool = False,
    cancelled: Callable[[], bool] = never,
    folding: bool = False,
) -> Layout:
    """Lay out `tree` with `open_groups` expanded. Raises Cancelled when `cancelled()` returns true.

    `folding`: collapsed groups of a chain are drawn as one box.
    """
    block, names = _Builder(tree, open_groups, horizontal, cancelled, folding).block(0)
    starts = np.zeros(len(block.lengths) + 1, np.int64)
    np.cumsum(block.lengths, out=starts[1:])
    return Layout(
        tree, open_groups, horizontal, block.width, block.height,
        np.array(names.nodes, np.int64), block.nodes, np.array(names.groups, np.int64),
        block.groups, block.opened, block.doors,
        np.array(names.stubs, np.int64), block.stubs, block.points, starts,
        np.array(names.tensors, np.int64).reshape(-1, 2), block.labels, block.arrows,
        tuple(names.folds), block.folds, folding,
    )  # fmt: skip


class _Builder:
    def __init__(
        self,
        tree: Hierarchy,
        open_groups: frozenset[str],
        horizontal: bool,
        cancelled: Callable[[], bool],
        folding: bool,
    ) -> None:
        self.tree, self.horizontal, self.cancelled = tree, horizontal, cancelled
        self.open = [g.path in open_groups for g in tree.groups]
        self.open[0] = True
        self.memo: dict[object, _Block] = {}
        self.nodes, self.codes = len(tree.ids), len(tree.ids) + len(tree.stubs)  # from `codes` a child is a fold
        self.folding = Folding(tree, self.open) if folding and tree.chains else None
        self.widths = [int(c.width) if c else 0 for c in tree.captions]
        self.mute = [c is not None and c.mute for c in tree.captions]

    def block(self, number: int) -> tuple[_Block, _Names]:
        """The drawing of an expanded group, and the numbers of its contents."""
        if self.cancelled():
            raise Cancelled
        group = self.tree.groups[number]
        inside = self.folding.inside(group) if self.folding else Inside(group.children, group.wires)
        kids: dict[int, tuple[_Block, _Names]] = {}
        codes: list[object] = []
        for place, child in enumerate(inside.children):
            if 0 <= child < self.nodes:
                codes.append((self.widths[child], self.mute[child]))
            elif child < 0 and self.open[~child]:
                kids[place] = self.block(~child)
                codes.append(-1 - kids[place][0].number)
            else:
                codes.append((*map(int, self._box_size(child)), child < 0, *self._tag_widths(child)))
        key = (group.wiring, tuple(codes), inside.merged, int(_title_width(group)), group.parent < 0)
        block = self.memo.get(key)
        if block is None:
            block = self.memo[key] = self._draw(group, inside, {p: b for p, (b, _) in kids.items()})
        return block, self._names(inside, kids)

    def _width(self, child: int) -> float:
        if child < 0:
            return closed_width(self.tree.groups[~child], max(self._tag_widths(child), default=0.0))
        if child >= self.nodes:
            return stub_width(self.tree.stubs[child - self.nodes].label)
        caption = self.tree.captions[child]
        return caption.width if caption else 0.0

    def _fold(self, child: int) -> Fold:
        assert self.folding is not None
        return self.folding.folds[child - self.codes]

    def _tags_of(self, child: int) -> tuple[int, ...]:
        """The stubs on the box of a collapsed group or of a fold."""
        return self.tree.groups[~child].tags if child < 0 else self._fold(child).tags if child >= self.codes else ()

    def _tag_widths(self, child: int) -> list[float]:
        """Widths of the tags on a collapsed group or a fold."""
        return [stub_width(self.tree.stubs[t].label) for t in self._tags_of(child)]

    def _names(self, inside: Inside, kids: dict[int, tuple[_Block, _Names]]) -> _Names:
        names = _Names(tensors=list(inside.wires.values()))
        for child in inside.children:
            if 0 <= child < self.nodes:
                names.nodes.append(child)
            elif child < 0:
                names.groups.append(~child)
            elif child < self.codes:
                names.stubs.append(child - self.nodes)
            else:
                names.folds.append(self._fold(child))
        for place, child in enumerate(inside.children):
            if place not in kids:
                names.stubs += self._tags_of(child)
        for _, inner in kids.values():
            names.nodes += inner.nodes
            names.groups += inner.groups
            names.stubs += inner.stubs
            names.tensors += inner.tensors
            names.folds += inner.folds
        return names

    def _draw(self, group: Group, inside: Inside, kids: dict[int, _Block]) -> _Block:
        children = inside.children
        sizes = [(kids[p].width, kids[p].height) if p in kids else self._box_size(c) for p, c in enumerate(children)]
        boxes = [self._box(size, kids.get(p), children[p]) for p, size in enumerate(sizes)]
        drawing = draw(boxes, list(inside.wires), self._frame(group))
        flip = slice(None, None, -1) if self.horizontal else slice(None)
        at = np.array(drawing.at, float).reshape(-1, 2)[:, flip]
        rects = np.hstack([at, np.array(sizes, float).reshape(-1, 2)])
        points = np.array([p for route in drawing.routes for p in route], float).reshape(-1, 2)[:, flip]
        lengths = np.array([len(r) for r in drawing.routes], np.int64)
        size = (drawing.across, drawing.along)[flip]
        codes = np.array(children, np.int64)
        own, fold = codes < 0, codes >= self.codes
        stub = (codes >= self.nodes) & ~fold
        opened = np.array([p in kids for p in range(len(codes))], bool)
        arrows = np.array([end >= 0 and end not in kids for _, _, end, _ in inside.wires], bool)
        inner = [(at[p], b) for p, b in kids.items()]
        return _Block(
            len(self.memo), drawing, size[0], size[1],
            _join(rects[~own & ~stub & ~fold], [(o, b.nodes) for o, b in inner]),
            _join(rects[own], [(o, b.groups) for o, b in inner]),
            np.concatenate([opened[own], *(b.opened for _, b in inner)]),
            _join(self._doors(children, at, kids), [(o[:1].repeat(2), b.doors) for o, b in inner]),
            _join(np.vstack([rects[stub], self._tags(children, rects, kids)]), [(o, b.stubs) for o, b in inner]),
            _join(points, [(o, b.points) for o, b in inner]),
            np.concatenate([lengths, *(b.lengths for _, b in inner)]),
            _join(self._labels(drawing), [(np.append(o, 0.0), b.labels) for o, b in inner]),
            np.concatenate([arrows, *(b.arrows for _, b in inner)]),
            _join(rects[fold], [(o, b.folds) for o, b in inner]),
        )  # fmt: skip

    def _labels(self, drawing: Drawing) -> Rects:
        """Positions of labels; horizontal layouts have none."""
        rows = np.array(drawing.labels, float).reshape(-1, 3)
        return rows * 0.0 if self.horizontal else rows

    def _doors(self, children: list[int], at: Rects, kids: dict[int, _Block]) -> Rects:
        """Where wires cross the headers of the child groups."""
        rows: list[tuple[float, float]] = []
        for place, child in enumerate(children):
            ins = kids[place].drawing.ins if place in kids and not self.horizontal else []
            if child < 0:
                rows.append((at[place, 0] + min(ins), at[place, 0] + max(ins)) if ins else (np.nan, np.nan))
        return np.array(rows, float).reshape(-1, 2)

    def _tags(self, children: list[int], rects: Rects, kids: dict[int, _Block]) -> Rects:
        """The tags of collapsed groups and folds, one per row."""
        rows = [
            (rects[p, 0] + TAG_LEFT, rects[p, 1] + self._untagged(child) + k * TAG_STEP - 2,
             min(width, rects[p, 2] - TAG_LEFT - 10), STUB_HEIGHT)
            for p, child in enumerate(children) if p not in kids
            for k, width in enumerate(self._tag_widths(child))
        ]  # fmt: skip
        return np.array(rows, float).reshape(-1, 4)

    def _untagged(self, child: int) -> float:
        """Height of a box without its tags."""
        if child >= self.codes:
            fold = self._fold(child)
            return card_size(len(fold.members), fold.title)[1]
        return NODE_HEIGHT if 0 <= child < self.nodes else CLOSED_HEIGHT if child < 0 else STUB_HEIGHT

    def _box_size(self, child: int) -> tuple[float, float]:
        """Width and height of what is not an expanded group."""
        tags = len(self._tags_of(child))
        height = self._untagged(child) + tags * TAG_STEP + 4.0 * (tags > 0)
        if child >= self.codes:
            fold = self._fold(child)
            return card_size(len(fold.members), fold.title)[0], height
        return self._width(child), height

    def _box(self, size: tuple[float, float], inner: _Block | None, child: int) -> Box:
        across, along = size[::-1] if self.horizontal else size
        if inner is None:
            return Box(
                across, along, group=child < 0 or child >= self.codes, mute=0 <= child < self.nodes and self.mute[child]
            )
        return Box(across, along, tuple(inner.drawing.ins), tuple(inner.drawing.outs), True)

    def _frame(self, group: Group) -> Frame:
        ins, outs = len(group.ins), len(group.outs)
        if group.parent < 0:
            return Frame(ins, outs)
        title = _title_width(group)
        least = title + COUNTS_ROOM
        if self.horizontal:
            return Frame(ins, outs, PADDING, PADDING, HEAD + 4, PADDING, HEAD + NODE_HEIGHT, (HEAD + 4, 8.0), least)
        return Frame(ins, outs, HEAD, PADDING, PADDING, PADDING, least, (title + 4, 12.0))


def _join(own: Rects, inner: list[tuple[Rects, Rects]]) -> Rects:
    """Concatenate the own rows and the rows of each inner block, moved to its position."""
    if not inner:
        return own
    moved = np.concatenate([rows for _, rows in inner])
    offsets = np.repeat([o for o, _ in inner], [len(rows) for _, rows in inner], axis=0)
    moved[:, : offsets.shape[1]] += offsets
    return np.concatenate([own, moved])


def _title_width(group: Group) -> float:
    return 34.0 + text_width(group.label, NODE_LABEL, True)


def closed_width(group: Group, tag: float = 0.0) -> float:
    """Width of the box of a collapsed group; `tag`: width of its widest tag."""
    need = max(text_width(group.label, NODE_LABEL, True) + 18, 23 * SECONDARY * 0.56, tag + 8 - BARS_ROOM)
    return min(max(8.0 * round((need + 26 + BARS_ROOM) / 8), 184.0), 304.0)


def stub_width(label: str) -> float:
    """Width of a stub's tag."""
    return min(8.0 * ceil((text_width(label, SECONDARY) + 34) / 8), 216.0)
