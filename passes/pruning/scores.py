"""Scores of a weight's elements for pruning: from the weight, or with a data sample."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.passes.base import Context
from espalier.passes.choices.pruning import WITH_DATA
from espalier.passes.ranking import Values, is_finite

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

Layers = Mapping[str, Sequence[Node]]


class Scores:
    """The scores of the weights of `layers` by `method`; pruned by smallest magnitude, for movement by smallest value.

    l1, l2: w. wanda: w·√Σx². snip: w·g. movement: −w·g. hessian: w·√Σg². The pattern applies squares and signs, which
    do not change the ranking of single elements.
    """

    def __init__(
        self, graph: Graph, layers: Layers, method: str, split: Split | None, batch_size: int, context: Context
    ) -> None:
        self.graph, self.layers, self.method, self.context = graph, layers, method, context
        self._factors: dict[str, Tensor] = {}
        if method in WITH_DATA:
            if any(graph.weights[n].key is None for n in layers):
                raise without_weights()
            assert split is not None
            self._factors = _factors(graph, layers, method, split, batch_size, context)

    def of(self, name: str) -> Values:
        """The flat scores of a weight; raises PassError if they are not finite."""
        weight = self.graph.weights[name]
        if weight.key is None:
            raise without_weights()
        if self.method == "random":
            return self._random(name, weight.elements)
        values = self.context.store.get(weight.key).float32()
        if not is_finite(values):
            raise PassError(f"The weight {name} holds values that are not finite.", "Load another checkpoint.")
        if name in self._factors:
            values = (values * self._factors.pop(name).numpy()).astype(np.float32, copy=False)
            if not is_finite(values):
                raise PassError(f"The scores of {name} by {self.method} are not finite.",
                                "Check the activations for overflows, or use l1.")  # fmt: skip
        return values.reshape(-1)

    def _random(self, name: str, count: int) -> Values:
        import torch

        seed = self.context.seed * 0x9E3779B1 + zlib.crc32(name.encode())
        generator = torch.Generator().manual_seed(seed % 2**63)
        return torch.rand(count, generator=generator).numpy()


def without_weights() -> PassError:
    """Error of a model without weights."""
    return PassError("The model was opened without weights, so there is nothing to prune.", "Open it with weights.")


def _factors(
    graph: Graph, layers: Layers, method: str, split: Split, batch_size: int, context: Context
) -> dict[str, Tensor]:
    """Factor of each weight, from the model without formats and without the masks of these weights."""
    from espalier.passes.pruning.gradients import gradients
    from espalier.passes.pruning.input_energies import energies

    inside = {n.id for nodes in layers.values() for n in nodes}
    bare = graph.replace(*(replace(n, precision={}, sparsity=_others(n) if n.id in inside else n.sparsity)
                           for n in graph))  # fmt: skip
    if method == "wanda":
        of_bare = {name: [bare[n.id] for n in nodes] for name, nodes in layers.items()}
        return {k: v.sqrt().float() for k, v in energies(bare, of_bare, split, batch_size, context).items()}
    sums = gradients(bare, tuple(layers), split, batch_size, context, squared=method == "hessian")
    shaped: Mapping[str, Callable[[Tensor], Tensor]] = {
        "snip": lambda g: g, "movement": lambda g: -g, "hessian": lambda g: g.sqrt()
    }  # fmt: skip
    return {name: shaped[method](g) for name, g in sums.items()}


def _others(node: Node) -> dict[str, object]:
    return {p: s for p, s in node.sparsity.items() if p != "weight"}
