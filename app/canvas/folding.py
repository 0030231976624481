"""Draws the collapsed groups of a chain as one box: what is left of the children and wires of the group around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from espalier.app.canvas.hierarchy import Chain, Group, Hierarchy, Tensor, Wire
from espalier.app.canvas.tags import MAX_TAGS


@dataclass(frozen=True, slots=True)
class Fold:
    """Consecutive collapsed groups of a chain, `chain.members[first:last]`, drawn as one box.

    `tags`: the stubs on it.
    """

    chain: Chain
    first: int
    last: int
    tags: tuple[int, ...] = ()

    @property
    def members(self) -> tuple[int, ...]:
        """The groups."""
        return self.chain.members[self.first : self.last]

    @property
    def is_whole(self) -> bool:
        """Whether no group of the chain is expanded."""
        return self.last - self.first == len(self.chain.members)

    @property
    def title(self) -> str:
        """`layer ×12`, or `layer 0 … 4` if other groups of the chain are expanded."""
        if self.is_whole:
            return f"{self.chain.title} ×{len(self.chain.members)}"
        return f"{self.chain.title} {self.chain.numbers[self.first]} … {self.chain.numbers[self.last - 1]}"


@dataclass(slots=True)
class Inside:
    """The children and wires of a group as drawn. A fold is encoded as nodes + stubs + its place in the list of folds.

    `merged`: the former places of the children of each fold.
    """

    children: list[int]
    wires: dict[Wire, Tensor]
    merged: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True)
class Folding:
    """Folds the chains of one tree; `opened`: by group, whether it is expanded. Appends to `folds`."""

    tree: Hierarchy
    opened: Sequence[bool]
    folds: list[Fold] = field(default_factory=list)

    def inside(self, group: Group) -> Inside:
        """The children and wires of a group, every run of collapsed members of a chain as one child."""
        folds = self._folds_in(group)
        if not folds:
            return Inside(group.children, group.wires)
        base = len(self.tree.ids) + len(self.tree.stubs) + len(self.folds)
        self.folds += folds
        code = {member: base + k for k, fold in enumerate(folds) for member in fold.members}
        children: list[int] = []
        at: list[int] = []
        merged: dict[int, list[int]] = {}
        place_of: dict[int, int] = {}
        for place, child in enumerate(group.children):
            shown = code.get(~child, child) if child < 0 else child
            if shown not in place_of:
                place_of[shown] = len(children)
                children.append(shown)
            at.append(place_of[shown])
            if shown != child:
                merged.setdefault(shown, []).append(place)
        return Inside(children, _wires(group, at, base, children), tuple(tuple(p) for p in merged.values()))

    def _folds_in(self, group: Group) -> list[Fold]:
        chains = self.tree.chains
        around = {id(c): c for child in group.children if child < 0 and (c := chains.get(~child))}
        return [fold for chain in around.values() for fold in self._runs(chain)]

    def _runs(self, chain: Chain) -> list[Fold]:
        """The runs of at least two collapsed members."""
        folds: list[Fold] = []
        start = 0
        for place in range(len(chain.members) + 1):
            if place == len(chain.members) or self.opened[chain.members[place]]:
                if place - start >= 2:
                    members = chain.members[start:place]
                    folds.append(Fold(chain, start, place, self._tags(members)))
                start = place + 1
        return folds

    def _tags(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """The tags of the members, one per shared tensor, without those that do not leave the fold."""
        tree, inside = self.tree, set(members)
        tags: dict[int, int] = {}
        for member in members:
            for tag in tree.groups[member].tags:
                source = tree.stubs[tag].source
                within = not inside.isdisjoint(tree.ancestors(tree.home[source]))
                if source not in tags and (not within or self._leaves(source, inside)):
                    tags[source] = tag
        return tuple(list(tags.values())[:MAX_TAGS])

    def _leaves(self, source: int, inside: set[int]) -> bool:
        """Whether a node outside these groups uses a tensor."""
        users = self.tree.edges[self.tree.edges[:, 0] == source, 1].tolist()
        return any(inside.isdisjoint(self.tree.ancestors(self.tree.home[u])) for u in users if self.tree.home[u] >= 0)


def _wires(group: Group, at: Sequence[int], base: int, children: Sequence[int]) -> dict[Wire, Tensor]:
    """The wires between the drawn children; those of one tensor between two of them are one."""
    ports: dict[tuple[int, bool, Tensor], int] = {}
    used: dict[tuple[int, bool], int] = {}
    wires: dict[Wire, Tensor] = {}

    def port(place: int, into: bool, tensor: Tensor, former: int) -> int:
        if place < 0 or children[place] < base:
            return former
        if (place, into, tensor) not in ports:
            ports[place, into, tensor] = used[place, into] = used.get((place, into), -1) + 1
        return ports[place, into, tensor]

    for (a, p, b, q), tensor in group.wires.items():
        start, end = at[a] if a >= 0 else a, at[b] if b >= 0 else b
        if start != end or start < 0:
            wires.setdefault((start, port(start, False, tensor, p), end, port(end, True, tensor, q)), tensor)
    return wires
