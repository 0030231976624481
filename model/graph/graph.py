"""The graph as a frozen value; an edit gives a new Graph that shares unchanged nodes.

`nodes` is in topological order. The dicts are plain for speed and are never mutated.
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
from espalier.model.graph.size_limit import SizeLimit

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True)
class Delta:
    """The differences between two graphs, as node ids."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order, their weights by name, and example sizes of the symbols in shapes.

    `structure`: of the results: one tensor, a tuple, or a dict with the keys `output_names`. `runs` "module": recorded
    from a run; it runs as the original module and cannot be rewired. `limits`: conditions on sizes that the code of the
    model tested; for other sizes it may compute otherwise than the graph.
    """

    nodes: dict[str, Node]
    weights: dict[str, Weight] = field(default_factory=dict)  # type: ignore[assignment]
    output_names: tuple[str, ...] = ()
    structure: Literal["tensor", "tuple", "dict"] = "tuple"
    symbols: dict[str, int] = field(default_factory=dict)  # type: ignore[assignment]
    runs: Literal["graph", "module"] = "graph"
    limits: tuple[SizeLimit, ...] = ()

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
        """The output node."""
        for node in reversed(self.nodes.values()):
            if node.call == "output":
                return node
        raise GraphError("The graph has no output.", "Undo the last edit.")

    def edges(self) -> Iterator[tuple[Ref, str]]:
        """(source, user id) for each distinct source of each node."""
        for node in self:
            for ref in dict.fromkeys(node.inputs):
                yield ref, node.id

    def users(self) -> dict[str, tuple[str, ...]]:
        """Node id → ids of its users, in order."""
        users_of: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        for ref, user in self.edges():
            users_of[ref.node][user] = None
        return {name: tuple(users) for name, users in users_of.items()}

    def feeding(self, *ids: str) -> set[str]:
        """These nodes and all that they depend on."""
        needed = set(ids)
        for node in reversed(self.nodes.values()):
            if node.id in needed:
                needed.update(r.node for r in node.inputs)
        return needed

    def replace(self, *nodes: Node) -> Graph:
        """The graph with nodes of the same ids replaced, and input ports updated to changed sources; itself if nothing
        differs.
        """
        changed = {n.id: n for n in nodes if not same(self[n.id], n)}
        return replace(self, nodes={**self.nodes, **changed, **self._refreshed(changed)}) if changed else self

    def _refreshed(self, changed: dict[str, Node]) -> dict[str, Node]:
        """Nodes with input ports updated to their sources after `changed`."""
        old = self.nodes
        stale = {k for k, n in changed.items() if n.args is not old[k].args or n.kwargs is not old[k].kwargs}
        fresh = {k for k, n in changed.items() if n.ports is not old[k].ports}
        if self.runs == "module" or not (stale or fresh):
            return {}
        after = {**old, **changed}
        stale |= {k for k, n in after.items() if fresh and any(r.node in fresh for r in n.inputs)}
        return {k: refreshed(after[k], after) for k in stale if all(r.node in after for r in after[k].inputs)}

    def with_weights(self, weights: Mapping[str, Weight]) -> Graph:
        """The graph with weights added or replaced by name; itself if nothing differs."""
        changed = {k: w for k, w in weights.items() if self.weights.get(k) != w}
        return replace(self, weights={**self.weights, **changed}) if changed else self

    def insert(self, node: Node, before: str | None = None) -> Graph:
        """The graph with a new node before `before` (default: the output); raises GraphError."""
        if node.id in self.nodes:
            raise GraphError(f"There is already a node {node.id!r}.", "Choose another id.", node.id)
        successor = before or self.output.id
        later = set(itertools.dropwhile(self[successor].id.__ne__, self.nodes))
        for ref in node.inputs:
            if self[ref.node].id in later:
                raise GraphError(f"{node.id} would be before its input {ref.node}.", "Insert it later.", node.id)
        nodes: dict[str, Node] = {}
        for name, old in self.nodes.items():
            if name == successor:
                nodes[node.id] = node
            nodes[name] = old
        return replace(self, nodes=nodes)

    def remove(self, *ids: str) -> Graph:
        """The graph without these nodes; raises GraphError if other nodes use them."""
        removed = {self[i].id for i in ids}
        users = self.users()
        for name in ids:
            remaining = [u for u in users[name] if u not in removed]
            if remaining:
                raise GraphError(f"{name} is still used by {', '.join(remaining)}.", "Rewire its users first.", name)
            if self.nodes[name].call in ("placeholder", "output"):
                raise GraphError(f"{name} is an {self.nodes[name].call} and cannot be removed.", node=name)
        nodes = {k: n for k, n in self.nodes.items() if k not in removed}
        return replace(self, nodes=nodes, weights=named_weights(nodes.values(), self.weights))

    def rewire(self, old: Ref, new: Ref) -> Graph:
        """The graph with every use of `old` replaced by `new`."""
        users = [n for n in self if self[old.node] and self[new.node] and old in n.inputs]
        return self.replace(*(map_refs(n, lambda r: new if r == old else r) for n in users))

    def delta(self, before: Graph) -> Delta:
        """The changes since `before`; compared by identity first, so fast between edits of one graph."""
        old, new = before.nodes, self.nodes
        equal = old.keys() == new.keys()
        added = () if equal else tuple(k for k in new if k not in old)
        removed = () if equal else tuple(k for k in old if k not in new)
        changed = tuple(k for k, n in new.items() if (o := old.get(k)) is not n and o is not None and not same(o, n))
        return Delta(added, removed, changed)

    def sharing(self, others: Iterable[Graph]) -> Graph:
        """An equal graph that shares equal nodes and weights with `others`, so that comparisons by identity find them
        unchanged."""
        present = {n.id: n for n in reversed([n for o in others for n in o.nodes.values()])}
        nodes = {k: old if (old := present.get(k)) and same(old, n) else n for k, n in self.nodes.items()}
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
    """The weights that a node uses: as a tensor, a scale of a format or an adapter matrix."""
    used = {name for node in nodes for name in node.tensors}
    return {k: w for k, w in weights.items() if k in used}


def without_unused_scales(graph: Graph, before: Graph) -> Graph:
    """`graph` without the scales of formats in `before` that no node uses any more."""
    unused = {c.scale for n in before for c in n.precision.values() if c.scale}
    if unused:
        unused -= {c.scale for n in graph for c in n.precision.values()}
        unused -= {name for n in graph for name in n.weights.values()}
    return replace(graph, weights={k: w for k, w in graph.weights.items() if k not in unused}) if unused else graph


def sort(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes in a stable topological order; raises GraphError when they form a cycle."""
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((name, r.node) for name, node in nodes.items() for r in node.inputs)
    if not nx.is_directed_acyclic_graph(graph):
        name, source = nx.find_cycle(graph)[0][:2]
        raise GraphError(f"{name} and {source} form a cycle.", "Rewire one of them.", name)
    return {name: nodes[name] for name in nx.dfs_postorder_nodes(graph)}


def fixed_batch(graph: Graph) -> int | None:
    """The one batch size that a graph takes: the first size of all inputs, where the model's code fixed it, else None.

    A recorded model runs itself, at any size.
    """
    shapes = [n.out.shape for n in graph.placeholders if n.out is not None and n.out.shape]
    first = {shape[0] for shape in shapes}
    size = next(iter(first)) if len(first) == 1 and graph.runs == "graph" else None
    return size if isinstance(size, int) else None
