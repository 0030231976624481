"""The weights as they take part in the arithmetic: masked, then in their format, in their own dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from espalier.model.errors import ExportError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import turned_weight, weights_of
from espalier.model.store.weights import WeightStore

if TYPE_CHECKING:
    from torch import Tensor


def effective_weights(graph: Graph, store: WeightStore) -> Iterator[tuple[str, Tensor]]:
    """(name, value) of every weight, one at a time; raises ExportError for a model without weights."""
    users, turned = users_of(graph), turned_users(graph)
    for name in graph.weights:
        if name in turned:
            node, port, axes = turned[name]
            value = value_of(name, None, graph, store).transpose(*axes).contiguous()
            yield name, as_taken(value, (node, port), graph, store).transpose(*axes).contiguous()
            continue
        node_port = next(iter(users.get(name, ())), None) if not differs(users.get(name, [])) else None
        yield name, value_of(name, node_port, graph, store)


def check_finite(graph: Graph, store: WeightStore) -> None:
    """Raise ExportError for a weight in a format that has values which are no numbers: no code stands for them."""
    for node in graph:
        for port, name in weights_of(node, graph):
            key = graph.weights[name].key
            if port not in node.precision or key is None:
                continue
            if not np.isfinite(store.get(key).float32()).all():
                raise ExportError(f"{node.id} {port} has values that are no numbers, and its format none for them.",
                                  "Leave it in float, or correct the weights.", node.id)  # fmt: skip


def shared_differently(graph: Graph) -> list[str]:
    """Weights that nodes share with different formats or masks: no single tensor could be all of them."""
    return [name for name, found in users_of(graph).items() if differs(found)]


def users_of(graph: Graph) -> dict[str, list[tuple[Node, str]]]:
    """Weight name → (node, port) of all that compute with it, in the graph's order."""
    users: dict[str, list[tuple[Node, str]]] = {}
    for node in graph:
        for port, name in weights_of(node, graph):
            users.setdefault(name, []).append((node, port))
    return users


def turned_users(graph: Graph) -> dict[str, tuple[Node, str, tuple[int, int]]]:
    """Weight name → (node, port, dimensions) where a port with a format or mask reads it through a transpose."""
    found: dict[str, tuple[Node, str, tuple[int, int]]] = {}
    for node in graph:
        for port in {*node.precision, *node.sparsity} if node.call != "call_module" else ():
            if not port.startswith("data") and (turned := turned_weight(node, port, graph)):
                found[turned[0]] = node, port, turned[1]
    return found


def differs(users: list[tuple[Node, str]]) -> bool:
    """Whether the users of one weight have chosen differently."""
    chosen = {(str(n.precision.get(p)), n.sparsity[p].mask if p in n.sparsity else None) for n, p in users}
    return len(chosen) > 1


def value_of(name: str, user: tuple[Node, str] | None, graph: Graph, store: WeightStore) -> Tensor:
    """A weight as a node takes it at a port; raw where `user` is None. Raises ExportError where there is none."""
    from espalier.model.torch.tensors import to_torch

    weight = graph.weights[name]
    if weight.key is None:
        raise ExportError("The model was opened without weights, so there are none to export.", "Open it with weights.")
    value = to_torch(store.get(weight.key)).clone()
    return value if user is None else as_taken(value, user, graph, store)


def as_taken(value: Tensor, user: tuple[Node, str], graph: Graph, store: WeightStore) -> Tensor:
    """A tensor as a node takes it at a port: masked, then in its format."""
    import torch

    from espalier.model.torch.leaf_builder import effective

    with torch.no_grad():
        return effective(*user, graph, store)(value)
