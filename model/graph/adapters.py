"""Low-rank adapters (LoRA, Hu et al. 2021, arXiv:2106.09685): which nodes can have them, and the matrices' shapes.

As in PEFT: a Linear has A [r, in] and B [out, r], an embedding A [r, rows] and B [width, r], a convolution A as the
convolution with r results and B [out, r, 1, …].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.graph.ports import weight_at

if TYPE_CHECKING:
    from torch import Tensor

PORT = "weight"
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
Shape = tuple[int, ...]


def adaptable(node: Node, graph: Graph) -> bool:
    """Whether a node can have an adapter: Linears, also as functions of a stored weight, embeddings, convolutions."""
    name = weight_at(node, PORT, graph) if node.call in ("call_module", "call_function") else None
    weight = graph.weights.get(name or "")
    if weight is None or len(weight.shape) < 2:
        return False
    if node.op == "linear" or (node.op == "embedding" and node.call == "call_module"):
        return True
    return node.op in _CONVOLUTIONS and node.call == "call_module" and node.attrs.get("groups", 1) == 1


def transposed(node: Node) -> bool:
    """Whether the weight is [inputs, outputs]: GPT-2's Conv1D, and embeddings (PEFT's fan_in_fan_out)."""
    return node.op == "embedding" or node.attrs.get("class") == "Conv1D"


def shapes(node: Node, weight: Weight, rank: int) -> tuple[Shape, Shape]:
    """The shapes of A and B of a node whose weight is `weight`."""
    if node.op in _CONVOLUTIONS:
        outputs, *kernel = weight.shape
        return (rank, *kernel), (outputs, rank, *(1 for _ in kernel[1:]))
    outputs, inputs = weight.shape[::-1] if transposed(node) else weight.shape
    return (rank, inputs), (outputs, rank)


def module_path(node: Node, graph: Graph) -> str:
    """The module path of a node; for a function, that of its weight."""
    if node.call == "call_module":
        return node.target
    return (weight_at(node, PORT, graph) or node.id).removesuffix(".weight")


def adapted(graph: Graph) -> Iterator[tuple[Node, Adapter]]:
    """The nodes with an adapter, in order."""
    return ((n, n.adapters[PORT]) for n in graph if PORT in n.adapters)


def fused(node: Node, adapter: Adapter, weight: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """W + s·B·A, computed in float32, in the weight's shape and dtype."""
    import torch

    first, second = (a.float().flatten(1), b.float().flatten(1))
    one, other = (first.T, second.T) if transposed(node) else (second, first)
    total = torch.addmm(weight.float().flatten(1), one, other, alpha=adapter.scaling)
    return total.reshape(weight.shape).to(weight.dtype)


def size_of(adapter: Adapter, a: Tensor, b: Tensor) -> float:
    """‖s·B·A‖, from rank × rank products."""
    first, second = (a.double().flatten(1), b.double().flatten(1))
    return adapter.scaling * float(((second.T @ second) * (first @ first.T)).sum().clamp_min(0).sqrt())


# -- cost


def adapter_macs(node: Node, symbols: Mapping[str, int]) -> tuple[int, int]:
    """Multiply–accumulates of A and of B in one run; indexing rows of A counts as 0."""
    adapter, out, source = node.adapters.get(PORT), node.out, node.ports.get("data_in")
    if adapter is None or out is None or source is None or PORT not in node.ports:
        return 0, 0
    sizes = dict(symbols)
    count, weight = out.elements(sizes), node.ports[PORT].sizes(sizes)
    if node.op in _CONVOLUTIONS:
        return count // weight[0] * adapter.rank * math.prod(weight[1:]), count * adapter.rank
    return (0 if node.op == "embedding" else source.elements(sizes) * adapter.rank), count * adapter.rank


# -- insertion and removal


def without(graph: Graph, ids: set[str]) -> Graph:
    """The graph without the adapters of these nodes; without any, parameters frozen for adapters train again."""
    bare = {k: replace(n, adapters={}) if k in ids else n for k, n in graph.nodes.items()}
    unused = {x for k in ids for x in _names(graph.nodes[k])} - {x for n in bare.values() for x in n.tensors}
    weights = {k: w for k, w in graph.weights.items() if k not in unused}
    if not any(n.adapters for n in bare.values()):
        weights = {k: replace(w, trainable=True, rests=False) if w.rests else w for k, w in weights.items()}
    return replace(graph, nodes=bare, weights=weights)


def _names(node: Node) -> tuple[str, ...]:
    return tuple(name for x in node.adapters.values() for name in (x.a, x.b))


def freeze_except_adapters(graph: Graph, trained: set[str], everything: bool = True) -> Graph:
    """The graph in which, while it has adapters, only these and the parameters `trained` train.

    With `everything` false, other trainable parameters stay trainable.
    """
    of_adapters = {x for n in graph for x in _names(n)}
    changed: dict[str, Weight] = {}
    for name, weight in graph.weights.items():
        if weight.role != "parameter" or name in of_adapters:
            continue
        if name in trained:
            changed[name] = replace(weight, trainable=True, rests=False)
        elif weight.trainable and everything:
            changed[name] = replace(weight, trainable=False, rests=True)
    return graph.with_weights(changed)
