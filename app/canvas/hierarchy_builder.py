"""Builds the Hierarchy of a graph: the module tree, then the wires cut at group borders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from espalier.app.canvas.chains import find_chains
from espalier.app.canvas.convex import Frames, convex_frames
from espalier.app.canvas.hierarchy import IN, OUT, Cancelled, Group, Hierarchy, Stub, Tensor, count_twins, intern_keys
from espalier.app.canvas.tags import blocks, stub_labels, tag_groups
from espalier.app.canvas.visible import hidden_shapes, resolved, with_boxes
from espalier.app.figures.captions import Caption, caption
from espalier.app.translation import tr
from espalier.model.graph.annotation import Annotation
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.node import Arg, Slice

SHARED_GROUPS, SHARED_SPAN = 4, 16  # a tensor used in at least so many groups, so many layers apart, is cut into stubs


def never() -> bool:
    """A `cancelled` that never cancels."""
    return False


def shape_operations(graph: Graph) -> frozenset[int]:
    """Numbers of the nodes that the canvas hides because they only move the values of one tensor."""
    index = {name: i for i, name in enumerate(graph.nodes)}
    return frozenset(hidden_shapes(graph, [_distinct(tuple(_sources(n.args, n.kwargs)), index) for n in graph]))


def build(
    graph: Graph,
    show_scalars: bool = False,
    cancelled: Callable[[], bool] = never,
    show_shapes: bool = True,
    kept: Collection[str] = (),
) -> Hierarchy:
    """The hierarchy of `graph`. `show_shapes` False: edges run through operations on shapes, except those of `kept`.

    Raises Cancelled when `cancelled()` returns true.
    """
    index = {name: i for i, name in enumerate(graph.nodes)}
    direct = [_distinct(tuple(_sources(n.args, n.kwargs)), index) for n in graph]
    through = {} if show_shapes else hidden_shapes(graph, direct, kept)
    numbers = resolved(direct, through)
    shown = with_boxes(graph, numbers, through, show_scalars)
    raw = _Paths()
    place = [raw.add(_path(n)) if s else -1 for n, s in zip(graph, shown, strict=True)]
    final = raw.resolve(place)
    groups, where = _groups(raw, final)
    lone = raw.lone
    home = [where[final[p]] if p >= 0 else -1 for p in place]
    captions = [caption(n, lone[p]) if p >= 0 else None for n, p in zip(graph, place, strict=True)]
    frames = convex_frames(home, [g.parent for g in groups], [[u for u, _ in n] for n in numbers], cancelled)
    again = list(range(len(groups)))
    if frames is not None:
        groups, home, again = _split(groups, home, frames)
    paths = {
        path: again[where[raw.inward[i] if final[i] != i and i in raw.inward else final[i]]]
        for path, i in raw.at.items()
    }
    paths |= {g.path: i for i, g in enumerate(groups) if g.part}
    seen: dict[object, int] = {}
    kinds = [
        _untitled(n, lone[p]) if c and n.annotation.title else c for n, c, p in zip(graph, captions, place, strict=True)
    ]
    keys = [-1 if c is None else seen.setdefault(c, len(seen)) for c in kinds]
    tree = Hierarchy(tuple(index), captions, keys, home, groups, [], paths, show_scalars, index)
    tree.show_shapes = show_shapes
    tree.through = {v: u for v, (u, _) in through.items()}
    _Wiring(tree, cancelled).run(numbers, direct)
    stub_keys = [seen.setdefault(("stub", s.label, s.uses), len(seen)) for s in tree.stubs]
    intern_keys(groups, keys, stub_keys, cancelled)
    count_twins(groups)
    tag_groups(tree)
    tree.chains = find_chains(tree)
    return tree


def _untitled(node: Node, lone: bool) -> Caption:
    """The caption without a user's title, which is no part of the structure."""
    return caption(replace(node, annotation=Annotation()), lone)


def _sources(args: tuple[Arg, ...], kwargs: dict[str, Arg]) -> Iterator[Ref]:
    """Node.inputs without recursion in the common case, for speed."""
    for arg in (*args, *kwargs.values()) if kwargs else args:
        kind = type(arg)
        if kind is Ref:
            yield arg  # type: ignore[misc]
        elif kind is tuple:
            yield from _sources(arg, {})  # type: ignore[arg-type]
        elif kind is Slice:
            yield from _sources((arg.start, arg.stop, arg.step), {})  # type: ignore[union-attr]


def _distinct(refs: tuple[Ref, ...], index: dict[str, int]) -> tuple[Tensor, ...]:
    if len(refs) < 2:
        return ((index[refs[0].node], refs[0].output),) if refs else ()
    return tuple(dict.fromkeys([(index[r.node], r.output) for r in refs]))


def _depths(numbers: list[tuple[Tensor, ...]]) -> tuple[list[int], list[int]]:
    """The longest distance of each node from the inputs and from the outputs."""
    depth, height = [0] * len(numbers), [0] * len(numbers)
    for v, sources in enumerate(numbers):
        depth[v] = 1 + max([depth[u] for u, _ in sources], default=-1)
    for v in range(len(numbers) - 1, -1, -1):
        for u, _ in numbers[v]:
            height[u] = max(height[u], height[v] + 1)
    return depth, height


def _path(node: Node) -> str:
    return node.module_path.rpartition(".")[0] if node.call == "call_module" else node.module_path


@dataclass(slots=True)
class _Paths:
    """The raw module tree, including groups that are dissolved because they would only add a frame."""

    at: dict[str, int] = field(default_factory=lambda: {"": 0})
    names: list[str] = field(default_factory=lambda: [""])
    parent: list[int] = field(default_factory=lambda: [-1])
    lone: list[bool] = field(default_factory=list)
    inward: dict[int, int] = field(default_factory=dict)

    def add(self, path: str) -> int:
        """The number of `path`; parents have smaller numbers."""
        number = self.at.get(path)
        if number is None:
            head, _, _ = path.rpartition(".")
            parent = self.add(head)
            number = self.at[path] = len(self.names)
            self.names.append(path)
            self.parent.append(parent)
        return number

    def resolve(self, place: list[int]) -> list[int]:
        """Raw number → the raw group that shows it, after needless frames are dissolved."""
        size = len(self.names)
        leaves, kids, numbered = [0] * size, [0] * size, [True] * size
        for p in place:
            if p >= 0:
                leaves[p] += 1
        gone = [False] * size
        self.lone = [False] * size
        for i in range(size - 1, 0, -1):
            up = self.parent[i]
            self.lone[i] = leaves[i] == 1 and kids[i] == 0
            container = leaves[i] == 0 and (kids[i] <= 1 or numbered[i])
            gone[i] = self.lone[i] or container
            leaves[up] += self.lone[i]
            kids[up] += kids[i] if container else not self.lone[i]
            if not self.lone[i] and kids[i] + leaves[i]:
                numbered[up] &= not container and self.names[i].rpartition(".")[2].isdigit()
        self._trace_inward(gone, kids)
        final = list(range(size))
        for i in range(1, size):
            if gone[i]:
                final[i] = final[self.parent[i]]
        return final

    def _trace_inward(self, gone: list[bool], kids: list[int]) -> None:
        """Map a frame that was merged with its only group to that group."""
        for i in range(len(gone) - 1, 0, -1):
            group = self.inward.get(i, -1) if gone[i] and kids[i] == 1 else -1 if gone[i] else i
            if group >= 0:
                self.inward[i] = self.inward[self.parent[i]] = group
            else:
                self.inward.pop(i, None)


def _groups(raw: _Paths, final: list[int]) -> tuple[list[Group], dict[int, int]]:
    groups, where = [Group("", "", -1, 0)], {0: 0}
    for i in range(1, len(raw.names)):
        if final[i] != i:
            continue
        up = where[final[raw.parent[i]]]
        above = groups[up]
        label = raw.names[i][len(above.path) + 1 :] if above.path else raw.names[i]
        where[i] = len(groups)
        groups.append(Group(raw.names[i], label, up, above.depth + 1))
    return groups, where


def _split(groups: list[Group], home: list[int], frames: Frames) -> tuple[list[Group], list[int], list[int]]:
    """The drawn groups, the group of each node, and for each original group the one that shows its path."""
    numbers = [n for i in range(len(groups)) for n in frames.parts.get(i, [i])]
    at = {number: k for k, number in enumerate(numbers)}
    kept: list[Group] = []
    for number in numbers:
        origin = frames.origin.get(number, number)
        old = groups[origin]
        if old.parent < 0:
            up, label = -1, ""
        else:
            up = at[frames.holder.get(~number, old.parent)]
            above = kept[up].module or kept[up].path
            label = old.path[len(above) + 1 :] if above else old.path
        fellows = frames.parts.get(origin, [number])
        k = fellows.index(number)
        part = tr(" · {} of {}", k + 1, len(fellows)) if len(fellows) > 1 else ""
        path = f"{old.path} ({k + 1})" if k else old.path
        depth = kept[up].depth + 1 if up >= 0 else 0
        kept.append(Group(path, label + part, up, depth, part=part, module=old.path if k else ""))
    home = [at[frames.holder.get(node, group)] if group >= 0 else -1 for node, group in enumerate(home)]
    again: list[int] = []
    for i, group in enumerate(groups):
        shown = frames.parts.get(i, [i])
        again.append(at[shown[0]] if shown else again[group.parent])
    return kept, home, again


class _Wiring:
    """Fills children and wires in the order of the nodes, so that equal blocks number their parts equally."""

    def __init__(self, tree: Hierarchy, cancelled: Callable[[], bool]) -> None:
        self.tree, self.groups, self.cancelled = tree, tree.groups, cancelled
        self.place = [0] * len(tree.ids)
        self.stub_at: dict[tuple[int, int], int] = {}
        self.labels: dict[int, str] = {}
        self.entered = [False] * len(tree.groups)
        self.entered[0] = True

    def run(self, numbers: list[tuple[Tensor, ...]], direct: list[tuple[Tensor, ...]]) -> None:
        """Add every visible node to its group and connect it to its sources; `direct`: with hidden operations."""
        home = self.tree.home
        shared = self._shared(numbers, direct)
        self.labels = stub_labels(self.tree, shared, numbers)
        pairs = [(u, v) for v, sources in enumerate(direct) for u, _ in sources]
        if self.tree.through:
            drawn = ((u, v) for v, sources in enumerate(numbers) for u, _ in sources)
            pairs = list(dict.fromkeys((*pairs, *drawn)))
        self.tree.edges = np.array(pairs, np.int64).reshape(-1, 2)
        for v, sources in enumerate(numbers):
            group = home[v]
            if group < 0:
                continue
            if v % 512 == 0 and self.cancelled():
                raise Cancelled
            self.place[v] = self._append(group, v)
            slot = 0
            for tensor in sources:
                if home[tensor[0]] >= 0:
                    self._connect(tensor, v, slot, shared)
                    slot += 1

    def _append(self, group: int, child: int) -> int:
        if not self.entered[group]:
            self._enter(group)
        children = self.groups[group].children
        children.append(child)
        return len(children) - 1

    def _enter(self, group: int) -> None:
        self.entered[group] = True
        own = self.groups[group]
        if not self.entered[own.parent]:
            self._enter(own.parent)
        own.place = len(self.groups[own.parent].children)
        self.groups[own.parent].children.append(~group)

    def _shared(self, numbers: list[tuple[Tensor, ...]], direct: list[tuple[Tensor, ...]]) -> dict[int, int]:
        """Sources that feed many groups far apart, counting hidden operations → number of those groups."""
        home = self.tree.home
        users: dict[int, set[int]] = {}
        for v, sources in enumerate(numbers):
            here = home[v]
            if here >= 0:
                for u, _ in sources:
                    if home[u] != here:
                        users.setdefault(u, set()).add(v)
        many = {u: vs for u, vs in users.items() if len(vs) >= SHARED_GROUPS}
        many = {u: vs for u, vs in many.items() if len({home[v] for v in vs}) >= SHARED_GROUPS}
        if not many:
            return {}
        depth, height = _depths(direct)
        return {
            u: len({home[v] for v in vs})
            for u, vs in many.items()
            if any(max(d[v] for v in vs) - min(d[v] for v in vs) >= SHARED_SPAN for d in (depth, height))
        }

    def _connect(self, tensor: Tensor, v: int, slot: int, shared: dict[int, int]) -> None:
        u, output = tensor
        home = self.tree.home
        if home[u] == home[v]:
            wire = (self.place[u], output, self.place[v], slot)
            self.groups[home[v]].wires[wire] = tensor
        elif u in shared:
            self._stub(tensor, v, slot, shared[u])
        else:
            self._cross(tensor, v, slot)

    def _stub(self, tensor: Tensor, v: int, slot: int, uses: int) -> None:
        tree = self.tree
        u, group = tensor[0], tree.home[v]
        if (u, tree.home[u]) not in self.stub_at:
            place = self._new_stub(Stub(u, tree.home[u], blocks(uses), uses))
            self.groups[tree.home[u]].wires[(self.place[u], tensor[1], place, 0)] = tensor
        if (u, group) not in self.stub_at:
            self._new_stub(Stub(u, group, self.labels[u]))
        place = self.stub_at[(u, group)]
        self.groups[group].wires[(place, 0, self.place[v], slot)] = tensor

    def _new_stub(self, stub: Stub) -> int:
        child = len(self.tree.ids) + len(self.tree.stubs)
        self.tree.stubs.append(stub)
        self.stub_at[(stub.source, stub.group)] = place = self._append(stub.group, child)
        return place

    def _cross(self, tensor: Tensor, v: int, slot: int) -> None:
        """Wire a tensor across borders, up from its source and down to its user; each port is created once."""
        groups = self.groups
        above, below = self.tree.home[tensor[0]], self.tree.home[v]
        meet = self._meet(above, below)
        child, port = self.place[v], slot
        while below != meet:
            group = groups[below]
            exists = tensor in group.ins
            number = group.ins.setdefault(tensor, len(group.ins))
            group.wires[(IN, number, child, port)] = tensor
            if exists:
                return
            child, port, below = group.place, number, group.parent
        source, output = self.place[tensor[0]], tensor[1]
        while above != meet:
            group = groups[above]
            number = group.outs.setdefault(tensor, len(group.outs))
            group.wires[(source, output, OUT, number)] = tensor
            source, output, above = group.place, number, group.parent
        groups[meet].wires[(source, output, child, port)] = tensor

    def _meet(self, a: int, b: int) -> int:
        groups = self.groups
        while groups[a].depth > groups[b].depth:
            a = groups[a].parent
        while groups[b].depth > groups[a].depth:
            b = groups[b].parent
        while a != b:
            a, b = groups[a].parent, groups[b].parent
        return a
