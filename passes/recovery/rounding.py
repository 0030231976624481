"""GPTQ on the layers of a graph during a walk: Hessians, solver, and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from espalier.model.errors import PassError
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import parameters_of
from espalier.model.torch.layers import Effective
from espalier.model.torch.leaf_builder import effective
from espalier.passes.base import Row
from espalier.passes.observed.scales import weight_scale
from espalier.passes.recovery.columns import columns_of
from espalier.passes.recovery.compensate import compensated, output_error
from espalier.passes.recovery.layers import Layer, check_inputs, matrix_of, rows_of, weight_of
from espalier.passes.recovery.walk import Stop

if TYPE_CHECKING:
    from espalier.passes.choices.gptq import GptqOptions

_ROUNDS = 8  # at most, of rounding again with a format that is not idempotent


class Rounding:
    """Rounds layers of the built `module`; a shared weight is solved for at its last call.

    `better`: layers whose weights changed.
    """

    def __init__(
        self, graph: Graph, module: nn.Module, layers: list[Layer], options: GptqOptions, store: WeightStore
    ) -> None:
        self.graph, self.options, self.store = graph, options, store
        self.tensors = parameters_of(module)
        self.layers = {n.id: x for x in layers for n in x.nodes}
        self.calls: dict[str, int] = {}
        self.hessians: dict[str, Tensor] = {}
        self.rows: list[Row] = []
        self.better: list[Layer] = []

    def visit(self, stop: Stop) -> None:
        """Add to the layer's Hessian; after its last call, solve. Raises PassError for inputs that are not finite."""
        layer = self.layers[stop.node.id]
        for x in stop.inputs():
            rows = rows_of(stop.node, x)
            part, hessian = 2 * rows.T @ rows, self.hessians.get(layer.name)
            self.hessians[layer.name] = part if hessian is None else hessian.add_(part)
        self.calls[layer.name] = self.calls.get(layer.name, 0) + 1
        if self.calls[layer.name] == len(layer.nodes):
            hessian = self.hessians.pop(layer.name)
            check_inputs(hessian, stop.node)
            self._solve(layer, hessian)

    def _solve(self, layer: Layer, hessian: Tensor) -> None:
        live, chosen = self.tensors[layer.name], self.graph.nodes[layer.nodes[0].id].precision["weight"]
        scale = self.tensors[chosen.scale] if chosen.scale else None
        quantiser = effective(layer.nodes[0], "weight", self.graph, self.store, scale)
        stored, old = live.detach().clone(), None if scale is None else scale.detach().clone()
        mask = None if quantiser.mask is None else matrix_of(layer, quantiser.mask).bool()
        before = _masked(matrix_of(layer, stored), mask)

        def error() -> float:
            return output_error(hessian, before - matrix_of(layer, quantiser(live.detach())))

        rounded = error()
        live.copy_(self._rounded(layer, quantiser, hessian, before, stored, mask))
        values = (_masked(matrix_of(layer, v), mask) for v in (quantiser(live.detach()), live))
        solved, exact = error(), torch.equal(*values)
        changed = solved < rounded
        if not changed:
            live.copy_(stored)
            if scale is not None and old is not None:
                scale.data.copy_(old)
        self.better += [layer] if changed else []
        power = output_error(hessian, before)
        self.rows.append({
            "node": layer.nodes[0].id, "format": chosen.label, "changed": changed, "exact": exact and changed,
            "error_rounded": rounded, "error": solved if changed else rounded,
            "relative_rounded": rounded / power if power else None,
            "relative": (solved if changed else rounded) / power if power else None,
        })  # fmt: skip

    def _rounded(
        self, layer: Layer, quantiser: Effective, hessian: Tensor, before: Tensor, stored: Tensor, mask: Tensor | None
    ) -> Tensor:
        """The new weight in the shape of the old; a scale that the format had computed is updated."""
        fmt, scale = quantiser.format, quantiser.scale
        assert fmt is not None
        is_new = scale is not None and layer.nodes[0].precision["weight"].scale is None
        fixed = None if is_new or scale is None else scale.detach()
        columns = columns_of(fmt, before, fixed, self._scale_of, layer.transposed)
        options = self.options
        solution = compensated(before, hessian, columns, mask, options.damping, options.act_order)
        if is_new and scale is not None and columns.scale is not None:
            if columns.scale.numel() != scale.numel():
                raise PassError(
                    f"{layer.nodes[0].id} stores its weight by inputs, and its format has a scale for each of them; "
                    "GPTQ needs a scale for each output.",
                    "Choose a format with blocks, such as mxint4, or one scale for the tensor.",
                    layer.nodes[0].id,
                )
            scale.data.copy_(columns.scale)
        # Pruned weights keep their values, so that a lower sparsity restores them.
        matrix = solution if mask is None else torch.where(mask, solution, matrix_of(layer, stored))
        return _fixed_point(quantiser, weight_of(layer, matrix, stored), mask is not None)

    def _scale_of(self, fmt: ScaledFormat, x: Tensor) -> Tensor:
        return weight_scale(fmt, x, "mse", 100.0) if self.options.clip else fmt.scale_of(x)


def _masked(matrix: Tensor, mask: Tensor | None) -> Tensor:
    return matrix if mask is None else matrix * mask


def _fixed_point(quantiser: Effective, value: Tensor, pruned: bool) -> Tensor:
    """`value` rounded repeatedly until rounding does not change it."""
    for _ in range(_ROUNDS):
        result = quantiser(value)
        if pruned and quantiser.mask is not None:
            result = torch.where(quantiser.mask.bool(), result, value)
        if torch.equal(result, value):
            break
        value = result
    return value
