"""Checks that tensors stored by a pass have the declared shape and dtype, on which scores and exports rely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weights_of
from espalier.model.store.weights import WeightStore


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A tensor of another shape or dtype than declared. `tensor`: its name, with its node if known."""

    node: str | None
    tensor: str
    declared: str
    stored: str


def undeclared(after: Graph, before: Graph, store: WeightStore) -> Undeclared | None:
    """The first new weight or mask of `after` that is not as declared, without reading its values."""
    return next(_undeclared(after, before, store), None)


def _undeclared(after: Graph, before: Graph, store: WeightStore) -> Iterator[Undeclared]:
    for name, weight in after.weights.items() if after.weights is not before.weights else ():
        old = before.weights.get(name)
        if weight is old or weight.key is None:
            continue
        declared, stored = (weight.dtype, weight.shape), store.kind(weight.key)
        if stored is not None and stored != declared:
            node = _reader(after, name)
            yield Undeclared(node, f"{name} of {node}" if node else name, _text(*declared), _text(*stored))
    for node in after:
        old_node = before.nodes.get(node.id)
        for port, sparsity in node.sparsity.items():
            if sparsity.mask is None or (old_node is not None and old_node.sparsity.get(port) == sparsity):
                continue
            count = -(-node.ports[port].elements(after.symbols) // 8)
            stored = store.kind(sparsity.mask)
            if stored is not None and stored != ("uint8", (count,)):
                yield Undeclared(node.id, f"the mask of {node.id}.{port}", _text("uint8", (count,)), _text(*stored))


def _reader(graph: Graph, name: str) -> str | None:
    """The first node that reads a weight as a tensor, a scale or an adapter matrix."""
    for node in graph:
        scales = {p.scale for p in node.precision.values()}
        if name in scales or name in {n for _, n in weights_of(node, graph)}:
            return node.id
    return None


def _text(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} [{', '.join(map(str, shape))}]"
