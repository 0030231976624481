"""Σx² of the inputs that each element of a weight is multiplied with, over a data sample, for Wanda scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.node import Arg, refs
from espalier.model.torch.leaves import make
from espalier.model.torch.targets import function_of
from espalier.passes.base import Context
from espalier.passes.running.observing import observe

if TYPE_CHECKING:
    from espalier.model.data.base import Split


def energies(
    graph: Graph, layers: Mapping[str, Sequence[Node]], split: Split, batch_size: int, context: Context
) -> dict[str, Tensor]:
    """Weight name → Σx² in float64, broadcastable to the weight's shape, over all of its nodes and samples."""
    owner = {n.id: name for name, nodes in layers.items() for n in _observed_once(nodes, graph)}
    sums: dict[str, Tensor] = {}

    def sink(node: str, port: str, x: Tensor) -> None:
        name = owner[node]
        energy = input_energy(graph[node], x, graph.weights[name].shape).double()
        sums[name] = sums[name] + energy if name in sums else energy

    observe(graph, split, batch_size, {i: ("data_in",) for i in owner}, sink, context)
    missing = next((n for n in layers if n not in sums), None)
    if missing:
        raise PassError(f"{layers[missing][0].id} has no inputs in the run, so it cannot be scored.",
                        "Deselect it, or use l1.", layers[missing][0].id)  # fmt: skip
    return sums


def _observed_once(nodes: Sequence[Node], graph: Graph) -> Sequence[Node]:
    """In a recorded model, observing one call of a module observes all of its calls."""
    return list({n.target: n for n in nodes}.values()) if graph.runs == "module" else nodes


def input_energy(node: Node, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Σx² for each element of a weight of `shape`, with size 1 along axes where it is constant.

    A layer is linear in weight and input, so d/dw Σ layer(x², w) is this sum for any padding and stride.
    """
    squares = x.detach().float().square()
    if node.op == "linear":
        sums = squares.reshape(-1, squares.shape[-1]).sum(0)
        return sums.unsqueeze(1) if node.attrs.get("class") == "Conv1D" else sums.unsqueeze(0)
    if _groups(node) == 1:  # equal for all outputs
        outputs = 1 if "transpose" in node.op else 0
        shape = tuple(1 if axis == outputs else size for axis, size in enumerate(shape))
    with torch.enable_grad():
        weight = torch.zeros(shape, device=x.device, requires_grad=True)
        return torch.autograd.grad(_applied(node, squares, weight).sum(), weight)[0]


def _groups(node: Node) -> int:
    """Groups of a module; 0 for a function, which only makes it slower."""
    groups = node.attrs.get("groups", 1) if node.call == "call_module" else 0
    return groups if isinstance(groups, int) else 0


def _applied(node: Node, x: Tensor, weight: Tensor) -> Tensor:
    """Result of a convolution of `x` with `weight`, without bias."""
    if node.call == "call_module":
        module = make({**node.attrs, "bias": False})
        return torch.func.functional_call(module, {"weight": weight}, (x,))  # type: ignore[no-any-return]
    rest = [*node.args[3:], *node.kwargs.values()]
    target: Any = function_of(node.target)
    if any(refs(rest)) or target is None:
        text = f"The arguments of {node.id} are computed, so it cannot be scored by its inputs."
        raise PassError(text, "Deselect it, or use l1.", node.id)
    named = {k: _plain(v) for k, v in node.kwargs.items() if k not in ("input", "weight", "bias")}
    return target(x, weight, None, *(_plain(a) for a in node.args[3:]), **named)  # type: ignore[no-any-return]


def _plain(arg: Arg) -> Any:
    return [_plain(a) for a in arg] if isinstance(arg, tuple) else arg
