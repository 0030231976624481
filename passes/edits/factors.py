"""Two thin modules in the place of one: the closest pair of their kind to its weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.passes.edits.base import finished, free_id, free_path
from espalier.passes.edits.leaves import with_module

if TYPE_CHECKING:
    from torch import Tensor, nn

    from espalier.passes.base import Context

LOW_RANK = "low_rank"
Pair = tuple[tuple[str, "nn.Module"], tuple[str, "nn.Module"]]  # (suffix of the module path, module), first and second


def factorised(graph: Graph, target: Node, op: str, rank: int, context: Context) -> Graph:
    """The graph in which two modules stand for one; the second has its id. Raises GraphError."""
    weight, bias = _stored(graph, target, "weight", context), _stored(graph, target, "bias", context)
    if weight is None or target.call != "call_module":
        raise GraphError(f"{target.id} has no weight of its own.", "Choose a Linear or a convolution.", target.id)
    if target.adapters or "weight" in target.sparsity:
        held, todo = ("an adapter", "Fuse it") if target.adapters else ("a pruning mask", "Take it away")
        raise GraphError(f"{target.id} has {held}, which two modules cannot have.", f"{todo} first.", target.id)
    (first_name, first), (second_name, second) = FACTORISATIONS[op](target, weight, bias, rank)
    path, name = target.target, free_id(graph, f"{target.id}_{first_name}")
    grown, one = with_module(graph, name, free_path(graph, f"{path}_{first_name}"), target.inputs[0],
                             first.to(weight.dtype), context)  # fmt: skip
    grown, two = with_module(grown, target.id, free_path(graph, f"{path}_{second_name}"), Ref(one.id),
                             second.to(weight.dtype), context)  # fmt: skip
    kept = replace(two, module_path=target.module_path, source=target.source, precision=target.precision,
                   annotation=target.annotation)  # fmt: skip
    one = replace(one, module_path=target.module_path, source=target.source, precision=target.precision)
    nodes: dict[str, Node] = {}
    for name, node in grown.nodes.items():
        if name == target.id:
            nodes[one.id] = one
        nodes[name] = kept if name == target.id else node
    return finished(replace(grown, nodes=nodes), [one.id, target.id])


def _low_rank(target: Node, weight: Tensor, bias: Tensor | None, rank: int) -> Pair:
    """W ≈ (U·√S)·(√S·Vᵀ), the first `rank` singular values; the bias goes to the second layer."""
    import torch
    from torch import nn

    if target.op != "linear":
        raise GraphError(f"{target.id} is no Linear module, so it has no low-rank form.", "Choose a Linear.", target.id)
    matrix = weight.T if target.attrs.get("class") == "Conv1D" else weight
    outputs, inputs = matrix.shape
    if not 1 <= rank <= min(outputs, inputs):
        raise GraphError(f"rank is {rank}, and {target.id} is {outputs} × {inputs}.",
                         f"Give a rank from 1 to {min(outputs, inputs)}.", target.id)  # fmt: skip
    u, s, vt = torch.linalg.svd(matrix.double(), full_matrices=False)
    root = s[:rank].sqrt()
    first, second = nn.Linear(inputs, rank, False), nn.Linear(rank, outputs, bias is not None)
    with torch.no_grad():
        first.weight.copy_(root[:, None] * vt[:rank])
        second.weight.copy_(u[:, :rank] * root)
        if bias is not None:
            second.bias.copy_(bias)
    return ("down", first), ("up", second)


def _depthwise_separable(target: Node, weight: Tensor, bias: Tensor | None, rank: int) -> Pair:
    """A depthwise convolution with stride and padding, then a pointwise one with the bias.

    For each input channel i the best rank-1 form of W[:, i] (outputs × kernel) is σ·u·vᵀ of its largest singular value:
    v becomes the filter of the channel, σ·u its column of the pointwise weight (Guo et al. 2018, "Network Decoupling").
    """
    import torch
    from torch import nn

    attrs: dict[str, Any] = dict(target.attrs)
    if target.op != "conv2d" or attrs.get("groups", 1) != 1 or weight.shape[2] * weight.shape[3] == 1:
        raise GraphError(f"{target.id} is no Conv2d of one group with a kernel larger than 1 × 1.",
                         "Choose such a convolution.", target.id)  # fmt: skip
    outputs, inputs, *kernel = weight.shape
    spatial = {k: attrs[k] for k in ("stride", "padding", "dilation", "padding_mode") if k in attrs}
    first = nn.Conv2d(inputs, inputs, (kernel[0], kernel[1]), groups=inputs, bias=False, **spatial)
    second = nn.Conv2d(inputs, outputs, 1, bias=bias is not None)
    u, s, vt = torch.linalg.svd(weight.double().permute(1, 0, 2, 3).reshape(inputs, outputs, -1), full_matrices=False)
    root = s[:, 0].sqrt()
    with torch.no_grad():
        first.weight.copy_((root[:, None] * vt[:, 0]).reshape(inputs, 1, *kernel))
        second.weight.copy_((root[:, None] * u[:, :, 0]).T.reshape(outputs, inputs, 1, 1))
        if bias is not None:
            assert second.bias is not None
            second.bias.copy_(bias)
    return ("depthwise", first), ("pointwise", second)


FACTORISATIONS: dict[str, Callable[[Node, Tensor, Tensor | None, int], Pair]] = {
    LOW_RANK: _low_rank,
    "depthwise_separable": _depthwise_separable,
}


def _stored(graph: Graph, node: Node, port: str, context: Context) -> Tensor | None:
    from espalier.model.torch.tensors import to_torch

    name = node.weights.get(port)
    if name is None:
        return None
    key = graph.weights[name].key
    if key is None:
        raise GraphError("The model was opened without weights.", "Open it with weights.", node.id)
    return to_torch(context.store.get(key))
