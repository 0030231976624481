"""GPTQ on the layers of a graph as a walk comes to them: Hessians, the solver, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import effective, parameters_of
from espalier.model.torch.layers import Effective
from espalier.passes.base import Row
from espalier.passes.observed.scales import weight_scale
from espalier.passes.recovery.columns import columns_of
from espalier.passes.recovery.compensate import compensated, output_error
from espalier.passes.recovery.layers import Layer, matrix_of, rows_of, weight_of
from espalier.passes.recovery.walk import Stop

if TYPE_CHECKING:
    from espalier.passes.choices.gptq import GptqOptions

_ROUNDS = 8  # of a format that gives another value when it sees its own values again


class Rounding:
    """The layers of the built `module`; a weight that several calls share is solved for at the last of them.

    `given`: layers whose scale was there before. `better`: layers whose weights changed, in the end.
    """

    def __init__(
        self, graph: Graph, module: nn.Module, layers: list[Layer], options: GptqOptions, store: WeightStore
    ) -> None:
        self.graph, self.options, self.store = graph, options, store
        self.tensors = parameters_of(module)
        self.layers = {n.id: x for x in layers for n in x.nodes}
        self.seen: dict[str, int] = {}
        self.hessians: dict[str, Tensor] = {}
        self.rows: list[Row] = []
        self.better: list[Layer] = []

    def visit(self, stop: Stop) -> None:
        """Add to the layer's Hessian; after its last call, solve."""
        layer = self.layers[stop.node.id]
        for x in stop.inputs():
            rows = rows_of(stop.node, x)
            part, held = 2 * rows.T @ rows, self.hessians.get(layer.name)
            self.hessians[layer.name] = part if held is None else held.add_(part)
        self.seen[layer.name] = self.seen.get(layer.name, 0) + 1
        if self.seen[layer.name] == len(layer.nodes):
            self._solve(layer, self.hessians.pop(layer.name))

    def _solve(self, layer: Layer, hessian: Tensor) -> None:
        live, chosen = self.tensors[layer.name], self.graph.nodes[layer.nodes[0].id].precision["weight"]
        scale = self.tensors[chosen.scale] if chosen.scale else None
        taken = effective(layer.nodes[0], "weight", self.graph, self.store, scale)
        stored, old = live.detach().clone(), None if scale is None else scale.detach().clone()
        mask = None if taken.mask is None else matrix_of(layer, taken.mask).bool()
        before = _masked(matrix_of(layer, stored), mask)

        def error() -> float:
            return output_error(hessian, before - matrix_of(layer, taken(live.detach())))

        rounded = error()
        live.copy_(self._rounded(layer, taken, hessian, before, stored, mask))
        found, exact = error(), torch.equal(*(_masked(matrix_of(layer, v), mask) for v in (taken(live.detach()), live)))
        changed = found < rounded
        if not changed:
            live.copy_(stored)
            if scale is not None and old is not None:
                scale.data.copy_(old)
        self.better += [layer] if changed else []
        power = output_error(hessian, before)
        self.rows.append({
            "node": layer.nodes[0].id, "format": chosen.label, "changed": changed, "exact": exact and changed,
            "error_rounded": rounded, "error": found if changed else rounded,
            "relative_rounded": rounded / power if power else None,
            "relative": (found if changed else rounded) / power if power else None,
        })  # fmt: skip

    def _rounded(
        self, layer: Layer, taken: Effective, hessian: Tensor, before: Tensor, stored: Tensor, mask: Tensor | None
    ) -> Tensor:
        """The new weight in the shape of the old; the scale of its format is written where it has one of its own."""
        fmt, scale = taken.format, taken.scale
        assert fmt is not None
        own = scale is not None and layer.nodes[0].precision["weight"].scale is None
        given = None if own or scale is None else scale.detach()
        columns = columns_of(fmt, before, given, self._scale_of, layer.transposed)
        options = self.options
        found = compensated(before, hessian, columns, mask, options.damping, options.act_order)
        if own and scale is not None and columns.scale is not None:
            scale.data.copy_(columns.scale)
        # What is pruned keeps its value, so that a lower sparsity brings it back.
        kept = found if mask is None else torch.where(mask, found, matrix_of(layer, stored))
        return _settled(taken, weight_of(layer, kept, stored), mask is not None)

    def _scale_of(self, fmt: ScaledFormat, x: Tensor) -> Tensor:
        return weight_scale(fmt, x, "mse", 100.0) if self.options.clip else fmt.scale_of(x)


def _masked(matrix: Tensor, mask: Tensor | None) -> Tensor:
    return matrix if mask is None else matrix * mask


def _settled(taken: Effective, value: Tensor, pruned: bool) -> Tensor:
    """`value` as its format gives it, again and again, until that does not change it."""
    for _ in range(_ROUNDS):
        seen = taken(value)
        if pruned and taken.mask is not None:
            seen = torch.where(taken.mask.bool(), seen, value)
        if torch.equal(seen, value):
            break
        value = seen
    return value
