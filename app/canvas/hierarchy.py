"""The module tree of a graph: the group of each node, and the wires inside each group.

Edges are cut into ports at group borders, so that equal blocks have equal values wherever they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.captions import Caption, tail
from espalier.model.graph.graph import Delta, Graph, Node

IN, OUT = -1, -2  # the border of the group as an end of a wire
Tensor = tuple[int, int]  # (node number, output number)
Wire = tuple[int, int, int, int]  # (from child, its port, to child, its port)


class Cancelled(Exception):
    """The computation was cancelled."""


@dataclass(slots=True)
class Group:
    """One group. `children` encodes node n as n, group g as ~g and stub s as nodes + s.

    `tags`: the stubs on its box while it is collapsed. `part` ("2 of 3") distinguishes the frames of a module that the
    flow leaves and enters again; the first has the module's path, and `path` is unique.
    """

    path: str
    label: str
    parent: int
    depth: int
    place: int = 0
    children: list[int] = field(default_factory=list)
    wires: dict[Wire, Tensor] = field(default_factory=dict)
    ins: dict[Tensor, int] = field(default_factory=dict)
    outs: dict[Tensor, int] = field(default_factory=dict)
    size: int = 0
    key: int = 0
    wiring: int = 0
    twins: int = 1
    tags: tuple[int, ...] = ()
    part: str = ""
    module: str = ""  # the module's path, if `path` differs from it


@dataclass(frozen=True, slots=True)
class Stub:
    """One end of a cut edge: where a shared tensor enters, or (`uses` > 0) where it leaves for several groups.

    `closed`: it is a tag on the box of its collapsed group, also for `others`.
    """

    source: int
    group: int
    label: str
    uses: int = 0
    closed: bool = False
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """Sibling groups of the same structure in the order of the flow: their numbers in the tree and in their names.

    `title`: what their names share ("layer").
    """

    members: tuple[int, ...]
    numbers: tuple[str, ...]
    title: str


@dataclass(slots=True)
class Hierarchy:
    """The tree of one graph, built once per structure; expanding and collapsing groups does not change it."""

    ids: tuple[str, ...]
    captions: list[Caption | None]
    keys: list[int]
    home: list[int]
    groups: list[Group]
    stubs: list[Stub]
    paths: dict[str, int]
    show_scalars: bool
    index: dict[str, int] = field(default_factory=dict)
    edges: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    chains: dict[int, Chain] = field(default_factory=dict)  # by group
    chain_rows: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # cached by fold_metrics
    show_shapes: bool = True
    through: dict[int, int] = field(default_factory=dict)  # hidden operation on shapes → the node it takes from

    def group_of(self, path: str) -> int:
        """The number of the group that shows `path`; for a merged group, of the one that contains it."""
        while path and path not in self.paths:
            path = path.rpartition(".")[0]
        return self.paths.get(path, 0)

    def ancestors(self, group: int) -> list[int]:
        """The groups around and including `group`, outermost first, without the root."""
        groups: list[int] = []
        while group > 0:
            groups.append(group)
            group = self.groups[group].parent
        return groups[::-1]

    def members(self, group: int) -> list[int]:
        """All nodes inside a group, at any depth."""
        nodes: list[int] = []
        stack = [group]
        while stack:
            for child in self.groups[stack.pop()].children:
                if child < 0:
                    stack.append(~child)
                elif child < len(self.ids):
                    nodes.append(child)
        return nodes


def changed_choices(before: Graph, after: Graph, delta: Delta | None = None) -> tuple[str, ...] | None:
    """Ids of the nodes with other choices; None if anything else differs, so that a new layout is needed.

    `delta`, if known, avoids comparing all nodes.
    """
    if len(before) != len(after) or (delta and (delta.added or delta.removed)):
        return None
    if delta is None:
        pairs = zip(before.nodes.items(), after.nodes.items(), strict=True)
        differing = [(i, j) for (i, a), (j, b) in pairs if a is not b or i != j]
        if any(i != j for i, j in differing):
            return None
        changed = tuple(i for i, _ in differing)
    else:
        changed = delta.changed
    same = all(i in before.nodes and _facts(before.nodes[i]) == _facts(after.nodes[i]) for i in changed)
    return changed if same else None


def same_structure(before: Graph, after: Graph) -> bool:
    """Whether the graphs differ in choices only, so that they share a layout."""
    return changed_choices(before, after) is not None


def _facts(node: Node) -> tuple[object, ...]:
    return node.op, node.call, node.target, node.args, node.kwargs, node.module_path, node.ports, node.annotation.title


def open_all(tree: Hierarchy) -> frozenset[str]:
    """The paths of all groups."""
    return frozenset(g.path for g in tree.groups[1:])


def default_open(tree: Hierarchy, limit: int = 0, folding: bool = False, root: int = 0) -> frozenset[str]:
    """The groups inside `root` to expand at first, for about `limit` visible items: those with layers, one of
    identical siblings.

    `folding`: chains are drawn as one box, and none of their groups is expanded; fewer items, so that all is legible.
    """
    limit = limit or (FOLDED_ITEMS if folding and not root else ITEMS)
    if not root and tree.groups[0].size <= SMALL:
        return open_all(tree)
    chosen: set[str] = set()
    visible = float(len(tree.groups[root].children))
    level = [root]
    while level:
        following: list[int] = []
        for number in level:
            seen: set[int] = set()
            for child in tree.groups[number].children:
                if child >= 0 or tree.groups[~child].key in seen or not _has_layers(tree, ~child):
                    continue
                if folding and ~child in tree.chains:
                    continue
                group = tree.groups[~child]
                seen.add(group.key)
                more = _added_items(tree, group, folding)
                if visible + more <= limit:
                    visible += more
                    chosen.add(group.path)
                    following.append(~child)
        level = following
    return frozenset(chosen)


def _added_items(tree: Hierarchy, group: Group, folding: bool) -> float:
    """The visible items that expanding a group adds; repeated blocks count less, a folded chain as one."""
    chained = [tree.chains.get(~c) if folding and c < 0 else None for c in group.children]
    keys = [tree.groups[~c].key if c < 0 else -1 - c for c, f in zip(group.children, chained, strict=True) if f is None]
    chains = len({id(chain) for chain in chained if chain is not None})
    return chains + len(set(keys)) + 0.2 * (len(keys) - len(set(keys))) - 1


ITEMS, FOLDED_ITEMS = 60, 24  # visible at first, without and with folds
LAYERS = {"linear", "matmul"}  # categories of layers
SMALL = 24  # nodes up to which all groups are expanded


def _has_layers(tree: Hierarchy, group: int) -> bool:
    captions = (tree.captions[i] for i in tree.members(group))
    return any(c and c.category in LAYERS for c in captions)


def count_twins(groups: list[Group]) -> None:
    """Set `twins`: the number of siblings (itself included) with the same structure."""
    for group in groups:
        kids = [~c for c in group.children if c < 0]
        same = Counter(groups[k].key for k in kids)
        for k in kids:
            groups[k].twins = same[groups[k].key]


def intern_keys(groups: list[Group], keys: list[int], stub_keys: list[int], cancelled: Callable[[], bool]) -> None:
    """Set the sizes of groups and number them by content: `key` ignores the order of wires, `wiring` includes it."""
    seen: dict[object, int] = {}
    wirings: dict[object, int] = {}
    nodes = len(keys)
    for group in reversed(groups):
        if cancelled():
            raise Cancelled
        inside = tuple(
            keys[c] if 0 <= c < nodes else -1 - groups[~c].key if c < 0 else stub_keys[c - nodes]
            for c in group.children
        )
        group.size = sum(1 if 0 <= c < nodes else groups[~c].size if c < 0 else 0 for c in group.children)
        ports = (len(group.ins), len(group.outs))
        name = tail(group.label.removesuffix(group.part))
        kind = "" if name.rpartition(".")[2].isdigit() else name
        group.key = seen.setdefault((inside, frozenset(group.wires), ports, kind), len(seen))
        group.wiring = wirings.setdefault((tuple(group.wires), ports), len(wirings))
