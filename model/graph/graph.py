"""The graph that people edit: frozen values; every edit gives a new Graph that shares what it did not change.

`nodes` stands in topological order. The dicts inside are plain for speed and are never mutated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from espalier.model.errors import GraphError, nearest
from espalier.model.graph.meta import Weight
from espalier.model.graph.node import Node, Ref, map_refs, out_port, same
from espalier.model.graph.operands import refreshed
from espalier.model.graph.ops import kind

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True)
class Delta:
    """What differs between two graphs, by node id."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order, the weights they name, and the example sizes of the symbols in shapes.

    `structure` says how results leave: one tensor, a tuple, or a dict with the keys `output_names`.
    `runs` "module": recorded from a run; it runs as the original module and cannot be re-wired.
    """

    nodes: dict[str, Node]
    weights: dict[str, Weight] = field(default_factory=dict)  # type: ignore[assignment]
    output_names: tuple[str, ...] = ()
    structure: Literal["tensor", "tuple", "dict"] = "tuple"
    symbols: dict[str, int] = field(default_factory=dict)  # type: ignore[assignment]
    runs: Literal["graph", "module"] = "graph"

    def __getitem__(self, node: str) -> Node:
        if node not in self.nodes:
            raise GraphError(f"There is no node {node!r}.", nearest(node, self.nodes))
        return self.nodes[node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def placeholders(self) -> tuple[Node, ...]:
        """The inputs, in order."""
        return tuple(n for n in self if n.call == "placeholder")

    @property
    def output(self) -> Node:
        """The one output node."""
        for node in reversed(self.nodes.values()):
            if node.call == "output":
                return node
        raise GraphError("The graph has no output.", "Undo the last edit.")

    def edges(self) -> Iterator[tuple[Ref, str]]:
        """(source, user id) once per distinct source of a node."""
        for node in self:
            for ref in dict.fromkeys(node.inputs):
                yield ref, node.id

    def users(self) -> dict[str, tuple[str, ...]]:
        """Node id → ids of the nodes that use it, in order."""
        found: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        for ref, user in self.edges():
            found[ref.node][user] = None
        return {name: tuple(users) for name, users in found.items()}

    def feeding(self, *ids: str) -> set[str]:
        """These nodes and all whose values they depend on."""
        found = set(ids)
        for node in reversed(self.nodes.values()):
            if node.id in found:
                found.update(r.node for r in node.inputs)
        return found

    def replace(self, *nodes: Node) -> Graph:
        """The graph with nodes of the same ids replaced; itself when nothing differs.

        What a changed wire brings, and what a changed result is to its users, is written into their input ports.
        """
        changed = {n.id: n for n in nodes if not same(self[n.id], n)}
        return replace(self, nodes={**self.nodes, **changed, **self._refreshed(changed)}) if changed else self

    def _refreshed(self, changed: dict[str, Node]) -> dict[str, Node]:
        """Nodes whose input ports no longer are what their sources give, after `changed`."""
        old = self.nodes
        stale = {k for k, n in changed.items() if n.args is not old[k].args or n.kwargs is not old[k].kwargs}
        fresh = {k for k, n in changed.items() if n.ports is not old[k].ports}
        if self.runs == "module" or not (stale or fresh):
            return {}
        after = {**old, **changed}
        stale |= {k for k, n in after.items() if fresh and any(r.node in fresh for r in n.inputs)}
        return {k: refreshed(after[k], after) for k in stale if all(r.node in after for r in after[k].inputs)}

    def with_weights(self, weights: Mapping[str, Weight]) -> Graph:
        """The graph with weights added or replaced by name; itself when nothing differs."""
        changed = {k: w for k, w in weights.items() if self.weights.get(k) != w}
        return replace(self, weights={**self.weights, **changed}) if changed else self

    def insert(self, node: Node, before: str | None = None) -> Graph:
        """The graph with a new node, placed before `before` (default: just before the output)."""
        if node.id in self.nodes:
            raise GraphError(f"There is already a node {node.id!r}.", "Choose another id.", node.id)
        place = before or self.output.id
        later = set(itertools.dropwhile(self[place].id.__ne__, self.nodes))
        for ref in node.inputs:
            if self[ref.node].id in later:
                raise GraphError(f"{node.id} would stand before its input {ref.node}.", "Place it later.", node.id)
        nodes: dict[str, Node] = {}
        for name, old in self.nodes.items():
            if name == place:
                nodes[node.id] = node
            nodes[name] = old
        return replace(self, nodes=nodes)

    def remove(self, *ids: str) -> Graph:
        """The graph without nodes that have no other users; raises GraphError naming the users."""
        gone = {self[i].id for i in ids}
        users = self.users()
        for name in ids:
            left = [u for u in users[name] if u not in gone]
            if left:
                raise GraphError(f"{name} is still used by {', '.join(left)}.", "Re-wire its users first.", name)
            if self.nodes[name].call in ("placeholder", "output"):
                raise GraphError(f"{name} is an {self.nodes[name].call} and cannot be removed.", node=name)
        nodes = {k: n for k, n in self.nodes.items() if k not in gone}
        return replace(self, nodes=nodes, weights=named_weights(nodes.values(), self.weights))

    def rewire(self, old: Ref, new: Ref) -> Graph:
        """The graph in which every use of `old` takes `new` instead."""
        users = [n for n in self if self[old.node] and self[new.node] and old in n.inputs]
        return self.replace(*(map_refs(n, lambda r: new if r == old else r) for n in users))

    def delta(self, before: Graph) -> Delta:
        """What changed since `before`; by identity, so cheap between edits of one graph."""
        old, new = before.nodes, self.nodes
        alike = old.keys() == new.keys()
        added = () if alike else tuple(k for k in new if k not in old)
        removed = () if alike else tuple(k for k in old if k not in new)
        changed = tuple(k for k, n in new.items() if (o := old.get(k)) is not n and o is not None and not same(o, n))
        return Delta(added, removed, changed)

    def sharing(self, others: Iterable[Graph]) -> Graph:
        """Equal, but with the very nodes and weights of `others` where they are the same: what looks for changes by
        identity then finds only those."""
        held = [n for o in others for n in o.nodes.values()]
        known = {n.id: n for n in reversed(held)}
        nodes = {k: old if (old := known.get(k)) and same(old, n) else n for k, n in self.nodes.items()}
        stored = {k: w for o in others for k, w in o.weights.items()}
        weights = {k: old if (old := stored.get(k)) == w else w for k, w in self.weights.items()}
        return replace(self, nodes=nodes, weights=weights)

    def to_networkx(self) -> nx.MultiDiGraph[str]:
        """A networkx graph of plain texts and numbers.

        Node attributes: op, kind, module_path, parameters (elements of its weights), formats and sparsity (by port, as
        "weight: mxint(...)"). Edge attributes: output, shape ("batch × 8").
        """
        import networkx as nx

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        for node in self:
            graph.add_node(
                node.id,
                op=node.op,
                kind=kind(node),
                module_path=node.module_path,
                parameters=sum(self.weights[key].elements for key in node.weights.values() if key in self.weights),
                formats="; ".join(f"{port}: {p.format}" for port, p in sorted(node.precision.items())),
                sparsity="; ".join(f"{port}: {s.ratio:g}" for port, s in sorted(node.sparsity.items())),
            )
        for ref, user in self.edges():
            meta = self.nodes[ref.node].ports.get(out_port(ref.output))
            shape = " × ".join(map(str, meta.shape)) if meta else ""
            graph.add_edge(ref.node, user, output=ref.output, shape=shape)
        return graph


def named_weights(nodes: Iterable[Node], weights: Mapping[str, Weight]) -> dict[str, Weight]:
    """Those of `weights` that a node still names, as a tensor, the scale of a format or part of an adapter."""
    used = {name for node in nodes for name in node.tensors}
    return {k: w for k, w in weights.items() if k in used}


def without_unused_scales(graph: Graph, before: Graph) -> Graph:
    """`graph` without the weights that were scales of formats in `before` and are so no longer."""
    gone = {c.scale for n in before for c in n.precision.values() if c.scale}
    if gone:
        gone -= {c.scale for n in graph for c in n.precision.values()}
        gone -= {name for n in graph for name in n.weights.values()}
    return replace(graph, weights={k: w for k, w in graph.weights.items() if k not in gone}) if gone else graph


def sort(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes in a stable topological order; raises GraphError when they form a cycle."""
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((name, r.node) for name, node in nodes.items() for r in node.inputs)
    if not nx.is_directed_acyclic_graph(graph):
        name, source = nx.find_cycle(graph)[0][:2]
        raise GraphError(f"{name} and {source} form a cycle.", "Re-wire one of them.", name)
    return {name: nodes[name] for name in nx.dfs_postorder_nodes(graph)}
