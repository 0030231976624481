"""Distributes the tensors of a built model over a mesh by the shardings of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, fx, nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from espalier.model.graph.adapters import PORT as ADAPTED
from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node, out_port
from espalier.model.graph.operands import operands
from espalier.model.torch.build import parameters_of
from espalier.model.torch.layers import Compressed, Effective
from espalier.model.torch.low_rank import Adapted, innermost
from espalier.passes.distributed.placements import Placements, applied, replicated
from espalier.passes.distributed.split_formats import SplitEffective
from espalier.passes.distributed.split_layers import (
    CONVOLUTIONS,
    NORMS,
    SplitAdapted,
    SplitConvolution,
    SplitEmbedding,
    SplitNorm,
)
from espalier.passes.sharding.apply import in_use

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def distribute(module: fx.GraphModule, graph: Graph, mesh: DeviceMesh) -> dict[str, Tensor]:
    """Replace a built module's tensors by this rank's parts, in place; returns weight name → tensor.

    Learned scales of formats are whole on each rank.
    """
    named = parameters_of(module)
    texts = stored_placements(graph)
    effective = [m for m in module.modules() if isinstance(m, Effective)]
    learned = {id(m.scale) for m in effective if isinstance(m.scale, nn.Parameter)}
    stays = {id(p) for m in effective for p in (m.scale, m.mask) if p is not None} - learned
    parts: dict[int, Tensor] = {}
    for name, value in named.items():
        if id(value) not in stays and id(value) not in parts:
            wanted = applied(texts[name], value.shape, mesh) if name in texts else replicated(mesh)
            parts[id(value)] = part_of(value, mesh, wanted)
    for inner in list(module.modules()):
        _replace_tensors(inner, parts)
    _replace_leaves(module, {})
    return {name: parts.get(id(value), value) for name, value in named.items()}


def part_of(value: Tensor, mesh: DeviceMesh, placements: Placements) -> Tensor:
    """This rank's part of a tensor, copied so that the whole one can be released."""
    whole = value.detach()
    part = distribute_tensor(whole, mesh, placements, src_data_rank=None)
    own = DTensor.from_local(part.to_local().clone(), mesh, placements, run_check=False)
    return nn.Parameter(own, requires_grad=value.requires_grad) if isinstance(value, nn.Parameter) else own


def stored_placements(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Weight name → placement per axis of the mesh, by the first node that has it."""
    texts: dict[str, tuple[str, ...]] = {}
    for node in graph:
        if node.sharding is None:
            continue
        ports = node.sharding.ports
        for port, name in node.weights.items():
            if (placement := ports.get("data_out" if node.call == "get_attr" else port)) is not None:
                texts.setdefault(name, placement)
        if ADAPTED in node.adapters and node.op == "linear" and (use := in_use(node, "weight")):
            adapter = node.adapters[ADAPTED]
            texts[adapter.a], texts[adapter.b] = _adapter_placements(use)
    return _of_users(graph) | texts


def _adapter_placements(weight: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of A [rank, inputs] and B [outputs, rank]: split as the weight's inputs and outputs."""
    return tuple("S1" if p == "S1" else "R" for p in weight), tuple("S0" if p == "S0" else "R" for p in weight)


def _of_users(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Placements of stored tensors that a function takes, by its port."""
    texts: dict[str, tuple[str, ...]] = {}
    for node in graph:
        if node.sharding is None or node.call != "call_function":
            continue
        ports = operands(node.op, node.args, node.kwargs, graph.nodes)
        for ref, port in zip(node.inputs, ports, strict=False):
            source: Node = graph.nodes[ref.node]
            placement = node.sharding.ports.get((port or ("",))[0])
            if source.call == "get_attr" and placement and out_port(ref.output) == "data_out":
                texts.setdefault(source.weights["value"], placement)
    return texts


def _replace_tensors(module: nn.Module, parts: dict[int, Tensor]) -> None:
    for table in (module._parameters, module._buffers):  # pyright: ignore[reportPrivateUsage]
        entries: dict[str, Any] = table
        for key, value in list(entries.items()):
            if value is not None and id(value) in parts:
                entries[key] = parts[id(value)]
    for key, value in list(vars(module).items()):  # tensors that are neither
        if isinstance(value, Tensor) and id(value) in parts:
            vars(module)[key] = parts[id(value)]


def _replace_leaves(module: nn.Module, seen: dict[int, nn.Module]) -> None:
    """Replace leaves without rules of DTensor, innermost first; a shared leaf stays shared."""
    for name, child in list(module.named_children()):
        if id(child) not in seen:
            layer = innermost(child) if isinstance(child, Adapted | Compressed) else child
            if not isinstance(child, Effective):
                _replace_leaves(child.effective if isinstance(child, Compressed) else child, seen)
            seen[id(child)] = _replaced(child, layer)
        module._modules[name] = seen[id(child)]  # pyright: ignore[reportPrivateUsage]


def _replaced(child: nn.Module, layer: nn.Module) -> nn.Module:
    if isinstance(child, Effective):
        return SplitEffective(child)
    if isinstance(child, Adapted):
        return SplitAdapted(child.base, child, layer)
    whole_leaf = child is layer or isinstance(child, Compressed)
    if whole_leaf and isinstance(layer, CONVOLUTIONS):
        return SplitConvolution(child, layer)
    if whole_leaf and isinstance(layer, nn.Embedding):
        return SplitEmbedding(child, layer)
    return SplitNorm(child, layer) if whole_leaf and isinstance(layer, NORMS) else child


def parts_bytes(tensors: dict[str, Tensor]) -> int:
    """Bytes of the stored tensors on this rank, tied ones counted once."""
    distinct = {id(t): t for t in tensors.values()}
    return sum(t.to_local().nbytes if isinstance(t, DTensor) else t.nbytes for t in distinct.values())


def is_split(tensor: Tensor) -> bool:
    """Whether ranks store different parts of a tensor."""
    return isinstance(tensor, DTensor) and any(isinstance(p, Shard) for p in tensor.placements)


def in_stored(gradient: Tensor, tensor: Tensor) -> Tensor:
    """A gradient in the placements of its tensor: partial sums are added up."""
    if isinstance(gradient, DTensor) and isinstance(tensor, DTensor):
        wanted = tuple(Replicate() if p.is_partial() else p for p in tensor.placements)
        if tuple(gradient.placements) != wanted:
            return gradient.redistribute(placements=wanted)
    return gradient
