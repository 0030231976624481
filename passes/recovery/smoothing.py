"""Scales that move outliers of activations into weights, and the changed tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta, Weight
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.leaf_builder import effective
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.passes.base import Context, Row
from espalier.passes.recovery.groups import Group
from espalier.passes.recovery.layers import Layer, matrix_of, plain, weight_of
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.observing import observe

if TYPE_CHECKING:
    from espalier.model.data.base import Split

_ROWS = 1024  # input vectors per group for measuring the error of its formats
_MIN_SCALE = 1e-5  # as in the paper's code


@dataclass(slots=True)
class GroupInput:
    """Statistics of a group's input: `top` [channels] largest magnitudes, and a sample of its `rows`."""

    top: Tensor | None = None
    rows: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """Add a batch [..., channels]."""
        rows = x.detach().reshape(-1, x.shape[-1]).float()
        top = rows.abs().amax(0)
        self.top = top if self.top is None else torch.maximum(self.top, top)
        count = 0 if self.rows is None else len(self.rows)
        part = rows[: max(0, _ROWS - count)].clone()
        self.rows = part if self.rows is None else torch.cat([self.rows, part])


def observed(graph: Graph, groups: list[Group], split: Split, batch_size: int, context: Context) -> list[GroupInput]:
    """Statistics of each group's input in the float model."""
    inputs = {g.consumers[0].id: GroupInput() for g in groups}
    ports = {i: ("data_in",) for i in inputs}
    observe(plain(graph), split, batch_size, ports, lambda node, _, x: inputs[node].add(x), context)
    return [inputs[g.consumers[0].id] for g in groups]


class Smoothing:
    """Smooths groups one by one; `graph` is the result so far."""

    def __init__(self, graph: Graph, alpha: float, store: WeightStore) -> None:
        self.graph, self.alpha, self.store = graph, alpha, store
        self.rows: list[Row] = []

    def smooth(self, group: Group, inputs: GroupInput) -> None:
        """Divide the group's input by s_j = max|X_j|^α / max|W_j|^(1−α), and multiply its weights by s_j."""
        assert inputs.top is not None and inputs.rows is not None
        weights = [self._matrix(x) for x in group.layers]
        top = torch.stack([w.abs().amax(0) for w in weights]).amax(0)
        scale = (inputs.top**self.alpha / top ** (1 - self.alpha)).clamp(min=_MIN_SCALE)
        scale = torch.where((inputs.top > 0) & (top > 0) & scale.isfinite(), scale, 1.0)
        errors = [self._errors(x, inputs.rows, w, scale) for x, w in zip(group.layers, weights, strict=True)]
        for layer in group.layers:
            self._multiply(layer.name, scale, 0 if layer.transposed else 1)
        for name, axis in group.producers:
            self._multiply(name, 1 / scale, axis)
        if not group.producers:
            self._insert(group, 1 / scale)
        for layer, (before, after) in zip(group.layers, errors, strict=True):
            self.rows.append({
                "node": layer.nodes[0].id, "source": group.source.node, "folded": bool(group.producers),
                "outliers_before": _outliers(inputs.top), "outliers": _outliers(inputs.top / scale),
                "scale_min": float(scale.min()), "scale_max": float(scale.max()),
                "error_before": before, "error": after,
            })  # fmt: skip

    def _matrix(self, layer: Layer) -> Tensor:
        """[outputs, inputs] the masked weight."""
        weight = matrix_of(layer, self._tensor(layer.name))
        mask = effective(layer.nodes[0], "weight", self.graph, self.store).mask
        return weight if mask is None else weight * matrix_of(layer, mask)

    def _tensor(self, name: str) -> Tensor:
        return to_torch(self.store.get(self.graph.weights[name].key or ""))

    def _multiply(self, name: str, scale: Tensor, axis: int) -> None:
        old = self._tensor(name)
        shape = [len(scale) if i == axis else 1 for i in range(old.dim())]
        self._hold(name, (old.float() * scale.reshape(shape)).to(old.dtype), self.graph.weights[name])

    def _hold(self, name: str, value: Tensor, like: Weight) -> None:
        self.graph = self.graph.with_weights({name: replace(like, key=self.store.hold(to_numpy(value)))})

    def _errors(self, layer: Layer, x: Tensor, weight: Tensor, scale: Tensor) -> tuple[float | None, float | None]:
        """‖Y − Ŷ‖²/‖Y‖² with the formats of data_in and weight, before and after scaling; None without formats."""
        node = layer.nodes[0]
        formats = {p: node.precision[p].format for p in ("data_in", "weight") if p in node.precision}
        exact = x @ weight.T
        power = float(exact.square().sum())
        if not formats or not power:
            return None, None

        def error(x: Tensor, w: Tensor) -> float:
            x = formats["data_in"].forward(x) if "data_in" in formats else x
            stored = weight_of(layer, w, w.T if layer.transposed else w)
            w = matrix_of(layer, formats["weight"].forward(stored)) if "weight" in formats else w
            return float((x @ w.T - exact).square().sum()) / power

        return error(x, weight), error(x / scale, weight * scale)

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


def _outliers(top: Tensor) -> float | None:
    """The largest channel magnitude over the median one."""
    middle = float(top.median())
    return float(top.max()) / middle if middle else None


def difference(before: Graph, after: Graph, split: Split, batch_size: int, context: Context) -> float:
    """The largest float difference of the first result on one batch, relative to its largest magnitude."""
    inputs, _ = next(batches(split, before, batch_size))
    results: list[Tensor] = []
    for graph in (before, after):
        with torch.no_grad(), fit_error(inputs):
            result: Any = build(plain(graph), context.store, context.callables)(**inputs)
        while not isinstance(result, Tensor):
            result = next(iter(result.values() if isinstance(result, dict) else result))
        results.append(result.float())
    return float((results[0] - results[1]).abs().max()) / max(float(results[0].abs().max()), 1e-30)
