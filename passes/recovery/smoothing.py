"""Scales that move outliers of activations into weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Row
from espalier.passes.recovery.channel_scales import ChannelScales
from espalier.passes.recovery.groups import Group
from espalier.passes.recovery.layers import Layer, check_inputs, matrix_of, plain, weight_of
from espalier.passes.running.observing import observe

if TYPE_CHECKING:
    from espalier.model.data.base import Split

_ROWS = 1024  # input vectors per group for measuring the error of its formats
_MIN_SCALE = 1e-5  # as in the paper's code


@dataclass(slots=True)
class GroupInput:
    """Statistics of a group's input: `top` [channels] largest magnitudes, and a sample of its `rows`."""

    top: Tensor | None = None
    rows: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """Add a batch [..., channels]."""
        rows = x.detach().reshape(-1, x.shape[-1]).float()
        top = rows.abs().amax(0)
        self.top = top if self.top is None else torch.maximum(self.top, top)
        count = 0 if self.rows is None else len(self.rows)
        part = rows[: max(0, _ROWS - count)].clone()
        self.rows = part if self.rows is None else torch.cat([self.rows, part])


def observed(graph: Graph, groups: list[Group], split: Split, batch_size: int, context: Context) -> list[GroupInput]:
    """Statistics of each group's input in the float model."""
    inputs = {g.consumers[0].id: GroupInput() for g in groups}
    ports = {i: ("data_in",) for i in inputs}
    observe(plain(graph), split, batch_size, ports, lambda node, _, x: inputs[node].add(x), context)
    for node, found in inputs.items():
        if found.top is not None:
            check_inputs(found.top, graph.nodes[node])
    return [inputs[g.consumers[0].id] for g in groups]


class Smoothing(ChannelScales):
    """Smooths groups one by one."""

    def __init__(self, graph: Graph, alpha: float, store: WeightStore) -> None:
        super().__init__(graph, store)
        self.alpha = alpha
        self.rows: list[Row] = []

    def smooth(self, group: Group, inputs: GroupInput) -> None:
        """Divide the group's input by s_j = max|X_j|^α / max|W_j|^(1−α), and multiply its weights by s_j."""
        assert inputs.top is not None and inputs.rows is not None
        weights = [self.matrix(x) for x in group.layers]
        top = torch.stack([w.abs().amax(0) for w in weights]).amax(0)
        scale = (inputs.top**self.alpha / top ** (1 - self.alpha)).clamp(min=_MIN_SCALE)
        scale = torch.where((inputs.top > 0) & (top > 0) & scale.isfinite(), scale, 1.0)
        errors = [self._errors(x, inputs.rows, w, scale) for x, w in zip(group.layers, weights, strict=True)]
        self.apply(group, scale)
        for layer, (before, after) in zip(group.layers, errors, strict=True):
            self.rows.append({
                "node": layer.nodes[0].id, "source": group.source.node, "folded": bool(group.producers),
                "outliers_before": _outliers(inputs.top), "outliers": _outliers(inputs.top / scale),
                "scale_min": float(scale.min()), "scale_max": float(scale.max()),
                "error_before": before, "error": after,
            })  # fmt: skip

    def _errors(self, layer: Layer, x: Tensor, weight: Tensor, scale: Tensor) -> tuple[float | None, float | None]:
        """‖Y − Ŷ‖²/‖Y‖² with the formats of data_in and weight, before and after scaling; None without formats."""
        node = layer.nodes[0]
        formats = {p: node.precision[p].format for p in ("data_in", "weight") if p in node.precision}
        exact = x @ weight.T
        power = float(exact.square().sum())
        if not formats or not power:
            return None, None

        def error(x: Tensor, w: Tensor) -> float:
            x = formats["data_in"].forward(x) if "data_in" in formats else x
            stored = weight_of(layer, w, w.T if layer.transposed else w)
            w = matrix_of(layer, formats["weight"].forward(stored)) if "weight" in formats else w
            return float((x @ w.T - exact).square().sum()) / power

        return error(x, weight), error(x / scale, weight * scale)


def _outliers(top: Tensor) -> float | None:
    """The largest channel magnitude over the median one."""
    middle = float(top.median())
    return float(top.max()) / middle if middle else None
