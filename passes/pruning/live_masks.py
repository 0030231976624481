"""Masks of live tensors, for passes that prune during training, and the graph with these masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import View, view_at
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore
from espalier.passes.choices.pruning import Choice
from espalier.passes.pruning.patterns import Found, Scored, masks
from espalier.passes.ranking import is_finite

if TYPE_CHECKING:
    from torch import Tensor


def view_of_weight(name: str, graph: Graph) -> View | None:
    """The view in which a pruned weight's rows are outputs: that of its first node."""
    node = next((n for n in graph if n.call != "get_attr" and weight_at(n, "weight", graph) == name), None)
    return view_at(node, "weight") if node is not None and "weight" in node.ports else None


def live_masks(scores: Mapping[str, Tensor], graph: Graph, choice: Choice) -> dict[str, Tensor]:
    """Weight name → bool mask, True = kept, on the scores' device. The scores are the live weights for l1 and l2, and
    those of `passes/pruning/scores.py` for the others. Raises PassError for non-finite scores.
    """
    import torch

    packed = live_found(scores, graph, choice)
    return {
        name: torch.from_numpy(np.unpackbits(f.bits, count=scores[name].numel()).astype(bool))
        .reshape(scores[name].shape)
        .to(scores[name].device)
        for name, f in packed.items()
    }


def live_found(scores: Mapping[str, Tensor], graph: Graph, choice: Choice) -> dict[str, Found]:
    """As `live_masks`, as packed bits."""
    parts: list[Scored] = []
    for name, score in scores.items():
        values = score.detach().float().cpu().contiguous().numpy().reshape(-1)
        if not is_finite(values):
            raise PassError(f"The scores of {name} are not finite.", "Lower the learning rate.")
        parts.append(Scored(values, tuple(score.shape), view_of_weight(name, graph)))
    return dict(zip(scores, masks(parts, choice), strict=True))


def with_masks(graph: Graph, found: Mapping[str, Found], choice: Choice, store: WeightStore) -> Graph:
    """The graph with masks at all nodes of these weights; masks without zeros are omitted."""
    keys = {k: (store.hold(Stored(f.bits, "uint8")) if f.zeros else None, f.zeros) for k, f in found.items()}
    nodes: list[Node] = []
    for node in graph:
        name = weight_at(node, "weight", graph) if "weight" in node.ports and node.call != "get_attr" else None
        if name in keys:
            nodes.append(pruned(node, choice, *keys[name]))
    return graph.replace(*nodes)


def pruned(node: Node, choice: Choice, mask: str | None, zeros: int) -> Node:
    """The node with this mask of its weight, or without a mask."""
    others = {p: s for p, s in node.sparsity.items() if p != "weight"}
    if mask is None:
        return replace(node, sparsity=others)
    ratio = 1 - choice.size[0] / choice.size[1] if choice.pattern == "n:m" else choice.ratio
    sparsity = Sparsity(choice.method, ratio, choice.scope, mask, zeros, choice.pattern, choice.size)
    return replace(node, sparsity={**others, "weight": sparsity})
