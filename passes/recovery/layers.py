"""The layers that a recovery works on: stored weights of Linears and convolutions, and the calls that share them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at, weights_of

if TYPE_CHECKING:
    from torch import Tensor

OPS = ("linear", "conv1d", "conv2d")


@dataclass(frozen=True, slots=True)
class Layer:
    """A stored weight by name, and the calls that compute with it, in order; all chose the same for it."""

    name: str
    nodes: tuple[Node, ...]

    @property
    def transposed(self) -> bool:
        """Whether the weight lies [inputs, outputs], as in GPT-2's Conv1D."""
        return self.nodes[0].attrs.get("class") == "Conv1D"


def layer_at(node: Node, graph: Graph) -> Layer | str:
    """The layer of a node, or why its weight cannot be altered for this layer's sake."""
    name = weight_at(node, "weight", graph)
    if node.op not in OPS:
        return "neither a Linear nor a convolution over one or two axes"
    if name is None:
        return "its weight is computed"
    if node.op != "linear" and (node.call != "call_module" or node.attrs.get("groups", 1) != 1):
        return "a grouped convolution"
    users = [(n, p) for n in graph for p, held in weights_of(n, graph) if held == name]
    other = next((n.id for n, p in users if (n.op, p, _chosen(n, p)) != (node.op, "weight", _chosen(node, p))), None)
    return f"it shares its weight with {other}" if other else Layer(name, tuple(n for n, _ in users))


def _chosen(node: Node, port: str) -> Any:
    return node.precision.get(port), node.sparsity.get(port)


def layers_of(nodes: Iterable[Node], graph: Graph) -> tuple[list[Layer], list[tuple[Node, str]]]:
    """The layers of nodes, each once, and the nodes that are none, with the reason."""
    found: dict[str, Layer] = {}
    left: list[tuple[Node, str]] = []
    for node in nodes:
        layer = layer_at(node, graph)
        if isinstance(layer, str):
            left.append((node, layer))
        else:
            found.setdefault(layer.name, layer)
    return list(found.values()), left


def rows_of(node: Node, x: Tensor) -> Tensor:
    """What each output of a layer is a product of its weight's row with: [samples, inputs], float32."""
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
    sizes = ((*flat, *given) for given in (conv.kernel_size, conv.dilation, conv.stride))
    kernel, dilation, stride = sizes
    found = F.unfold(x, kernel, dilation=dilation, stride=stride)
    return found.transpose(1, 2).reshape(-1, found.shape[1])


def matrix_of(layer: Layer, weight: Tensor) -> Tensor:
    """The weight as [outputs, inputs], float32; a copy."""
    found = weight.detach().float()
    return (found.T if layer.transposed else found.flatten(1)).clone()


def weight_of(layer: Layer, matrix: Tensor, like: Tensor) -> Tensor:
    """The inverse of `matrix_of`, in the shape and dtype of `like`."""
    return (matrix.T if layer.transposed else matrix).reshape(like.shape).to(like.dtype)


def plain(graph: Graph, dense: bool = False) -> Graph:
    """The graph without formats, and without masks where `dense`."""
    nodes = (n for n in graph if n.precision or (dense and n.sparsity))
    return graph.replace(*(replace(n, precision={}, sparsity={} if dense else n.sparsity) for n in nodes))
