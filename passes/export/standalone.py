"""A built module that runs without Espalier: weights as they compute, formats of activations as plain torch functions.

torch.export can then take it apart: no autograd functions, no fast versions, nothing that is kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx, nn

from espalier.model.errors import ExportError
from espalier.model.formats.base import Format, by_rule
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.activation_masks import ActivationMask
from espalier.model.torch.build import PORT, build
from espalier.model.torch.emulators import in_float
from espalier.model.torch.layers import Compressed, Effective
from espalier.model.torch.low_rank import Adapted

Site = tuple[str, str]  # node id and port
Activation = Callable[[Effective, Site], nn.Module]
Leaf = Callable[[Compressed], nn.Module]


class Rounded(nn.Module):
    """x → format(pruned x) by the format's own definition, in the view of the op."""

    mask: Tensor | None
    scale: Tensor | None

    def __init__(self, held: Effective) -> None:
        super().__init__()
        self.format, self.view = by_rule(held.format), held.view
        self.register_buffer("mask", held.mask)
        self.register_buffer("scale", None if held.scale is None else held.scale.detach())
        self.rule = held.rule

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        gone = None if self.rule is None else dropped(self.rule, x)
        y = self._pruned(x, gone)
        if self.format is None:
            return y
        y = self.value(y if self.view is None else self.view.of(y))
        y = y if self.view is None else self.view.back(y, tuple(x.shape))
        return y if self.format.keeps_zero else self._pruned(y, gone)

    def _pruned(self, x: Tensor, gone: Tensor | None) -> Tensor:
        x = x if gone is None else torch.where(gone, 0.0, x)
        return x if self.mask is None else x * self.mask

    def value(self, x: Tensor) -> Tensor:
        """The format's value of what it sees."""
        fmt = cast("Format", self.format)
        return fmt.define(x) if self.scale is None else cast("ScaledFormat", fmt).with_scale(x, self.scale)


def dropped(flowing: ActivationMask, x: Tensor) -> Tensor:
    """`ActivationMask.dropped` without a look at the values: where places are counted, by sorting."""
    if flowing.chosen.pattern == "threshold":
        return flowing.dropped(x)
    rows = x.reshape(x.shape[0], -1) if x.dim() > 1 else x.reshape(1, -1)
    count = int(rows.shape[1])
    drop = round(flowing.chosen.ratio * count)
    if flowing.chosen.method == "random":
        return flowing.dropped(torch.ones(1, count)).expand(rows.shape).reshape(x.shape)
    order = torch.sort(rows.abs().float(), dim=1, stable=True).indices
    return (torch.argsort(order, dim=1) < drop).reshape(x.shape)


def check_exportable(graph: Graph) -> None:
    """Raise ExportError for a model that runs only with its own code, or without weights."""
    hint = "Export it as safetensors or packed, or give a model that torch.export can capture."
    if graph.runs == "module":
        text = "This model was recorded from a run and works only with its own code, which cannot be exported."
        raise ExportError(text, hint)
    opaque = next((n for n in graph if n.call == "opaque"), None)
    if opaque is not None:
        raise ExportError(f"{opaque.id} runs code of the model's own, which cannot be exported.", hint, opaque.id)
    if any(w.key is None for w in graph.weights.values()):
        raise ExportError("The model was opened without weights, so there are none to export.", "Open it with weights.")


def standalone(
    graph: Graph, store: WeightStore, activation: Activation | None = None, leaf: Leaf | None = None
) -> fx.GraphModule:
    """The module of `graph`. `activation`, `leaf`: what takes the place of a format and of a layer with choices.

    Raises ExportError for a model that cannot leave.
    """
    check_exportable(graph)
    module = build(in_float(graph), store)
    _rehome(module)
    _bake(module)
    for name, held in list(module.named_modules()):
        if isinstance(held, Compressed):  # an adapter asks its layer for its kind
            plain = leaf is None or isinstance(_parent(module, name), Adapted)
            module.set_submodule(name, baked(held) if plain or leaf is None else leaf(held))
    for name, site in _sites(module):
        held = cast("Effective", module.get_submodule(name))
        module.set_submodule(name, activation(held, site) if activation else Rounded(held))
    for name, held in list(module.named_modules()):
        if isinstance(held, Effective):  # inside a layer of another kind
            module.set_submodule(name, Rounded(held))
    return module.requires_grad_(False).eval()


def baked(layer: Compressed) -> nn.Module:
    """The plain layer with the values that take part in its arithmetic."""
    for port in layer.effective:
        bake(layer.inner, port, cast("Tensor", fixed(layer, port)))
    return layer.inner


def bake(module: nn.Module, name: str, value: Tensor) -> None:
    """Put a value in a tensor's place."""
    setattr(module, name, nn.Parameter(value, requires_grad=False))


def fixed(layer: Compressed, port: str) -> Tensor | None:
    """The value of a layer's tensor as it takes part in the arithmetic."""
    held, value = layer.effective[port], getattr(layer.inner, port, None)
    return None if value is None else value_of(cast("Effective", held), value)


def value_of(held: Effective, x: Tensor) -> Tensor:
    """What a stored tensor is after its mask and format, without chance."""
    with torch.no_grad():
        held.format = by_rule(held.format)
        return held(x.detach()).clone(memory_format=torch.contiguous_format)  # not a part of something padded


def _rehome(module: fx.GraphModule) -> None:
    """Tensors that functions read out of layers with choices: as they are stored, under a name of their own."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(_parent(module, str(node.target)), Compressed):
            value = _tensor(module, str(node.target)).detach()
            module.register_parameter(f"{node.name}_stored", nn.Parameter(value, requires_grad=False))
            node.target = f"{node.name}_stored"
    module.recompile()


def _bake(module: fx.GraphModule) -> None:
    """Stored tensors that functions read through a format, also transposed: their values take its place."""
    for node in list(module.graph.nodes):
        if node.op != "call_module" or not isinstance(held := _at(module, node.target), Effective):
            continue
        if (stored := _stored(module, node.args[0])) is not None:
            name = f"{node.name}_value"
            module.register_buffer(name, value_of(held, stored))
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(module.graph.get_attr(name))
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
    module.delete_all_unused_submodules()


def _stored(module: fx.GraphModule, source: fx.Node) -> Tensor | None:
    """The stored tensor that a node is, or the transpose of; None for a computed one."""
    if source.op == "get_attr":
        return _tensor(module, str(source.target))
    inner, *axes = source.args if source.args else (None,)
    turns = getattr(source.target, "__name__", source.target) == "transpose" and not source.kwargs
    if not (turns and isinstance(inner, fx.Node) and inner.op == "get_attr" and len(axes) == 2):
        return None
    return _tensor(module, str(inner.target)).transpose(cast("int", axes[0]), cast("int", axes[1]))


def _sites(module: fx.GraphModule) -> list[tuple[str, Site]]:
    """The formats that lie between nodes: module path, and the first port that it is for."""
    found: dict[str, Site] = {}
    for node in module.graph.nodes:
        if node.op == "call_module" and isinstance(_at(module, node.target), Effective):
            found.setdefault(node.target, next(iter(node.meta.get(PORT, ())), (node.name, "")))
    return list(found.items())


def _parent(module: nn.Module, path: str) -> nn.Module:
    return module.get_submodule(path.rpartition(".")[0])


def _at(module: fx.GraphModule, target: Any) -> nn.Module:
    return module.get_submodule(str(target))


def _tensor(module: nn.Module, path: str) -> Tensor:
    home, _, name = path.rpartition(".")
    return cast("Tensor", getattr(module.get_submodule(home), name))
