"""Which layers compute on parts of their weights: columns or rows, by the placements of a sharded graph."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node
from espalier.passes.sharding.apply import edges, in_use

COLUMNS, ROWS = "colwise", "rowwise"  # the result stays split, or the input is split already
GATHERED, WHOLE = "colwise_gather_output", "rowwise_split_input"  # both ends of the layer are whole


class _Groups:
    """Nodes that pass split tensors on to one another, as sets that are joined."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._broken: set[str] = set()

    def root(self, node: str) -> str:
        """The representative of a node's group."""
        while (above := self._parent.get(node, node)) != node:
            node = above
        return node

    def join(self, one: str, other: str) -> None:
        """Make one group of two nodes' groups."""
        self._parent[self.root(one)] = self.root(other)

    def spoil(self, node: str) -> None:
        """The group of this node cannot stay split between layers."""
        self._broken.add(node)

    def broken(self) -> set[str]:
        """Representatives of groups that cannot stay split."""
        return {self.root(n) for n in self._broken}


def styles(graph: Graph, axis: int, layers: Iterable[str]) -> dict[str, str]:
    """Module path → style, of the linear layers and embeddings in `layers` that are split along an axis of the mesh.

    A layer keeps its result split only where all that lies between it and the row-wise layers is split alike, so that
    the code of the model runs on parts, as in Megatron (Shoeybi et al., 2019).
    """
    kinds, groups = _kinds(graph, axis, set(layers)), _Groups()
    for node in graph:
        if node.sharding is not None:
            _check(graph, node, axis, kinds, groups)
    broken, found = groups.broken(), dict[str, str]()
    for node_id, kind in kinds.items():
        node, style = graph.nodes[node_id], kind
        if kind == COLUMNS and (groups.root(node_id) in broken or not _is_split(node, "data_out", axis)):
            style = GATHERED
        if kind == ROWS and groups.root(_input(node_id)) in broken:
            style = WHOLE
        if found.setdefault(node.target, style) != style:
            found[node.target] = ""
    return _consistent(graph, found)


def _input(row: str) -> str:
    """What stands for the split input of a row-wise layer, whose result is whole."""
    return f"{row}<"


def _kinds(graph: Graph, axis: int, layers: set[str]) -> dict[str, str]:
    """Node → style, as if all that lies between layers could stay split. Embeddings have whole ends."""
    found: dict[str, str] = {}
    for node in graph:
        use = in_use(node, "weight")
        if node.call != "call_module" or node.target not in layers or use is None or use[axis] not in ("S0", "S1"):
            continue
        if node.op == "embedding":
            found[node.id] = WHOLE if use[axis] == "S0" else GATHERED
        elif node.op == "linear" and use[axis] == "S1":
            found[node.id] = ROWS
        elif node.op == "linear" and not _is_split(node, "data_in", axis):
            found[node.id] = COLUMNS
    return found


def _is_split(node: Node, port: str, axis: int) -> bool:
    texts = node.sharding.ports.get(port) if node.sharding else None
    return texts is not None and texts[axis] != "R"


def _check(graph: Graph, node: Node, axis: int, kinds: dict[str, str], groups: _Groups) -> None:
    """Join the groups of a node and its inputs, and spoil those that no code of the model could compute in parts."""
    inputs = [(graph.nodes[s], before[axis], after[axis])
              for s, _, before, after, _ in edges(graph, node) if s != node.id]  # fmt: skip
    kind = kinds.get(node.id)
    taken = _input(node.id) if kind == ROWS else node.id
    for source, before, after in inputs:
        if before == after != "R":
            groups.join(source.id, taken)
        elif before != after:
            groups.spoil(source.id)
            if after != "R":
                groups.spoil(taken)
    result = _is_split(node, "data_out", axis)
    if kind == ROWS or (kind in (WHOLE, GATHERED)):
        if result:  # a partial sum, or one of which each rank keeps a part: the layer gives it whole
            groups.spoil(node.id)
    elif kind != COLUMNS and (_own_parts(node, axis) or result != any(a != "R" for _, _, a in inputs)):
        groups.spoil(node.id)


def _own_parts(node: Node, axis: int) -> bool:
    """Whether a node has split weights or passes partial sums on."""
    assert node.sharding is not None
    ports = node.sharding.ports
    return any(ports[p][axis] != "R" for p in node.weights if p in ports) or any(t[axis] == "P" for t in ports.values())


def _consistent(graph: Graph, found: dict[str, str]) -> dict[str, str]:
    """Without layers whose weight another node takes whole, or split along another dimension."""
    dims: dict[str, set[int]] = {}
    for node in graph:
        style = found.get(node.target, "") if node.call == "call_module" else ""
        for port, name in node.weights.items():
            if port in ("weight", "value"):
                dims.setdefault(name, set()).add(0 if _by_rows(style, node.op) else 1 if style else -1)
    good = {n.target for n in graph if n.call == "call_module" and len(dims.get(n.weights.get("weight", ""), ())) == 1}
    return {target: style for target, style in found.items() if style and target in good}


def _by_rows(style: str, op: str) -> bool:
    """Whether a style splits the first dimension of the weight: outputs of a layer, or entries of an embedding."""
    return style == WHOLE if op == "embedding" else style in (COLUMNS, GATHERED)
