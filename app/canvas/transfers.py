"""What devices send one another, on the edges whose tensors they redistribute: width by bytes, colour by collective.

Free of Qt. What belongs to no drawn edge, such as the gather of a stored weight, is a chip beside its box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.box_index import BoxIndex, Indices
from espalier.app.canvas.boxes import Item
from espalier.app.canvas.camera import Area
from espalier.app.canvas.chips import ABOVE, DOT, HEIGHT, SIDE, Chip, ChipPlacer
from espalier.app.canvas.layout import Layout, cover_of
from espalier.app.canvas.movement import rect_of
from espalier.app.figures.captions import text_width
from espalier.app.number_text import data_size, plural
from espalier.app.theme import SECONDARY, TRANSFER_WIDTHS, TRANSFERS
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph

MAX_TOLD = 8  # lines of a tool tip
Reaches = Callable[[frozenset[int]], bool]  # whether an edge leads to some of given users


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes of one collective, one of TRANSFERS, for the result of `source` before `user`: before all its users if that
    is empty; without a source, for what `user` stores. `told`: of the tool tip."""

    source: str
    user: str
    collective: str
    bytes: int
    told: str


@dataclass(frozen=True, slots=True)
class TransferChip(Chip):
    """The text or the mark of transfers; `collective`: that of most bytes."""

    collective: str = ""


@dataclass(slots=True)
class _Load:
    """What is drawn at an edge or at a box."""

    transfers: list[Transfer] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(t.bytes for t in self.transfers)

    @property
    def by_collective(self) -> dict[str, int]:
        """Bytes of each collective, the largest first."""
        found: dict[str, int] = defaultdict(int)
        for each in self.transfers:
            found[each.collective] += each.bytes
        return dict(sorted(found.items(), key=lambda row: -row[1]))

    @property
    def words(self) -> tuple[str, ...]:
        """The texts of a chip, the longest first."""
        size = data_size(self.bytes)
        return tuple(dict.fromkeys((f"{' + '.join(self.by_collective)} {size}", size)))

    @property
    def told(self) -> str:
        lines = list(dict.fromkeys(t.told for t in self.transfers))
        more = [tr("and {} more", len(lines) - MAX_TOLD + 1)] if len(lines) > MAX_TOLD else []
        return "\n".join([*lines[: MAX_TOLD - len(more)], *more])


class TransferLayer:
    """The transfers of one layout: on which edges and at which boxes they are drawn, and their chips.

    `taken`: the places of other chips at a box.
    """

    def __init__(
        self, layout: Layout, graph: Graph, transfers: Sequence[Transfer],
        taken: Callable[[Item], Collection[Area]] = lambda _: (),
    ) -> None:  # fmt: skip
        self.layout, self.transfers, self._taken = layout, transfers, taken
        self.edges: dict[int, _Load] = {}
        self.boxes: dict[Item, _Load] = {}
        self._chips: dict[Item | int, tuple[TransferChip, ...]] = {}
        self._labelled: dict[Item, list[int]] = defaultdict(list)  # edges with a chip at the box where they end
        self._ways: dict[int, list[int]] = defaultdict(list)  # of an edge: those on the way to it
        self._loose: set[int] = set()  # edges with a chip where they begin
        self._ends = ends = _Ends(layout, graph)
        known = layout.tree.index
        resolved = [t for t in transfers if all(n in known for n in (t.source, t.user) if n)]
        self._place_on_edges(ends, resolved)
        self._place_at_boxes(ends, resolved)
        self.largest = max((each.bytes for each in (*self.edges.values(), *resolved)), default=0)  # hidden ones too
        self._graph = graph

    @cached_property
    def _placer(self) -> ChipPlacer:
        """Created when chips are painted for the first time."""
        return ChipPlacer(self.layout, self._graph)

    @property
    def collectives(self) -> tuple[str, ...]:
        """Those that are drawn, in the order of TRANSFERS."""
        drawn = {c for load in (*self.edges.values(), *self.boxes.values()) for c in load.by_collective}
        return tuple(c for c in TRANSFERS if c in drawn)

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """(collective, colour) of those that are drawn; then, without a colour, what the widest edge stands for."""
        width = ((tr("widest {}", data_size(self.largest)), ""),) if self.edges else ()
        return (*((c, TRANSFERS[c]) for c in self.collectives), *width)

    # -- where

    def _place_on_edges(self, ends: _Ends, transfers: Iterable[Transfer]) -> None:
        by_tensor: dict[int, list[tuple[Transfer, frozenset[int] | None]]] = defaultdict(list)
        for each in transfers:
            if each.source:
                number = self.layout.tree.index[each.source]
                by_tensor[ends.shown_source(number)].append((each, ends.users_of(number, each.user)))
        sources = self.layout.tensors[:, 0]
        by_source: dict[int, list[int]] = defaultdict(list)
        for k in np.flatnonzero(np.isin(sources, list(by_tensor))).tolist():
            rows = by_tensor[int(sources[k])]
            item, reached = ends.end_of(k)
            load = [t for t, users in rows if users is None or reached(users)]
            if load:
                self.edges[k] = _Load(load)
                by_source[int(sources[k])].append(k)
                if item is not None:
                    self._labelled[item].append(k)
        for k in [k for edges in self._labelled.values() for k in edges]:
            same = {id(t) for t in self.edges[k].transfers}
            self._ways[k] = [
                e for e in by_source[int(sources[k])]
                if not self.layout.arrows[e] and {id(t) for t in self.edges[e].transfers} == same
            ]  # fmt: skip
        labelled = {k for edges in self._labelled.values() for k in edges}
        told = {id(t) for k in labelled for t in self.edges[k].transfers}
        for k, load in self.edges.items():
            if k not in labelled and any(id(t) not in told for t in load.transfers):
                told |= {id(t) for t in load.transfers}
                self._loose.add(k)

    def _place_at_boxes(self, ends: _Ends, transfers: Iterable[Transfer]) -> None:
        on_edges = {id(t) for load in self.edges.values() for t in load.transfers}
        for each in transfers:
            if id(each) not in on_edges:
                item = ends.item_of(self.layout.tree.index[each.user or each.source])
                if item is not None:
                    self.boxes.setdefault(item, _Load()).transfers.append(each)

    # -- how

    def width(self, edge: int) -> float:
        """The width of an edge in canvas units: its area goes by bytes."""
        low, high = TRANSFER_WIDTHS
        return low + (high - low) * (self.edges[edge].bytes / max(self.largest, 1)) ** 0.5

    def collective(self, edge: int) -> str:
        """The collective of most bytes on an edge."""
        return next(iter(self.edges[edge].by_collective))

    def told_on(self, edge: int) -> str:
        """The lines of an edge's tool tip; empty if nothing is sent."""
        return self.edges[edge].told if edge in self.edges else ""

    def told_at(self, item: Item) -> str:
        """The same of a box."""
        return self.boxes[item].told if item in self.boxes else ""

    def chips(self, area: Area, edges: Indices) -> Iterator[TransferChip]:
        """The chips at the boxes in an area, and those of edges that end at no box."""
        for item in self._ends.items_in(area):
            yield from self._at(item)
        for k in edges.tolist():
            if k in self._loose:
                yield from self._begin(k)

    def forget_chips(self) -> None:
        """Place all chips anew, because others have changed."""
        self._chips.clear()

    def _at(self, item: Item) -> tuple[TransferChip, ...]:
        if item not in self._labelled and item not in self.boxes:
            return ()
        found = self._chips.get(item)
        if found is None:
            placed = list(self._taken(item))
            chips = [self._on_edge(item, k, placed) for k in self._labelled.get(item, ())]
            if item in self.boxes:
                chips.append(self._beside(item, placed))
            found = self._chips[item] = tuple(chips)
        return found

    def _on_edge(self, item: Item, edge: int, placed: list[Area]) -> TransferChip:
        load, rect = self.edges[edge], rect_of(self.layout, item).tolist()
        x, y = self._placer.ends[edge].tolist()
        for words in load.words:
            wide = text_width(words, SECONDARY) + 2 * SIDE
            for box in self._placer.tries(x, y, wide):
                wider = not self.layout.horizontal and self._placer.alone(box, rect, wide)
                if (self._placer.inside(box, rect) or wider) and self._fits(box, edge, placed):
                    return self._chip(edge, box, words, load, placed)
            for way in self._ways[edge]:
                if (box := self._on_way(way, wide)) is not None and self._fits(box, way, placed):
                    return self._chip(edge, box, words, load, placed)
        x, y = self._placer.before_end(edge, 2 * ABOVE if placed else ABOVE)
        return self._chip(edge, (x - DOT / 2, y - DOT / 2, DOT, DOT), "", load, placed)

    def _on_way(self, way: int, wide: float) -> Area | None:
        """A chip in the middle of an edge that runs straight for long enough."""
        (x, y), (x1, y1) = self.layout.points[self.layout.starts[way] : self.layout.starts[way + 1]][-2:].tolist()
        if self.layout.horizontal or abs(x1 - x) > 1 or y1 - y < HEIGHT + 4:
            return None
        box = (x - wide / 2, (y + y1) / 2 - HEIGHT / 2, wide, HEIGHT)
        return box if self._placer.alone(box, [0.0, 0.0, 0.0, 0.0], wide) else None

    def _beside(self, item: Item, placed: list[Area]) -> TransferChip:
        """The chip of what belongs to no drawn edge: above a box, beside it, or on the left of its upper border."""
        load, (x, y, w, h) = self.boxes[item], rect_of(self.layout, item).tolist()
        size = data_size(load.bytes)
        inside = tr("{} inside, {}", plural(len(load.transfers), "move"), size), tr("{} inside", size), size
        tries = () if self.layout.horizontal else load.words if item.kind == "node" else inside
        for words in tries:  # in a horizontal layout, chips of edges may be on either side
            wide = text_width(words, SECONDARY) + 2 * SIDE
            lefts = (x + 2, x + w - wide - 2) if wide <= w - 4 and item.kind == "node" else ()
            above = [(left, y - ABOVE - HEIGHT / 2, wide, HEIGHT) for left in lefts]
            beside = [(x - wide - 6, y + h / 2 - HEIGHT / 2, wide, HEIGHT)] if x - wide - 6 >= self.layout.left else []
            for box in (*above, *beside):
                if self._fits(box, -1, placed):
                    return self._chip(-1, box, words, load, placed)
            box = (x + 8, y - HEIGHT + 3.5, wide, HEIGHT)  # above the name
            if wide <= w / 2 - 14 and not self._placer.crossed(box) and not any(_overlap(box, p) for p in placed):
                return self._chip(-1, box, words, load, placed)
        return self._chip(-1, (x - DOT / 2, y + h / 2 - DOT / 2, DOT, DOT), "", load, placed)

    def _begin(self, edge: int) -> tuple[TransferChip, ...]:
        """The chip of an edge to the border of a group, where it leaves its source."""
        found = self._chips.get(edge)
        if found is None:
            found = self._chips[edge] = (self._at_begin(edge),)
        return found

    def _at_begin(self, edge: int) -> TransferChip:
        load = self.edges[edge]
        x, y = self.layout.points[self.layout.starts[edge]].tolist()
        along = (14.0, 0.0) if self.layout.horizontal else (0.0, 14.0)
        near = self._ends.items_in((x - 150, y - 40, 300.0, 80.0))
        placed = [box for i in near for box in (*self._taken(i), *(c.box for c in self._at(i)))]
        for words in load.words:
            wide = text_width(words, SECONDARY) + 2 * SIDE
            box = (x + along[0] - (0 if along[0] else wide / 2), y + along[1] - HEIGHT / 2, wide, HEIGHT)
            if self._fits(box, edge, placed):
                return self._chip(edge, box, words, load, placed)
        return self._chip(edge, (x + along[0] - DOT / 2, y + along[1] - DOT / 2, DOT, DOT), "", load, placed)

    def _fits(self, box: Area, edge: int, placed: Iterable[Area]) -> bool:
        return not any(_overlap(box, other) for other in placed) and self._placer.free(box, edge)

    def _chip(self, edge: int, box: Area, words: str, load: _Load, placed: list[Area]) -> TransferChip:
        placed.append(box)
        return TransferChip(edge, box, words, load.told, next(iter(load.by_collective)))


class _Ends:
    """Which users of a tensor an edge of the layout leads to, and the box in which a node is drawn."""

    def __init__(self, layout: Layout, graph: Graph) -> None:
        self.layout = layout
        self._graph = graph
        self._cover = cover_of(layout)
        self._place = dict(zip(layout.nodes.tolist(), range(len(layout.nodes)), strict=True))
        self._shown: dict[int, frozenset[int]] = {}
        self._around: dict[int, frozenset[int]] = {}  # the groups around a node
        closed = np.flatnonzero(~layout.group_open)
        self._items = [*(Item("node", k) for k in range(len(layout.nodes))), *(Item("group", int(k)) for k in closed),
                       *(Item("fold", k) for k in range(len(layout.folds)))]  # fmt: skip
        rects = np.concatenate([layout.node_rects, layout.group_rects[closed], layout.fold_rects])
        self._boxes = BoxIndex.of_rects(rects, 1)
        self._opened = np.flatnonzero(layout.group_open)
        self._along, self._across = (0, 1) if layout.horizontal else (1, 0)

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        """The users of each node's results."""
        found: dict[int, list[int]] = defaultdict(list)
        for v, node in enumerate(self._graph):
            for ref in node.inputs:
                found[self.layout.tree.index[ref.node]].append(v)
        return found

    def _groups(self, number: int) -> frozenset[int]:
        around = self._around.get(number)
        if around is None:
            tree = self.layout.tree
            around = self._around[number] = frozenset(tree.ancestors(max(tree.home[number], 0)))
        return around

    def shown_source(self, number: int) -> int:
        """The node from whose box the edges of a result run."""
        return self.layout.tree.through.get(number, number)

    def users_of(self, number: int, user: str) -> frozenset[int] | None:
        """The users with a box that a transfer is for; None for all users of a result that has a box itself."""
        if not user and number not in self.layout.tree.through:
            return None
        first = [self.layout.tree.index[user]] if user else self._users[number]
        return frozenset(n for v in first for n in self._reached(v))

    def _reached(self, number: int) -> frozenset[int]:
        """A node, or the users behind it where edges run through it."""
        if number not in self.layout.tree.through:
            return frozenset({number})
        found = self._shown.get(number)
        if found is None:
            behind = frozenset(n for v in self._users[number] for n in self._reached(v))
            found = self._shown[number] = behind
        return found

    def item_of(self, number: int) -> Item | None:
        """The box of a node, or what hides it."""
        number = self.shown_source(number)
        if number in self._place:
            return Item("node", self._place[number])
        place, groups = int(self._cover[number]), len(self.layout.groups)
        if place < 0:
            return None
        return Item("group", place) if place < groups else Item("fold", place - groups)

    def items_in(self, area: Area) -> list[Item]:
        """The boxes that touch an area."""
        return [self._items[k] for k in self._boxes.touching(area).tolist()]

    def end_of(self, edge: int) -> tuple[Item | None, Reaches]:
        """The box where an edge ends, if there is one, and whether it leads to some of given users."""
        point: NDArray[np.float64] = self.layout.points[self.layout.starts[edge + 1] - 1]
        if self.layout.arrows[edge]:
            x, y = point.tolist()
            found = self._boxes.touching((x, y, 0.0, 0.0))
            if not len(found):  # a stub
                return None, bool
            item = self._items[int(found[0])]
            return item, lambda users: any(self.item_of(n) == item for n in users)
        return None, self._crossing(point)

    def _crossing(self, point: NDArray[np.float64]) -> Reaches:
        """Of an edge to the border of an expanded group: whether users are inside, or outside where the edge leaves."""
        rects = self.layout.group_rects[self._opened]
        begin, side = rects[:, self._along], rects[:, self._across]
        beside = (side <= point[self._across]) & (point[self._across] <= side + rects[:, self._across + 2])
        for level, inside in ((begin, True), (begin + rects[:, self._along + 2], False)):
            hit = np.flatnonzero(beside & (np.abs(level - point[self._along]) < 0.5))
            if len(hit):
                number = int(self.layout.groups[self._opened[hit[-1 if inside else 0]]])
                return lambda users: any((number in self._groups(n)) == inside for n in users)
        return bool


def _overlap(a: Area, b: Area) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]
