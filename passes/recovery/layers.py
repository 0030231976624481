"""Layers for recovery passes: stored weights of Linears and convolutions with the calls that share them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at, weights_of

if TYPE_CHECKING:
    from torch import Tensor

OPS = ("linear", "conv1d", "conv2d")


@dataclass(frozen=True, slots=True)
class Layer:
    """A stored weight by name and its calls in order, which have equal formats and masks for it."""

    name: str
    nodes: tuple[Node, ...]

    @property
    def transposed(self) -> bool:
        """Whether the weight is [inputs, outputs], as in GPT-2's Conv1D."""
        return self.nodes[0].attrs.get("class") == "Conv1D"


def layer_at(node: Node, graph: Graph) -> Layer | str:
    """The layer of a node, or why its weight cannot be changed."""
    name = weight_at(node, "weight", graph)
    if node.op not in OPS:
        return "neither a Linear nor a convolution over one or two axes"
    if name is None:
        return "its weight is computed"
    if node.op != "linear" and (node.call != "call_module" or node.attrs.get("groups", 1) != 1):
        return "a grouped convolution"
    users = [(n, p) for n in graph for p, weight in weights_of(n, graph) if weight == name]
    other = next((n.id for n, p in users if (n.op, p, _chosen(n, p)) != (node.op, "weight", _chosen(node, p))), None)
    return f"it shares its weight with {other}" if other else Layer(name, tuple(n for n, _ in users))


def _chosen(node: Node, port: str) -> Any:
    return node.precision.get(port), node.sparsity.get(port)


def layers_of(nodes: Iterable[Node], graph: Graph) -> tuple[list[Layer], list[tuple[Node, str]]]:
    """(the distinct layers of nodes, other nodes with the reason)."""
    layers: dict[str, Layer] = {}
    skipped: list[tuple[Node, str]] = []
    for node in nodes:
        layer = layer_at(node, graph)
        if isinstance(layer, str):
            skipped.append((node, layer))
        else:
            layers.setdefault(layer.name, layer)
    return list(layers.values()), skipped


def rows_of(node: Node, x: Tensor) -> Tensor:
    """[samples, inputs] float32: the vectors that a layer multiplies its weight rows by; convolutions unfolded."""
    if node.op == "linear":
        return x.reshape(-1, x.shape[-1]).float()
    import torch.nn.functional as F

    from espalier.model.torch.leaves import make

    conv: Any = make(node.attrs)
    x = x.float() if x.dim() == len(conv.kernel_size) + 2 else x[None].float()
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    x = F.pad(x, conv._reversed_padding_repeated_twice, mode)
    if node.op == "conv1d":
        x, flat = x.unsqueeze(2), (1,)
    else:
        flat = ()
    sizes = ((*flat, *size) for size in (conv.kernel_size, conv.dilation, conv.stride))
    kernel, dilation, stride = sizes
    windows = F.unfold(x, kernel, dilation=dilation, stride=stride)
    return windows.transpose(1, 2).reshape(-1, windows.shape[1])


def matrix_of(layer: Layer, weight: Tensor) -> Tensor:
    """A copy of the weight as [outputs, inputs] float32."""
    matrix = weight.detach().float()
    return (matrix.T if layer.transposed else matrix.flatten(1)).clone()


def weight_of(layer: Layer, matrix: Tensor, like: Tensor) -> Tensor:
    """The inverse of `matrix_of`, in the shape and dtype of `like`."""
    return (matrix.T if layer.transposed else matrix).reshape(like.shape).to(like.dtype)


def plain(graph: Graph, dense: bool = False) -> Graph:
    """The graph without formats, and without masks if `dense`."""
    nodes = (n for n in graph if n.precision or (dense and n.sparsity))
    return graph.replace(*(replace(n, precision={}, sparsity={} if dense else n.sparsity) for n in nodes))


def check_inputs(statistics: Tensor, node: Node, which: str = "inputs") -> None:
    """Raise PassError for statistics of a node's inputs (or results) that are not finite."""
    if not bool(statistics.isfinite().all()):
        raise PassError(f"The {which} of {node.id} are not finite (NaN or infinite) on this data.",
                        "Check the model's weights and the data, or deselect this node.", node.id)  # fmt: skip
