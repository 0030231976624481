"""The computed difference of two graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import WeightStore
from espalier.passes.comparison.changes import Change, Distance, Sides, changes_of, stored_bytes
from espalier.passes.comparison.groups import Group, grouped
from espalier.passes.comparison.norms import relative_distance
from espalier.passes.comparison.pairing import Pairing, pair

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """Differences of graph B from graph A. `added`: nodes of B, `removed`: of A, each in topological order.

    `changes`: of added nodes, removed ones and pairs. `pairing`: which nodes are the same.
    """

    changes: tuple[Change, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    pairing: Pairing

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def changed(self) -> tuple[str, ...]:
        """Nodes of B whose partner differs."""
        return tuple(dict.fromkeys(c.node for c in self.changes if c.kind not in ("added", "removed")))

    @property
    def renamed(self) -> int:
        """How many nodes have another id in A."""
        return sum(a != b for b, a in self.pairing.pairs.items())

    @property
    def rewired(self) -> bool:
        """Whether nodes were added, removed or connected otherwise."""
        return any(c.kind in ("added", "removed", "inputs") for c in self.changes)

    def groups(self, a: Graph, b: Graph) -> tuple[Group, ...]:
        """Equal changes of twins in one; `a`, `b`: the graphs that were compared."""
        return grouped(self.changes, a, b)

    def rows(self) -> list[Row]:
        """A dict a change: `node`, `what`, `before`, `after`, `size_bytes`, `distance`, `node_a`."""
        return [{"node": c.node, "what": c.what, "before": c.a, "after": c.b, "size_bytes": c.size_bytes,
                 "distance": c.distance, "node_a": c.other or None} for c in self.changes]  # fmt: skip


def compare_graphs(
    a: Graph, b: Graph, stores: tuple[WeightStore, WeightStore] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> GraphDiff:  # fmt: skip
    """What turned `a` into `b`; with both stores, also how far weights moved. `stop()` true ends the reading of these.

    Weights are read one pair at a time.
    """
    pairing = pair(a, b)
    distance: Distance | None = partial(_distance, *stores, stop) if stores else None
    sides = Sides(a, b, pairing.pairs, distance)
    added = tuple(n for n in b.nodes if n not in pairing.pairs)
    back = pairing.back
    removed = tuple(n for n in a.nodes if n not in back)
    return GraphDiff(tuple(_changes(sides, added, removed)), added, removed, pairing)


def _changes(sides: Sides, added: tuple[str, ...], removed: tuple[str, ...]) -> Iterator[Change]:
    for name in added:
        node = sides.b[name]
        yield Change(name, "added", None, _described(node), size_bytes=stored_bytes(node, sides.b) or None)
    for name in removed:
        node = sides.a[name]
        yield Change(name, "removed", _described(node), None, size_bytes=-stored_bytes(node, sides.a) or None)
    for name, other in sides.pairs.items():
        old, new = sides.a[other], sides.b[name]
        if old is not new or sides.a.weights is not sides.b.weights:
            yield from changes_of(old, new, sides)


def _described(node: Node) -> str:
    """`linear`; with the formats that it has, `kv_cache (data_out scaled_integer(width=8))`."""
    formats = ", ".join(f"{port} {chosen.format}" for port, chosen in node.precision.items())
    return f"{node.op} ({formats})" if formats else node.op


def _distance(first: WeightStore, second: WeightStore, stop: Callable[[], bool], a: str, b: str) -> float | None:
    return relative_distance(first, a, second, b, stop)
