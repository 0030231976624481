"""Removes units from a graph: tensors, masks and scales are sliced, modules and literal sizes rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node, Ref, named_weights, out_port
from espalier.model.graph.meta import Precision, Sparsity, TensorMeta, Weight
from espalier.model.graph.operands import refreshed
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import View, view_at
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.structure.axes import Axis, Dims, Kept, Shape, size
from espalier.passes.structure.flow import Cut
from espalier.passes.structure.masks import kept_elements, with_mask
from espalier.passes.structure.sets import Structure, stored


class Removal:
    """Removal of the units `gone`. `dropped`: (node, port) of scales that no longer fit."""

    def __init__(self, structure: Structure, gone: Mapping[Axis, Kept], store: WeightStore) -> None:
        self.graph, self.flow, self.store = structure.graph, structure.flow, store
        self.cut = Cut({axis: ~which for axis, which in gone.items()})
        self.weights: dict[str, Weight] = {}
        self.dropped: list[tuple[str, str]] = []

    def run(self) -> Graph:
        """The smaller graph."""
        self.weights = {k: self._weight(k, w) for k, w in self.graph.weights.items()}
        nodes: dict[str, Node] = {}
        for node in self.graph:
            nodes[node.id] = refreshed(self._node(node), nodes)
        return replace(self.graph, nodes=nodes, weights=named_weights(nodes.values(), self.weights))

    # -- tensors

    def _changes(self, dims: Dims) -> bool:
        return self.cut.size(dims) != size(dims)

    def _weight(self, name: str, weight: Weight) -> Weight:
        shape = self.flow.weights.get(name)
        if shape is None or not any(map(self._changes, shape)):
            return weight
        return self._sliced(weight, [self.cut.kept(d) for d in shape])

    def _sliced(self, weight: Weight, kept: list[Kept | None]) -> Weight:
        """A tensor with the kept elements of each dimension (None: all)."""
        sizes = tuple(n if k is None else int(k.sum()) for k, n in zip(kept, weight.shape, strict=True))
        key = weight.key
        if key is not None:
            stored = self.store.get(key)
            key = self.store.hold(Tensor(np.ascontiguousarray(_take(stored.array, kept)), stored.dtype))
        return replace(weight, key=key, shape=sizes)

    # -- nodes

    def _node(self, node: Node) -> Node:
        shapes = [self.flow.shapes[r] for r in node.inputs if r in self.flow.shapes]
        outs = [self.flow.shapes.get(Ref(node.id, i)) for i in range(node.outputs or 1)]
        own = {p: n for p, n in stored(node, self.graph).items() if n in self.flow.weights}
        every = [*shapes, *(s for s in outs if s is not None), *(self.flow.weights[n] for n in own.values())]
        if not any(self._changes(d) for shape in every for d in shape):
            return node
        rewrite = self.flow.rewrites.get(node.id)
        after = rewrite(self.cut, node) if rewrite else node
        after = replace(after, ports=self._ports(after, outs))
        after = self._masks(after, own)
        return self._adapters(self._scales(after, own))

    def _ports(self, node: Node, outs: list[Shape | None]) -> dict[str, TensorMeta]:
        ports = dict(node.ports)
        for number, shape in enumerate(outs):
            meta = ports.get(out_port(number))
            if meta is not None and shape is not None:
                now = (self.cut.size(d).dim if self._changes(d) else n for d, n in zip(shape, meta.shape, strict=True))
                ports[out_port(number)] = replace(meta, shape=tuple(now))
        for port, name in node.weights.items():
            if port in ports:
                ports[port] = replace(ports[port], shape=self.weights[name].shape)
        return ports

    def _masks(self, node: Node, own: Mapping[str, str]) -> Node:
        """Slice element masks like their tensors; a mask without zeros is removed."""
        for port, sparsity in list(node.sparsity.items()):
            name = own.get(port)
            if name is None or sparsity.mask is None:
                continue
            kept = kept_elements(node, port, self.graph.weights[name].shape, self.store)
            assert kept is not None
            left = _take(kept, [self.cut.kept(d) for d in self.flow.weights[name]])
            node = with_mask(node, port, left, _as_element(sparsity), self.store)
        return node

    # -- scales and adapters

    def _scales(self, node: Node, own: Mapping[str, str]) -> Node:
        """Slice scales of formats along their rows; scales that do not fit are removed for the format's own."""
        precision: dict[str, Precision] = {}
        for port, chosen in node.precision.items():
            precision[port] = self._scaled(node, port, chosen, own.get(port)) if chosen.scale else chosen
        return replace(node, precision=precision) if precision != node.precision else node

    def _scaled(self, node: Node, port: str, chosen: Precision, name: str | None) -> Precision:
        assert chosen.scale is not None and isinstance(chosen.format, ScaledFormat)
        weight, old = self.weights[chosen.scale], self.graph.weights[chosen.scale]
        if not old.shape or old.elements == 1:
            return chosen
        before = self.graph.nodes[node.id]
        if name is not None and port in node.ports:
            view, now = view_at(node, port), self.weights[name].shape
            wanted = chosen.format.scale_shape(view.shape(now) if view else now)
            if weight.shape == wanted:
                return chosen
            rows = self._rows(name, view_at(before, port))[: len(old.shape) - 1]
            if tuple(len(r) for r in rows) == old.shape[:-1]:
                cut = self._sliced(old, [*rows, None])
                if cut.shape == wanted:
                    self.weights[chosen.scale] = cut
                    return chosen
        self.dropped.append((node.id, port))
        return replace(chosen, scale=None)

    def _rows(self, name: str, view: View | None) -> list[Kept]:
        """Kept elements of each axis of a weight in its format's view; groups are removed as a whole."""
        kept = [self.cut.kept(d) for d in self.flow.weights[name]]
        if view is None:
            return kept
        turned = [kept[i] for i in view.order]
        if view.groups > 1:
            whole: Kept = np.any(kept[0].reshape(view.groups, -1), axis=1)
            turned[0] = np.logical_and.outer(whole, turned[0]).reshape(-1)
        return turned

    def _adapters(self, node: Node) -> Node:
        """Slice A's inputs and B's outputs like the weight's."""
        for adapter in node.adapters.values():
            name = weight_at(node, "weight", self.graph) if not node.weights else node.weights.get("weight")
            if name is None:
                continue
            turned = node.op == "embedding" or node.attrs.get("class") == "Conv1D"
            ins, outs = (0, 1) if turned else (1, 0)
            dims = self.flow.weights[name]
            for part, axis, kept in ((adapter.a, 1, dims[ins]), (adapter.b, 0, dims[outs])):
                old = self.graph.weights[part]
                if self._changes(kept):
                    every: list[Kept | None] = [None] * len(old.shape)
                    every[axis] = self.cut.kept(kept)
                    self.weights[part] = self._sliced(old, every)
        return node


def _take(array: NDArray[Any], kept: list[Kept | None] | list[Kept]) -> NDArray[Any]:
    for axis, which in enumerate(kept):
        if which is not None and not which.all():
            array = np.compress(which, array, axis=axis)
    return array


def _as_element(sparsity: Sparsity) -> Sparsity:
    """An n:m or block mask as an element mask, since its groups no longer align."""
    return replace(sparsity, pattern="element", size=(1, 1)) if sparsity.pattern in ("n:m", "block") else sparsity
