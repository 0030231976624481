"""Corrects biases layer by layer, so that the mean of each channel equals that of the float model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import parameters_of
from espalier.passes.base import Context, Row
from espalier.passes.recovery.layers import check_inputs
from espalier.passes.recovery.walk import Stop
from espalier.passes.running.observing import observe

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@dataclass(slots=True)
class Mean:
    """The running mean of each channel of a layer's results, in float64."""

    total: Tensor | None = None
    count: int = 0

    def add(self, node: Node, y: Tensor) -> None:
        """Add a batch of the node's results."""
        axis = -1 if node.op == "linear" else y.dim() - int(node.op[-2]) - 1
        rows = y.movedim(axis, -1).reshape(-1, y.shape[axis])
        total = rows.sum(0, dtype=torch.float64)
        self.total = total if self.total is None else self.total + total
        self.count += len(rows)

    @property
    def value(self) -> Tensor:
        """[channels]."""
        assert self.total is not None
        return self.total / self.count


def means(graph: Graph, ids: list[str], split: Split, batch_size: int, context: Context) -> dict[str, Tensor]:
    """Node → [channels] means of its results, before the format of data_out."""
    sums = {i: Mean() for i in ids}
    ports = {i: ("data_out",) for i in ids}
    observe(graph, split, batch_size, ports, lambda i, _, y: sums[i].add(graph.nodes[i], y), context)
    for i, mean in sums.items():
        check_inputs(mean.value, graph.nodes[i], "results")
    return {i: mean.value for i, mean in sums.items()}


class Correction:
    """Corrects layers of the built `module` during a walk; `biases`: node → name of its bias, which it does not share.

    `targets`: node → E[y]. `changed`: the nodes whose bias changed.
    """

    def __init__(self, module: nn.Module, biases: dict[str, str], targets: dict[str, Tensor]) -> None:
        self.tensors, self.biases, self.targets = parameters_of(module), biases, targets
        self.changed: set[str] = set()
        self.rows: list[Row] = []

    def visit(self, stop: Stop) -> None:
        """Add the mean error of a layer's result to its bias, unless its format then increases the error."""
        live, before = self.tensors[self.biases[stop.node.id]], self._shift(stop)
        stored = live.detach().clone()
        live.copy_(stored.double() + before)
        after = self._shift(stop)
        changed = bool(after.norm() < before.norm())
        if not changed:
            live.copy_(stored)
        self.changed |= {stop.node.id} if changed else set()
        self.rows.append({"node": stop.node.id, "changed": changed, "channels": len(before),
                          "shift_before": _rms(before), "shift": _rms(after if changed else before)})  # fmt: skip

    def _shift(self, stop: Stop) -> Tensor:
        """[channels] E[y] − E[ŷ]."""
        mean = Mean()
        for _, y in stop.pairs():
            mean.add(stop.node, y)
        return self.targets[stop.node.id] - mean.value


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())
