"""Repeated blocks of a model ("encoder.layer.0", ".1", …): inputs, results, and bypass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from espalier.model.graph.graph import Graph, Node, Ref, map_refs, named_weights, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.ops import category, floating, spec

_SAME = ("to", "contiguous", "clone", "alias", "detach", "dropout", "identity", "kv_cache")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a chain. `why`: why it cannot be bypassed; otherwise `source` and `result` are equal in shape.

    `branches`: layers whose results are added to the residual stream, if the block does nothing else.
    """

    number: int
    nodes: tuple[str, ...]
    source: Ref | None = None
    result: Ref | None = None
    branches: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """Blocks of one module path, in order."""

    path: str
    blocks: tuple[Block, ...]

    @property
    def passable(self) -> tuple[Block, ...]:
        """Blocks that can be bypassed."""
        return tuple(b for b in self.blocks if not b.why)


def chains(graph: Graph) -> list[Chain]:
    """The chains of residual blocks: the outermost ones whose blocks can all be bypassed, otherwise those within."""
    groups: dict[str, dict[int, list[str]]] = {}
    for node in graph:
        for path, number in _indices(node):
            groups.setdefault(path, {}).setdefault(number, []).append(node.id)
    every = [_Reader(graph, path, {k: blocks[k] for k in sorted(blocks)}).read() for path, blocks in groups.items()
             if len(blocks) > 1 and all(_adds(graph, ids) for ids in blocks.values())]  # fmt: skip
    complete = [c.path for c in every if len(c.passable) == len(c.blocks)]
    outer = [c for c in every if not any(_within(c.path, path) for path in complete)]
    return [c for c in outer if c.path in complete or not any(_within(o.path, c.path) for o in outer)]


def _within(path: str, other: str) -> bool:
    return path.startswith(f"{other}.")


def _path(node: Node) -> str:
    if node.call == "get_attr":
        return node.target.rpartition(".")[0]
    return node.target if node.call == "call_module" else node.module_path


def _indices(node: Node) -> Iterator[tuple[str, int]]:
    parts = _path(node).split(".")
    for i, part in enumerate(parts):
        if i and part.isdigit():
            yield ".".join(parts[:i]), int(part)


def _adds(graph: Graph, ids: list[str]) -> bool:
    return any(graph.nodes[i].op == "add" and len(_flowing(graph, graph.nodes[i])) == 2 for i in ids)


def _flowing(graph: Graph, node: Node) -> list[Ref]:
    """The computed floating-point inputs of a node."""
    return [r for r in dict.fromkeys(node.inputs)
            if graph.nodes[r.node].call != "get_attr" and floating(_meta(graph, r))]  # fmt: skip


def _meta(graph: Graph, ref: Ref) -> TensorMeta | None:
    return graph.nodes[ref.node].ports.get(out_port(ref.output))


class _Reader:
    """Reads one chain."""

    def __init__(self, graph: Graph, path: str, blocks: Mapping[int, list[str]]) -> None:
        self.graph, self.path, self.blocks = graph, path, blocks
        self.owner = {i: k for k, ids in blocks.items() for i in ids}
        self.users: dict[Ref, list[str]] = {}
        for ref, user in graph.edges():
            self.users.setdefault(ref, []).append(user)

    def read(self) -> Chain:
        results = {k: self._results(k) for k in self.blocks}
        return Chain(self.path, tuple(self._block(k, results) for k in self.blocks))

    def _results(self, number: int) -> list[Ref]:
        """Floating-point results of a block that are used outside it."""
        refs = (Ref(i, n) for i in self.blocks[number] for n in range(self.graph.nodes[i].outputs or 1))
        return [r for r in refs if floating(_meta(self.graph, r))
                and any(self.owner.get(u) != number for u in self.users.get(r, ()))]  # fmt: skip

    def _sources(self, number: int) -> list[Ref]:
        taken = (r for i in self.blocks[number] for r in _flowing(self.graph, self.graph.nodes[i]))
        return [r for r in dict.fromkeys(taken) if self.owner.get(r.node) != number]

    def _block(self, number: int, results: Mapping[int, list[Ref]]) -> Block:
        ids = tuple(self.blocks[number])
        pairs = [(s, r) for s in self._sources(number) for r in results[number]
                 if _meta(self.graph, s) == _meta(self.graph, r)]  # fmt: skip
        if len(pairs) > 1:
            pairs = self._of_chain(number, pairs)
        if len(pairs) != 1:
            why = "its result differs in shape from its input" if not pairs else "more than one tensor passes through"
            return Block(number, ids, why=why)
        source, result = pairs[0]
        return Block(number, ids, source, result, tuple(self._branches(source, result) or ()))

    def _of_chain(self, number: int, pairs: list[tuple[Ref, Ref]]) -> list[tuple[Ref, Ref]]:
        """The pairs between consecutive blocks: from the previous block, or used as the next block uses this one."""
        order = list(self.blocks)
        at = order.index(number)
        before = order[at - 1] if at else None
        near = [p for p in pairs if before is not None and self.owner.get(p[0].node) == before]
        if not near and len(order) > at + 1:
            wanted = self._entries(order[at + 1], number)
            near = [p for p in pairs if self._uses(number, p[0]) & wanted]
        later = [p for p in near or pairs if any(self.owner.get(u, number) != number or u not in self.owner
                                                 for u in self.users[p[1]])]  # fmt: skip
        return _last(later, self.graph)

    def _entries(self, number: int, before: int) -> set[str]:
        """The nodes (relative path and op) of a block that use results of the previous one."""
        given = [r for i in self.blocks[number] for r in _flowing(self.graph, self.graph.nodes[i])
                 if self.owner.get(r.node) == before and len((_meta(self.graph, r) or _NONE).shape) > 0]  # fmt: skip
        return {name for r in given for name in self._uses(number, r)}

    def _uses(self, number: int, ref: Ref) -> set[str]:
        inside = [self.graph.nodes[u] for u in self.users.get(ref, ()) if self.owner.get(u) == number]
        return {f"{_path(n).removeprefix(f'{self.path}.{number}')} {n.op}" for n in inside}

    # -- residual branches

    def _branches(self, source: Ref, result: Ref) -> list[str] | None:
        """The last layers of the branches added between source and result; None if there are other operations."""
        if result == source:
            return []
        node = self.graph.nodes[result.node]
        flowing = _flowing(self.graph, node)
        if node.op in _SAME and len(flowing) == 1:
            return self._branches(source, flowing[0])
        if node.op != "add" or len(flowing) != 2 or self.owner.get(node.id) is None or "alpha" in node.kwargs:
            return None
        for stream, added in (flowing, flowing[::-1]):
            rest, layers = self._branches(source, stream), endings(self.graph, added)
            if rest is not None and layers:
                return [*rest, *layers]
        return None


_NONE = TensorMeta((), "float32")


def _last(pairs: list[tuple[Ref, Ref]], graph: Graph) -> list[tuple[Ref, Ref]]:
    """Of pairs with one source, the one with the last result; all pairs if the sources differ."""
    if len({s for s, _ in pairs}) != 1:
        return pairs
    position = {name: i for i, name in enumerate(graph.nodes)}
    return [max(pairs, key=lambda p: position[p[1].node])]


def projection(graph: Graph, ref: Ref) -> str | None:
    """The layer whose result a tensor is, up to data movement."""
    node = graph.nodes[ref.node]
    while category(node) != "linear":
        flowing = _flowing(graph, node)
        if not (node.op in _SAME or spec(node.op).moves) or len(flowing) != 1:
            return None
        node = graph.nodes[flowing[0].node]
    return node.id


def endings(graph: Graph, ref: Ref) -> list[str]:
    """The layers whose result or sum a tensor is; empty otherwise."""
    layer = projection(graph, ref)
    if layer is not None:
        return [layer]
    node = graph.nodes[ref.node]
    parts = _flowing(graph, node)
    if node.op != "add" or len(parts) != 2 or len(node.inputs) != 2 or "alpha" in node.kwargs:
        return []
    each = [endings(graph, part) for part in parts]
    return [layer for layers in each for layer in layers] if all(each) else []


# -- edits


def bypassed(graph: Graph, replacements: Mapping[Ref, Ref]) -> Graph:
    """The graph with the tensors of `replacements` replaced, without unused nodes."""
    return without_unused(replace(graph, nodes=_rewired(graph, replacements)))


def _rewired(graph: Graph, replacements: Mapping[Ref, Ref]) -> dict[str, Node]:
    from espalier.model.graph.operands import refreshed

    def end(ref: Ref) -> Ref:
        while ref in replacements:
            ref = replacements[ref]
        return ref

    nodes: dict[str, Node] = {}
    for node in graph:
        touched = any(r in replacements for r in node.inputs)
        nodes[node.id] = refreshed(map_refs(node, end), nodes) if touched else node
    return nodes


def without_unused(graph: Graph) -> Graph:
    """The graph without the nodes that no result depends on, except for inputs."""
    used = graph.feeding(graph.output.id, *(n.id for n in graph.placeholders))
    nodes = {k: n for k, n in graph.nodes.items() if k in used}
    return replace(graph, nodes=nodes, weights=named_weights(nodes.values(), graph.weights))


def idle(graph: Graph, dead: Collection[str]) -> dict[Ref, Ref]:
    """Sum → remaining operand, if the layers `dead` return 0."""
    replacements: dict[Ref, Ref] = {}
    for node in graph:
        flowing = _flowing(graph, node)
        if node.op != "add" or len(flowing) != 2 or len(node.inputs) != 2 or "alpha" in node.kwargs:
            continue
        for other, added in (flowing, flowing[::-1]):
            layers = endings(graph, added)
            if layers and all(i in dead for i in layers) and _meta(graph, other) == node.out:
                replacements[Ref(node.id)] = other
                break
    return replacements
