"""Σx² of the inputs that each element of a weight is multiplied with, over a data sample: what Wanda scores by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.node import Arg, refs
from espalier.model.graph.ports import weight_at
from espalier.model.torch.leaves import make
from espalier.model.torch.targets import function_of
from espalier.passes.base import Context
from espalier.passes.running.observing import observe

if TYPE_CHECKING:
    from espalier.model.data.base import Split


def energies(
    graph: Graph, layers: Mapping[str, Sequence[Node]], split: Split, batch_size: int, context: Context
) -> dict[str, Tensor]:
    """Weight name → Σx² in float64, which spreads over the weight's shape; over all of its nodes and samples."""
    owner = {n.id: name for name, nodes in layers.items() for n in _told_once(nodes, graph)}
    found: dict[str, Tensor] = {}

    def sink(node: str, port: str, x: Tensor) -> None:
        name = owner[node]
        reached = reached_by(graph[node], x, graph.weights[name].shape).double()
        found[name] = found[name] + reached if name in found else reached

    observe(graph, split, batch_size, {i: ("data_in",) for i in owner}, sink, context)
    missing = next((n for n in layers if n not in found), None)
    if missing:
        raise PassError(f"Nothing flowed into {layers[missing][0].id}, so that its inputs tell nothing.",
                        "Leave it out of the selection, or use l1.", layers[missing][0].id)  # fmt: skip
    return found


def _told_once(nodes: Sequence[Node], graph: Graph) -> Sequence[Node]:
    """In a recorded model each call of a module tells the inputs of all its calls."""
    return list({n.target: n for n in nodes}.values()) if graph.runs == "module" else nodes


def reached_by(node: Node, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Σx² for each element of a weight of `shape`, with axes of size 1 where it is the same along them.

    A layer is linear in weight and input, so that d/dw Σ layer(x², w) is just that, whatever its padding and stride.
    """
    squares = x.detach().float().square()
    if node.op == "linear":
        sums = squares.reshape(-1, squares.shape[-1]).sum(0)
        return sums.unsqueeze(1) if node.attrs.get("class") == "Conv1D" else sums.unsqueeze(0)
    if _groups(node) == 1:  # every output sees the same
        outputs = 1 if "transpose" in node.op else 0
        shape = tuple(1 if axis == outputs else size for axis, size in enumerate(shape))
    with torch.enable_grad():
        weight = torch.zeros(shape, device=x.device, requires_grad=True)
        return torch.autograd.grad(_applied(node, squares, weight).sum(), weight)[0]


def _groups(node: Node) -> int:
    """Of a module; a function's are not looked for, which costs time alone."""
    groups = node.attrs.get("groups", 1) if node.call == "call_module" else 0
    return groups if isinstance(groups, int) else 0


def _applied(node: Node, x: Tensor, weight: Tensor) -> Tensor:
    """What a convolution gives for `x` under `weight`, without a bias."""
    if node.call == "call_module":
        module = make({**node.attrs, "bias": False})
        return torch.func.functional_call(module, {"weight": weight}, (x,))  # type: ignore[no-any-return]
    rest = [*node.args[3:], *node.kwargs.values()]
    target: Any = function_of(node.target)
    if any(refs(rest)) or target is None:
        text = f"The arguments of {node.id} are computed, so that its inputs cannot be followed."
        raise PassError(text, "Leave it out of the selection, or use l1.", node.id)
    named = {k: _plain(v) for k, v in node.kwargs.items() if k not in ("input", "weight", "bias")}
    return target(x, weight, None, *(_plain(a) for a in node.args[3:]), **named)  # type: ignore[no-any-return]


def _plain(arg: Arg) -> Any:
    return [_plain(a) for a in arg] if isinstance(arg, tuple) else arg


def layers_at(nodes: Sequence[Node], graph: Graph) -> dict[str, list[Node]]:
    """Weight name → its nodes among `nodes`, in order."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(weight_at(node, "weight", graph) or "", []).append(node)
    return found
