"""Scales of channels between a tensor and the Linears that read it: the float function stays, the weights change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta, Weight
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.leaf_builder import effective
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.passes.base import Context
from espalier.passes.recovery.groups import Group
from espalier.passes.recovery.layers import Layer, matrix_of, plain
from espalier.passes.running.batches import batches, fit_error

if TYPE_CHECKING:
    from espalier.model.data.base import Split


class ChannelScales:
    """Divides the inputs of groups by scales, and multiplies their weights; `graph` is the result so far."""

    def __init__(self, graph: Graph, store: WeightStore) -> None:
        self.graph, self.store = graph, store

    def apply(self, group: Group, scale: Tensor) -> None:
        """Divide the group's input by `scale` [channels], in its producer or by an inserted node."""
        for layer in group.layers:
            self._multiply(layer.name, scale, 0 if layer.transposed else 1)
        for name, axis in group.producers:
            self._multiply(name, 1 / scale, axis)
        if not group.producers:
            self._insert(group, 1 / scale)

    def matrix(self, layer: Layer) -> Tensor:
        """[outputs, inputs] the masked weight, float32."""
        weight = matrix_of(layer, self.tensor(layer.name))
        mask = effective(layer.nodes[0], "weight", self.graph, self.store).mask
        return weight if mask is None else weight * matrix_of(layer, mask)

    def tensor(self, name: str) -> Tensor:
        """A stored tensor by name."""
        return to_torch(self.store.get(self.graph.weights[name].key or ""))

    def _multiply(self, name: str, scale: Tensor, axis: int) -> None:
        old = self.tensor(name)
        shape = [len(scale) if i == axis else 1 for i in range(old.dim())]
        self._hold(name, (old.float() * scale.reshape(shape)).to(old.dtype), self.graph.weights[name])

    def _hold(self, name: str, value: Tensor, like: Weight) -> None:
        self.graph = self.graph.with_weights({name: replace(like, key=self.store.hold(to_numpy(value)))})

    def _insert(self, group: Group, factor: Tensor) -> None:
        """Insert a multiplication between the source and the group."""
        source, first = self.graph.nodes[group.source.node], _first(group, self.graph)
        meta: Any = first.ports["data_in"]
        name = _free(f"{source.id}_smooth", self.graph)
        value = factor.to(getattr(torch, meta.dtype))
        weight = Weight(None, tuple(value.shape), meta.dtype, "buffer", False)
        self._hold(f"{name}_scale", value, weight)
        factor_meta = TensorMeta(tuple(value.shape), meta.dtype)
        path = first.module_path.rpartition(".")[0] if first.call == "call_module" else first.module_path
        stored = Node(f"{name}_scale", "get_attr", "get_attr", f"{name}_scale", ports={"data_out": factor_meta},
                      weights={"value": f"{name}_scale"}, module_path=path)  # fmt: skip
        product = Node(name, "mul", "call_function", "aten.mul.Tensor", (group.source, Ref(stored.id)),
                       ports={"data_in": meta, "data_in_1": factor_meta, "data_out": meta},
                       module_path=path)  # fmt: skip
        self.graph = self.graph.insert(stored, first.id).insert(product, first.id)
        consumers = (self.graph.nodes[n.id] for n in group.consumers)
        self.graph = self.graph.replace(*(replace(n, args=(Ref(name), *n.args[1:])) for n in consumers))


def _first(group: Group, graph: Graph) -> Node:
    """The first consumer in the graph's order."""
    ids = {n.id for n in group.consumers}
    return next(n for n in graph if n.id in ids)


def _free(wish: str, graph: Graph) -> str:
    """A name that no node or weight has."""
    name, count = wish, 0
    while {name, f"{name}_scale"} & (graph.nodes.keys() | graph.weights.keys()):
        count += 1
        name = f"{wish}_{count}"
    return name


def difference(before: Graph, after: Graph, split: Split, batch_size: int, context: Context) -> float:
    """The largest float difference of the first result on one batch, relative to its largest magnitude."""
    inputs, _ = next(batches(split, before, batch_size))
    return difference_on(before, after, dict(inputs), context)


def difference_on(before: Graph, after: Graph, inputs: dict[str, Tensor], context: Context) -> float:
    """`difference` on given inputs by name."""
    results: list[Tensor] = []
    for graph in (before, after):
        with torch.no_grad(), fit_error(inputs, graph):
            result: Any = build(plain(graph), context.store, context.callables)(**inputs)
        while not isinstance(result, Tensor):
            result = next(iter(result.values() if isinstance(result, dict) else result))
        results.append(result.float())
    return float((results[0] - results[1]).abs().max()) / max(float(results[0].abs().max()), 1e-30)
