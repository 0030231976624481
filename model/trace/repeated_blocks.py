"""Traces a stack of identical blocks of a model without weights by its first few, and replicates their nodes.

An 80-layer model then opens in about the time of four layers. Blocks are replicated only if proven equal.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import cast

from torch import nn

from espalier.model.graph.graph import Graph, Node, Ref, map_refs
from espalier.model.graph.meta import Weight

CAPTURED_BLOCKS = 4
_OWN_NUMBER = ("layer_idx", "layer_index", "layer_id", "training")


@dataclass(frozen=True, slots=True)
class BlockStack:
    """A ModuleList of identical blocks at `path`."""

    path: str
    blocks: tuple[nn.Module, ...]


def find_block_stack(model: nn.Module) -> BlockStack | None:
    """The longest ModuleList of at least eight identical blocks in a model on the meta device."""
    if not all(p.is_meta for p in model.parameters()):
        return None
    lists = [(n, tuple(m.children())) for n, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    alike = [
        BlockStack(n, b) for n, b in lists if len(b) >= 2 * CAPTURED_BLOCKS and len({_describe(x) for x in b}) == 1
    ]
    return max(alike, key=lambda s: len(s.blocks), default=None)


def _describe(block: nn.Module) -> str:
    """Everything about a block that its forward could depend on, without its index."""
    parts: list[object] = []
    for name, module in block.named_modules():
        plain = {k: v for k, v in vars(module).items() if isinstance(v, int | float | str | bool | tuple | type(None))}
        parts.append((name, type(module), sorted((k, str(v)) for k, v in plain.items() if k not in _OWN_NUMBER)))
        parts.append([(n, tuple(p.shape), str(p.dtype)) for n, p in module.named_parameters(recurse=False)])
        parts.append([(n, tuple(p.shape), str(p.dtype)) for n, p in module.named_buffers(recurse=False)])
    return repr(parts)


@contextlib.contextmanager
def truncated(model: nn.Module, stack: BlockStack) -> Generator[None]:
    """Truncate `stack` to its first few blocks within the context."""
    blocks = cast("nn.ModuleList", model.get_submodule(stack.path))
    del blocks[CAPTURED_BLOCKS:]
    try:
        yield
    finally:
        blocks.extend(stack.blocks[CAPTURED_BLOCKS:])


def replicate(graph: Graph, stack: BlockStack) -> Graph | None:
    """The full model's graph from that of the truncated model; None if the captured blocks differ."""
    layers = [_nodes_of(graph, f"{stack.path}.{i}") for i in range(CAPTURED_BLOCKS)]
    for i in (1, 2):
        if not _alike(graph, layers, i, stack.path):
            return None
    return _Replicator(graph, layers, stack).graph() if _leaves_by_the_end(graph, layers) else None


def _nodes_of(graph: Graph, path: str) -> list[Node]:
    return [n for n in graph if n.module_path == path or n.module_path.startswith(path + ".")]


def _leaves_by_the_end(graph: Graph, layers: list[list[Node]]) -> bool:
    """Whether only the last block's values are used outside the stack."""
    early = {n.id for layer in layers[:-1] for n in layer}
    inside = early | {n.id for n in layers[-1]}
    return not any(r.node in early for n in graph if n.id not in inside for r in n.inputs)


def _alike(graph: Graph, layers: list[list[Node]], i: int, path: str) -> bool:
    """Whether block i + 1 equals block i with its index incremented, and reads only its predecessor and the outside."""
    if len(layers[i]) != len(layers[i + 1]):
        return False
    names = _pairs(layers[i - 1], layers[i]) | _pairs(layers[i], layers[i + 1])
    moved = [_raise(n, names, f"{path}.{i}", f"{path}.{i + 1}") for n in layers[i]]
    return moved == layers[i + 1]


def _pairs(before: list[Node], after: list[Node]) -> dict[str, str]:
    return {a.id: b.id for a, b in zip(before, after, strict=False)}


def _raise(node: Node, names: dict[str, str], old: str, new: str) -> Node:
    """`node` of block `old`, moved to block `new`."""
    moved = map_refs(node, lambda r: Ref(names.get(r.node, r.node), r.output))
    return replace(
        moved,
        id=names[node.id],
        target=_path(node.target, old, new),
        module_path=_path(node.module_path, old, new),
        weights={p: _path(w, old, new) for p, w in node.weights.items()},
    )


def _path(text: str, old: str, new: str) -> str:
    return new + text[len(old) :] if text == old or text.startswith(old + ".") else text


class _Replicator:
    def __init__(self, graph: Graph, layers: list[list[Node]], stack: BlockStack) -> None:
        self._graph, self._layers, self._path = graph, layers, stack.path
        self._count = len(stack.blocks)
        self._taken = set(graph.nodes)
        self._weights: dict[str, Weight] = {}

    def graph(self) -> Graph:
        last = self._layers[-1]
        copies, names = self._replicate_all()
        nodes: dict[str, Node] = {}
        inside = {n.id for layer in self._layers for n in layer}
        swap = {a.id: b for a, b in zip(last, names, strict=True)}
        for node in self._graph:
            unchanged = node.id in inside
            nodes[node.id] = node if unchanged else map_refs(node, lambda r: Ref(swap.get(r.node, r.node), r.output))
            if node.id == last[-1].id:
                nodes.update((n.id, n) for n in copies)
        return replace(self._graph, nodes=nodes, weights={**self._graph.weights, **self._weights})

    def _replicate_all(self) -> tuple[list[Node], list[str]]:
        """(nodes of all further blocks, ids of the last block's nodes)."""
        first, second = self._layers[-2], self._layers[-1]
        old, copies, before = f"{self._path}.{CAPTURED_BLOCKS - 1}", [], [n.id for n in second]
        for i in range(CAPTURED_BLOCKS, self._count):
            new = f"{self._path}.{i}"
            ids = [self._unique(n, old, new) for n in second]
            names = dict(zip((n.id for n in first), before, strict=True))
            names |= dict(zip((n.id for n in second), ids, strict=True))
            copies += [_raise(n, names, old, new) for n in second]
            self._add_weights(second, old, new)
            before = ids
        return copies, before

    def _add_weights(self, layer: list[Node], old: str, new: str) -> None:
        for node in layer:
            for name in node.weights.values():
                self._weights[_path(name, old, new)] = self._graph.weights[name]

    def _unique(self, node: Node, old: str, new: str) -> str:
        moved = _path(node.target, old, new)
        stem = re.sub(r"_\d+$", "", node.id)
        name = moved.replace(".", "_") if moved != node.target else stem
        number = 1
        while name in self._taken:
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name)
        return name
