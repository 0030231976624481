"""Whether the tensors that a pass stores are what the graph declares: scores and exports trust the declaration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weights_of
from espalier.model.store.weights import WeightStore


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A tensor of another shape or dtype than the graph says. `tensor`: its name, with its node's where known."""

    node: str | None
    tensor: str
    declared: str
    stored: str


def undeclared(after: Graph, before: Graph, store: WeightStore) -> Undeclared | None:
    """The first new tensor of `after`, a weight or a mask, that is not as declared; nothing of it is read."""
    return next(_wrong(after, before, store), None)


def _wrong(after: Graph, before: Graph, store: WeightStore) -> Iterator[Undeclared]:
    for name, weight in after.weights.items() if after.weights is not before.weights else ():
        old = before.weights.get(name)
        if weight is old or weight.key is None:
            continue
        declared, stored = (weight.dtype, weight.shape), store.kind(weight.key)
        if stored is not None and stored != declared:
            node = _reader(after, name)
            yield Undeclared(node, f"{name} of {node}" if node else name, _shown(*declared), _shown(*stored))
    for node in after:
        old_node = before.nodes.get(node.id)
        for port, sparsity in node.sparsity.items():
            if sparsity.mask is None or (old_node is not None and old_node.sparsity.get(port) == sparsity):
                continue
            count = -(-node.ports[port].elements(after.symbols) // 8)
            stored = store.kind(sparsity.mask)
            if stored is not None and stored != ("uint8", (count,)):
                yield Undeclared(node.id, f"the mask of {node.id}.{port}", _shown("uint8", (count,)), _shown(*stored))


def _reader(graph: Graph, name: str) -> str | None:
    """The first node that reads a weight, as its own tensor, as a scale or in an adapter."""
    for node in graph:
        scales = {p.scale for p in node.precision.values()}
        if name in scales or name in {n for _, n in weights_of(node, graph)}:
            return node.id
    return None


def _shown(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} [{', '.join(map(str, shape))}]"
