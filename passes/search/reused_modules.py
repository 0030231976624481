"""A graph wired for one run after another: leaves with their quantised weights are kept between trials.

Each part is named by its content (formats, masks, keys of tensors), so that equal parts of two graphs are known.
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
from espalier.model.torch.build import Builder, leaf_key, load
from espalier.model.torch.emulation import Emulated
from espalier.model.torch.layers import Effective, Switch

MOST = 1 << 28  # bytes of leaves that are kept


@dataclass(slots=True)
class Parts:
    """What graphs share: tensors by weight, leaves by content, those used last at the end."""

    tensors: dict[str, tuple[Weight, Tensor]] = field(default_factory=dict[str, tuple[Weight, Tensor]])
    leaves: OrderedDict[Hashable, tuple[nn.Module, int]] = field(
        default_factory=OrderedDict[Hashable, "tuple[nn.Module, int]"]
    )

    def keep(self, name: Hashable, leaf: nn.Module, size: int) -> None:
        """Remember a leaf; the oldest go where there are too many."""
        self.leaves[name] = leaf, size
        total = sum(held for _, held in self.leaves.values())
        while total > MOST:
            total -= self.leaves.popitem(last=False)[1][1]


class Wired(Builder):
    """`parts`: what the nodes of `fx` call or read, by path; `names`: what each is, by content."""

    def __init__(self, graph: Graph, store: WeightStore, callables: Mapping[str, Any], kept: Parts) -> None:
        self.kept = kept
        self.parts: dict[str, Any] = {}
        self.names: dict[str, Hashable] = {}
        super().__init__(graph, store, callables)
        self.wire()
        self.nodes: list[fx.Node] = list(self.fx.nodes)

    def loaded(self) -> dict[str, Tensor]:
        """The graph's weights, those of the graph before where they are the same."""
        held, read = self.kept.tensors, self.store.reader()
        for name, weight in self.graph.weights.items():
            if name not in held or held[name][0] != weight:
                held[name] = weight, load(weight, read)
        self.kept.tensors = {n: held[n] for n in self.graph.weights}
        return {n: tensor for n, (_, tensor) in self.kept.tensors.items()}

    def _attach(self, path: str, value: nn.Module | Tensor) -> None:
        self.parts[path] = value.eval() if isinstance(value, nn.Module) else value
        if isinstance(value, Switch) and not isinstance(value.evaluation, fx.Node):
            self.names[path] = "switch", repr(value.evaluation)
        if isinstance(value, Emulated):
            self.names[path] = "emulated", value.emulation.content
        self.names.setdefault(path, (object(),))  # what nothing is known of is like nothing else

    def _attach_leaf(self, node: Node) -> None:
        key = leaf_key(node)
        if key in self.leaves:
            return
        name = node.op, key, repr(node.attrs), self._contents(node)
        path = self.leaves[key] = f"{len(self.leaves)} {node.target}"
        random = any(p.format.stochastic for p in node.precision.values())
        if not random and (held := self.kept.leaves.get(name)):
            self.kept.leaves.move_to_end(name)
            self.parts[path] = held[0]
        else:
            self._attach(path, leaf := self._leaf(node, path))
            if not random:
                self.kept.keep(name, leaf, sum(self.tensors[n].nbytes for n in node.tensors))
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

    def _free_for(self, node: Node, value: Tensor) -> str:
        name = node.weights["value"]
        path = f"value {name}"
        self.names[path] = "value", self.graph.weights[name]
        return path
