"""A graph whose leaves, with their quantised weights, are reused between trials.

Each part is named by its content (formats, masks, keys of tensors), so that equal parts of two graphs are recognised.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, fx, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import choice
from espalier.model.graph.views import view_at
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import GraphBuilder
from espalier.model.torch.emulation import Emulated
from espalier.model.torch.layers import Effective, Switch
from espalier.model.torch.leaf_builder import leaf_key, load

MAX_BYTES = 1 << 28  # of cached leaves


@dataclass(slots=True)
class Parts:
    """A cache for successive graphs: tensors by weight, leaves by content, the most recently used last."""

    tensors: dict[str, tuple[Weight, Tensor]] = field(default_factory=dict[str, tuple[Weight, Tensor]])
    leaves: OrderedDict[Hashable, tuple[nn.Module, int]] = field(
        default_factory=OrderedDict[Hashable, "tuple[nn.Module, int]"]
    )

    def keep(self, name: Hashable, leaf: nn.Module, size: int) -> None:
        """Cache a leaf of `size` bytes, and evict the least recently used."""
        self.leaves[name] = leaf, size
        total = sum(nbytes for _, nbytes in self.leaves.values())
        while total > MAX_BYTES:
            total -= self.leaves.popitem(last=False)[1][1]


class Wired(GraphBuilder):
    """`parts`: modules and tensors by path, as the nodes of `fx` use them; `names`: content of each, by path."""

    def __init__(self, graph: Graph, store: WeightStore, callables: Mapping[str, Any], cache: Parts) -> None:
        self.cache = cache
        self.parts: dict[str, Any] = {}
        self.names: dict[str, Hashable] = {}
        super().__init__(graph, store, callables)
        self.wire()
        self.nodes: list[fx.Node] = list(self.fx.nodes)

    def loaded(self) -> dict[str, Tensor]:
        """The graph's weights; those equal to the previous graph's are reused."""
        tensors, read = self.cache.tensors, self.store.reader()
        for name, weight in self.graph.weights.items():
            if name not in tensors or tensors[name][0] != weight:
                tensors[name] = weight, load(weight, read)
        self.cache.tensors = {n: tensors[n] for n in self.graph.weights}
        return {n: tensor for n, (_, tensor) in self.cache.tensors.items()}

    def _attach(self, path: str, value: nn.Module | Tensor) -> None:
        self.parts[path] = value.eval() if isinstance(value, nn.Module) else value
        if isinstance(value, Switch) and not isinstance(value.evaluation, fx.Node):
            self.names[path] = "switch", repr(value.evaluation)
        if isinstance(value, Emulated):
            self.names[path] = "emulated", value.emulation.content
        self.names.setdefault(path, (object(),))  # equal to nothing else

    def _attach_leaf(self, node: Node) -> None:
        key = leaf_key(node)
        if key in self.leaves:
            return
        name = node.op, key, repr(node.attrs), self._contents(node)
        path = self.leaves[key] = f"{len(self.leaves)} {node.target}"
        random = any(p.format.stochastic for p in node.precision.values())
        if not random and (cached := self.cache.leaves.get(name)):
            self.cache.leaves.move_to_end(name)
            self.parts[path] = cached[0]
        else:
            self._attach(path, leaf := self._leaf(node, path))
            if not random:
                self.cache.keep(name, leaf, sum(self.tensors[n].nbytes for n in node.tensors))
        self.names[path] = (object(),) if random else name

    def _effective(self, node: Node, port: str, path: str) -> Effective:
        chosen, pruned = choice(node, port), node.sparsity.get(port)
        if not (chosen and chosen.format.stochastic):
            meta = node.ports.get(port)
            scale = self.graph.weights[chosen.scale].key if chosen and chosen.scale else None
            self.names[path] = "effective", chosen, pruned, meta and view_at(node, port), meta and meta.shape, scale
        return super()._effective(node, port, path)

    def _contents(self, node: Node) -> tuple[str | None, ...]:
        return tuple(self.graph.weights[n].key for n in node.tensors)

    def _value_path(self, node: Node, value: Tensor) -> str:
        name = node.weights["value"]
        path = f"value {name}"
        self.names[path] = "value", self.graph.weights[name]
        return path
