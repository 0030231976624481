"""Stored tensors as formats receive them: masked, in the view of the op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.passes.observed.chunks import finite_chunks

if TYPE_CHECKING:
    from torch import Tensor

NO_WEIGHTS = (
    "The model was opened without weights, so there is nothing to measure.",
    "Open it with weights.",
)


def stored_scale(precision: Precision, graph: Graph, store: WeightStore) -> Tensor | None:
    """The calibrated scale of a port, or None."""
    from espalier.model.torch.tensors import to_torch

    if precision.scale is None:
        return None
    scale = graph.weights[precision.scale]
    if scale.key is None:
        raise PassError(*NO_WEIGHTS)
    return to_torch(store.get(scale.key))


def weight_in_view(node: Node, port: str, graph: Graph, store: WeightStore) -> Tensor:
    """The stored tensor of a port, at least float32, read-only.

    Raises PassError for a model without weights, and for non-finite values.
    """
    from espalier.model.torch.leaf_builder import effective
    from espalier.model.torch.tensors import to_torch
    from espalier.model.trace.weight_checks import non_finite_text

    name = weight_at(node, port, graph) or ""
    weight = graph.weights[name]
    if weight.key is None:
        raise PassError(*NO_WEIGHTS)
    value = to_torch(store.get(weight.key))
    value = value if value.dtype.itemsize == 8 else value.float()
    if left_out := sum(count for _, count in finite_chunks(value.numpy())):
        raise PassError(
            f"{name} holds {non_finite_text(left_out)}.", "Open other weights, or deselect this node.", node.id
        )
    return effective(node, port, graph, store).seen(value).contiguous()


def mask_in_view(node: Node, port: str, graph: Graph, store: WeightStore) -> Tensor | None:
    """The mask of a pruned port in its format's view; None if it is not pruned."""
    from espalier.model.torch.leaf_builder import effective

    through = effective(node, port, graph, store)
    return None if through.mask is None else through.view.of(through.mask) if through.view else through.mask
