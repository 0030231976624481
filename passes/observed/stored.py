"""Stored tensors as formats see them: after the mask, in the view of the op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.passes.observed.pieces import pieces

if TYPE_CHECKING:
    from torch import Tensor

NO_WEIGHTS = (
    "The model was opened without weights, so there is nothing to measure.",
    "Open it with weights.",
)


def stored_scale(precision: Precision, graph: Graph, store: WeightStore) -> Tensor | None:
    """The scale that a port is given from outside, if it is."""
    from espalier.model.torch.tensors import to_torch

    if precision.scale is None:
        return None
    held = graph.weights[precision.scale]
    if held.key is None:
        raise PassError(*NO_WEIGHTS)
    return to_torch(store.get(held.key))


def seen_weight(node: Node, port: str, graph: Graph, store: WeightStore) -> Tensor:
    """The stored tensor of a port, at least float32, to be read only.

    Raises PassError for a model without weights, and for a tensor with values that are not finite.
    """
    from espalier.model.torch.build import effective
    from espalier.model.torch.tensors import to_torch
    from espalier.model.trace.weight_checks import non_finite_text

    name = weight_at(node, port, graph) or ""
    weight = graph.weights[name]
    if weight.key is None:
        raise PassError(*NO_WEIGHTS)
    value = to_torch(store.get(weight.key))
    value = value if value.dtype.itemsize == 8 else value.float()
    if left_out := sum(count for _, count in pieces(value.numpy())):
        raise PassError(
            f"{name} holds {non_finite_text(left_out)}.", "Open sound weights, or leave this node out.", node.id
        )
    return effective(node, port, graph, store).seen(value).contiguous()


def seen_mask(node: Node, port: str, graph: Graph, store: WeightStore) -> Tensor | None:
    """The mask of a pruned port as its format sees it; None where nothing is pruned."""
    from espalier.model.torch.build import effective

    held = effective(node, port, graph, store)
    return None if held.mask is None else held.view.of(held.mask) if held.view else held.mask
