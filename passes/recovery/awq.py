"""AWQ: scales of input channels by the mean magnitude of activations, and clipping by the error of outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, group_elements
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.store.weights import WeightStore
from espalier.model.torch.leaf_builder import effective
from espalier.model.torch.tensors import to_numpy
from espalier.passes.base import Row
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.recovery.channel_scales import ChannelScales
from espalier.passes.recovery.compensate import output_error
from espalier.passes.recovery.groups import Group
from espalier.passes.recovery.layers import Layer, check_inputs, matrix_of, rows_of, weight_of
from espalier.passes.recovery.walk import Stop

MIN_SCALE = 1e-4  # as in the authors' code
SHRINKS, STEP = 10, 20  # factors 1, 0.95, … 0.55 of the range
# Names of Linears that an attention multiplies with one another; the authors clip none of them.
PRODUCTS = ("q_", "k_", "query", "key", "qkv", "c_attn")


class Moments:
    """Of a Linear's inputs: `hessian` 2·XXᵀ [inputs, inputs] and `mean` |x| [inputs], float32.

    Raises PassError for inputs that are not finite.
    """

    def __init__(self, stop: Stop) -> None:
        self.hessian = torch.zeros(())
        total, count = torch.zeros((), dtype=torch.float64), 0
        for x in stop.inputs():
            rows = rows_of(stop.node, x)
            self.hessian = self.hessian + 2 * rows.T @ rows
            total, count = total + rows.abs().sum(0, dtype=torch.float64), count + len(rows)
        check_inputs(self.hessian, stop.node)
        self.mean = (total / max(count, 1)).float()


def candidates(mean: Tensor, grid: int) -> list[tuple[float, Tensor]]:
    """(α, s) with s = mean|x|^α over the geometric middle of its extremes, for α = 0, 1/n, … (n − 1)/n."""
    found: list[tuple[float, Tensor]] = []
    for i in range(grid):
        scale = mean.pow(i / grid).clamp(min=MIN_SCALE)
        found.append((i / grid, scale / (scale.max() * scale.min()).sqrt()))
    return found


class Scaling(ChannelScales):
    """Scales groups one by one, by the least squared error of the outputs under their weights' formats."""

    def __init__(self, graph: Graph, grid: int, store: WeightStore) -> None:
        super().__init__(graph, store)
        self.grid = grid
        self.rows: list[Row] = []

    def scale(self, group: Group, inputs: Moments) -> None:
        """Scale a group by the s with the least Σ‖(W − Q(W·s)/s)X‖² over its Linears."""
        weights = [(x, self.matrix(x)) for x in group.layers]
        rounded = [(x, w) for x, w in weights if "weight" in x.nodes[0].precision]
        tried = candidates(inputs.mean, self.grid)
        errors = [(sum(self._error(x, w, s, inputs.hessian) for x, w in rounded), i) for i, (_, s) in enumerate(tried)]
        least, best = min(errors)
        alpha, scale = tried[best]
        if alpha:
            self.apply(group, scale)
        power = sum(output_error(inputs.hessian, w) for _, w in rounded)
        self.rows += [
            {"node": x.nodes[0].id, "source": group.source.node, "folded": bool(group.producers), "alpha": alpha,
             "scale_min": float(scale.min()) if alpha else 1.0, "scale_max": float(scale.max()) if alpha else 1.0,
             "error_rounded": errors[0][0] / power if power else None, "error": least / power if power else None}
            for x, _ in rounded
        ]  # fmt: skip

    def _error(self, layer: Layer, matrix: Tensor, scale: Tensor, hessian: Tensor) -> float:
        return output_error(hessian, self._rounded(layer, matrix * scale) / scale - matrix)

    def _rounded(self, layer: Layer, matrix: Tensor) -> Tensor:
        """The matrix in the format of the layer's weight, in the weight's own type."""
        quantiser = effective(layer.nodes[0], "weight", self.graph, self.store)
        return matrix_of(layer, quantiser(weight_of(layer, matrix, self.tensor(layer.name))))


class Clipping(ChannelScales):
    """Gives weights static scales that clip them, one by one."""

    def clip(self, layer: Layer, inputs: Moments) -> Row:
        """Take the share of the range with the least ‖(w − ŵ)X‖² of each row and group."""
        node = layer.nodes[0]
        chosen = node.precision["weight"]
        fmt, matrix = cast("ScaledFormat", chosen.format), self.matrix(layer)
        scale, before, after = clipped(fmt, matrix, inputs.hessian)
        row: Row = {"node": node.id, "clipped_error_before": before, "clipped_error": after}
        if scale is None:
            return row
        name, value = scale_name(node, "weight", self.graph.weights), to_numpy(scale.clone())
        weight = Weight(self.store.hold(value), value.shape, value.dtype, "buffer", False)
        nodes = (self.graph.nodes[n.id] for n in layer.nodes)
        precision = {"weight": replace(chosen, scale=name)}
        self.graph = self.graph.replace(*(replace(n, precision={**n.precision, **precision}) for n in nodes))
        self.graph = self.graph.with_weights({name: weight})
        return row


def why_not_clipped(layer: Layer) -> str:
    """Why a layer's weight is not clipped; empty if it is."""
    node = layer.nodes[0]
    chosen = node.precision.get("weight")
    if chosen is None:
        return "its weight has no format"
    fmt: Any = chosen.format
    per = fmt.per if isinstance(fmt, ScaledInteger | ScaledElement) else TENSOR
    if per == TENSOR:
        return f"{fmt.label} has no scale for each row or group"
    if chosen.scale:
        return "it has a fixed scale"
    name = node.target.rpartition(".")[2] if node.call == "call_module" else node.id
    return "an attention multiplies it with another" if any(p in name for p in PRODUCTS) else ""


def clipped(fmt: ScaledFormat, matrix: Tensor, hessian: Tensor) -> tuple[Tensor | None, float, float]:
    """(scale [rows, groups] with the least error of each row's and group's part of the output, error before, after).

    None where no share below 1 is better. Errors are relative to ‖WX‖².
    """
    per = cast("Any", fmt).per
    blocks = _blocks(hessian, matrix.shape[1] if per == ROW else per)
    base = fmt.scale_of(matrix)
    best, least, first = torch.ones(()), None, None
    for i in range(SHRINKS):
        factor = 1 - i / STEP
        error = _by_group(fmt.forward_with(matrix, base * factor) - matrix, blocks)
        if least is None:
            least = first = error
            continue
        better = error < least
        best, least = torch.where(better, factor, best), torch.where(better, error, least)
    assert least is not None and first is not None
    power = float(_by_group(matrix, blocks).sum()) or 1.0
    scale = base * best if bool((best != 1).any()) else None
    return scale, float(first.sum()) / power, float(least.sum()) / power


def _blocks(hessian: Tensor, group: int) -> Tensor:
    """[groups, group, group] the part of the Hessian within each group; zero beyond the last input."""
    count = -(-len(hessian) // group)
    padded = torch.zeros(count * group, count * group)
    padded[: len(hessian), : len(hessian)] = hessian
    return torch.stack([padded[i * group : (i + 1) * group, i * group : (i + 1) * group] for i in range(count)])


def _by_group(difference: Tensor, blocks: Tensor) -> Tensor:
    """[rows, groups] of the squared output of each group's columns alone."""
    parts = group_elements(difference, blocks.shape[-1])
    return (torch.einsum("oga,gab->ogb", parts, blocks) * parts).sum(-1)
