"""Format conversions along edges (casts), as chips that overlap nothing else.

Free of Qt, so that the canvas and the SVG writer show the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from espalier.app.canvas.camera import Area
from espalier.app.canvas.chips import DOT, SIDE, Chip, ChipPlacer
from espalier.app.canvas.layout import Layout
from espalier.app.canvas.node_metrics import FLOATS
from espalier.app.figures.captions import text_width
from espalier.app.theme import SECONDARY
from espalier.app.translation import tr
from espalier.model.graph.casts import casts_into
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import spec
from espalier.model.graph.ports import carriers

Pair = tuple[str, str]  # format before, format after
Pairs = Mapping[str, Pair]  # producer → its conversion for one consumer


def casts_of(node: Node, graph: Graph, live: Collection[str]) -> Pairs:
    """Producer → (format before, format after) of the inputs that `node` converts; `live`: `carriers(graph)`."""
    pairs: dict[str, Pair] = {}
    for cast in casts_into(node, graph, live):
        before = cast.before.label if cast.before else FLOATS.get(cast.dtype, cast.dtype)
        after = tr("{}, another scale", cast.after.label) if cast.rescales else cast.after.label
        other = pairs.get(cast.ref.node)
        pairs[cast.ref.node] = (
            before,
            after if other is None or other[1] == after else tr("{} and {}", other[1], after),
        )
    return pairs


class CastLayer:
    """The chips of one layout, computed when they are painted and cached until a format changes."""

    def __init__(self, layout: Layout, graph: Graph) -> None:
        self._layout, self._placer = layout, ChipPlacer(layout, graph)
        self._cache: dict[int, tuple[Pairs, tuple[Chip, ...]]] = {}
        self._live = carriers(graph)
        self._moves = [spec(graph.nodes[name].op).moves for name in layout.tree.ids]
        edges = layout.tree.edges[np.argsort(layout.tree.edges[:, 0], kind="stable")]
        self._users, self._starts = edges[:, 1], np.searchsorted(edges[:, 0], np.arange(len(self._moves) + 1))

    def at(self, number: int, graph: Graph) -> tuple[Chip, ...]:
        """The chips of the casts into a node."""
        pairs = casts_of(graph.nodes[self._layout.tree.ids[number]], graph, self._live)
        if not pairs:
            self._cache.pop(number, None)
            return ()
        cached = self._cache.get(number)
        if cached is None or cached[0] != pairs:
            cached = self._cache[number] = pairs, tuple(self._chips(number, pairs))
        return cached[1]

    def changed(self, numbers: Iterable[int], graph: Graph) -> list[Area]:
        """The areas where chips change after these nodes have changed their formats."""
        areas: list[Area] = []
        for number in self._reached(numbers):
            before = self._cache.get(number, ({}, ()))[1]
            after = self.at(number, graph)
            if after != before:
                areas += [chip.box for chip in (*before, *after)]
        return areas

    def _reached(self, numbers: Iterable[int]) -> list[int]:
        """The nodes and the consumers of their results, also behind operations that only move values."""
        reached = set(numbers)
        ends = list(reached)
        while ends:
            end = ends.pop()
            users = {u for u in self._users[self._starts[end] : self._starts[end + 1]].tolist() if u not in reached}
            reached |= users
            ends += [u for u in users if self._moves[u]]
        return sorted(reached)

    def _chips(self, consumer: int, pairs: Pairs) -> Iterator[Chip]:
        """A chip with text on the first edge, if it fits above the consumer; marks on the others."""
        place = int(self._placer.place_of[consumer])
        if place < 0:
            return
        rect: list[float] = self._layout.node_rects[place].tolist()
        alone = len(set(pairs.values())) == 1
        tree = self._layout.tree
        drawn = {
            tree.through.get(i, i): pair for name, pair in reversed(list(pairs.items())) for i in (tree.index[name],)
        }
        for edge in self._placer.edges_at(rect):
            pair = drawn.get(int(self._layout.tensors[edge, 0]))
            if pair is not None:
                yield self._chip(edge, pair, rect, alone)
                alone = False

    def _chip(self, edge: int, pair: Pair, rect: list[float], alone: bool) -> Chip:
        told = " → ".join(pair)
        x, y = self._placer.ends[edge].tolist()
        for words in (told, f"→ {pair[1]}") if alone else ():
            wide = text_width(words, SECONDARY) + 2 * SIDE
            for box in self._placer.tries(x, y, wide):
                if self._placer.inside(box, rect) and self._placer.free(box, edge):
                    return Chip(edge, box, words, told)
        x, y = self._placer.before_end(edge)
        return Chip(edge, (x - DOT / 2, y - DOT / 2, DOT, DOT), "", told)
