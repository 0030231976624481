"""Builds the leaf modules of a graph over its weights: formats, masks, adapters and packed weights included."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from espalier.model.errors import GraphError
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.adapters import PORT as ADAPTED
from espalier.model.graph.caches import waits_for_scale
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import choice
from espalier.model.graph.views import view_at
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore
from espalier.model.torch.activation_masks import ActivationMask
from espalier.model.torch.layers import Compressed, Effective, unpack_mask
from espalier.model.torch.leaves import make
from espalier.model.torch.low_rank import Adapted, LowRank
from espalier.model.torch.mx_weights import MXLinear, why_unpacked
from espalier.model.torch.mx_weights import packed as codes_of
from espalier.model.torch.tensors import to_torch

Callables = Mapping[str, Callable[..., Any]]


def load(weight: Weight, read: Callable[[str], Stored]) -> Tensor:
    """A weight as a torch tensor; raises GraphError if the model was opened without weights."""
    if weight.key is None:
        raise GraphError("The model was opened without weights, so it cannot run.", "Open it with weights.")
    value = to_torch(read(weight.key))
    return nn.Parameter(value, requires_grad=weight.trainable) if weight.role == "parameter" else value


def effective(node: Node, port: str, graph: Graph, store: WeightStore, scale: Tensor | None = None) -> Effective:
    """The module that a port's tensor passes through: its mask, then its format in the view of the op.

    `scale`: the tensor of the port's stored scale; read from the store if None.
    """
    chosen, sparsity = choice(node, port), node.sparsity.get(port)
    mask = None
    if sparsity and sparsity.mask is not None:
        mask = unpack_mask(to_torch(store.get(sparsity.mask)), node.ports[port].sizes(graph.symbols))
    rule = ActivationMask(sparsity) if sparsity and sparsity.flows else None
    if chosen is None:
        return Effective(None, mask, rule=rule)
    if waits_for_scale(node):
        text = (
            f"The scale of {node.id} ({chosen.label}) is taken over several tokens, so that one would see later ones."
        )
        raise GraphError(text, "Add calibrate with data after it, or choose another format for the cache.", node.id)
    view = view_at(node, port) if port in node.ports else None
    if scale is None and chosen.scale is not None:
        scale = load(graph.weights[chosen.scale], store.get)
    return Effective(chosen.format, mask, view, scale, chosen.gradient == "identity", rule)


def leaf_key(node: Node) -> tuple[Any, ...]:
    """Equal for calls that can share one leaf: the same module with the same formats, masks and adapters."""
    chosen = ((p, c) for p, c in node.precision.items() if p in ("weight", "bias"))
    formats = sorted((p, str(c.format), c.gradient, c.scale or "") for p, c in chosen)
    masks = sorted((p, str(s.mask)) for p, s in node.sparsity.items())
    return node.target, tuple(formats), tuple(masks), tuple(sorted(node.adapters.items())), node.packed


def alters_input(node: Node) -> bool:
    """Whether a module's input is pruned or has a format."""
    return "data_in" in node.precision or "data_in" in node.sparsity


def attribute_at(module: nn.Module, path: str) -> Any:
    """The attribute of a submodule at a dotted path; raises AttributeError."""
    parent, _, name = path.rpartition(".")
    return getattr(module.get_submodule(parent), name)


class LeafBuilder:
    """Leaf modules under `root` by path. `paths`: weight name → path of its tensor; `leaves`: leaf key → path.

    `packs`: whether weights of packed nodes are stored as codes.
    """

    packs = False

    def __init__(self, graph: Graph, store: WeightStore, callables: Callables) -> None:
        self.graph, self.store, self.callables = graph, store, callables
        self.root = nn.Module()
        self.tensors = self.loaded()
        self.leaves: dict[tuple[Any, ...], str] = {}
        self.paths: dict[str, str] = {}

    def loaded(self) -> dict[str, Tensor]:
        """The graph's weights by name."""
        read = self.store.reader()
        return {name: load(weight, read) for name, weight in self.graph.weights.items()}

    # -- paths

    def _attach(self, path: str, value: nn.Module | Tensor) -> None:
        *parents, name = path.split(".")
        parent = self.root
        for part in parents:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
        if not isinstance(parent, nn.Module) or not isinstance(getattr(parent, name, value), nn.Module | Tensor):
            raise GraphError(f"{path!r} is not a valid name of a module or tensor.", "Open the source again.")
        if hasattr(parent, name):
            return
        if isinstance(value, nn.Module):
            parent.add_module(name, value)
        elif isinstance(value, nn.Parameter):
            parent.register_parameter(name, value)
        else:
            parent.register_buffer(name, value)

    def _attach_leaf(self, node: Node) -> None:
        key = leaf_key(node)
        if key not in self.leaves:
            self.leaves[key] = self._unused_path(node.target)
            self._attach(self.leaves[key], self._leaf(node, self.leaves[key]))

    def _unused_path(self, target: str) -> str:
        """A path that no other leaf has, as calls of one module may have different formats."""
        targets = {n.target for n in self.graph}
        names = itertools.chain([target], (f"{target}_{i}" for i in itertools.count(1)))
        return next(
            n
            for n in names
            if n not in self.leaves.values() and (n == target or not any(f"{t}.".startswith(f"{n}.") for t in targets))
        )

    def _value_path(self, node: Node, value: Tensor) -> str:
        """The path from which a get_attr node reads its tensor; another one if a module has the node's own."""
        try:
            return node.target if attribute_at(self.root, node.target) is value else f"values.{node.id}"
        except AttributeError:
            return node.target

    # -- leaves

    def _leaf(self, node: Node, path: str) -> nn.Module:
        if ADAPTED in node.adapters:
            return Adapted(self._base(node, f"{path}.base"), self._adapter(node, f"{path}.adapter"))
        return self._base(node, path)

    def _adapter(self, node: Node, path: str) -> LowRank:
        adapter = node.adapters[ADAPTED]
        self.paths |= {adapter.a: f"{path}.a", adapter.b: f"{path}.b"}
        return LowRank(node, adapter, self._parameter(adapter.a), self._parameter(adapter.b))

    def _packed_linear(self, node: Node, path: str) -> MXLinear:
        """A Linear with the codes of its masked weight."""
        chosen, weight = choice(node, "weight"), self._parameter(node.weights["weight"]).detach()
        assert chosen is not None and isinstance(chosen.format, MXInt)
        codes = codes_of(chosen.format, self._effective(node, "weight", path).seen(weight), node.id)
        bias = self._parameter(node.weights["bias"]) if "bias" in node.weights else None
        if bias is None or "bias" in node.precision or "bias" in node.sparsity:
            return MXLinear(codes, None if bias is None else self._effective(node, "bias", path)(bias).detach())
        self.paths.setdefault(node.weights["bias"], f"{path}.bias")
        return MXLinear(codes, bias)

    def _base(self, node: Node, path: str) -> nn.Module:
        if self.packs and node.packed and not why_unpacked(node):
            return self._packed_linear(node, path)
        inner = make(node.attrs)
        chosen = [p for p in node.weights if p in node.precision or p in node.sparsity]
        effective_ = {p: self._effective(node, p, f"{path}.effective.{p}") for p in chosen}
        for port, name in node.weights.items():
            parameter = isinstance(getattr(inner, port, None), nn.Parameter)
            setattr(inner, port, self._parameter(name) if parameter else self.tensors[name])
            self.paths.setdefault(name, f"{path}.inner.{port}" if effective_ else f"{path}.{port}")
        return Compressed(inner, node.op, effective_) if effective_ else inner

    def _parameter(self, name: str) -> nn.Parameter:
        value = self.tensors[name]
        return value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=False)

    def _effective(self, node: Node, port: str, path: str) -> Effective:
        chosen = choice(node, port)
        if chosen is None or chosen.scale is None:
            return effective(node, port, self.graph, self.store)
        self.paths.setdefault(chosen.scale, f"{path}.scale")
        return effective(node, port, self.graph, self.store, self.tensors[chosen.scale])
