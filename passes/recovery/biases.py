"""Biases that bring the mean of each channel back to what the float model gives, layer after layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import parameters_of
from espalier.passes.base import Context, Row
from espalier.passes.recovery.walk import Stop
from espalier.passes.running.observing import observe

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@dataclass(slots=True)
class Mean:
    """Of a layer's results: the sum of each channel, float64, and how many there were."""

    total: Tensor | None = None
    count: int = 0

    def add(self, node: Node, y: Tensor) -> None:
        """Take in a batch of the node's results."""
        axis = -1 if node.op == "linear" else y.dim() - int(node.op[-2]) - 1
        rows = y.movedim(axis, -1).reshape(-1, y.shape[axis])
        total = rows.sum(0, dtype=torch.float64)
        self.total = total if self.total is None else self.total + total
        self.count += len(rows)

    @property
    def value(self) -> Tensor:
        """The mean of each channel."""
        assert self.total is not None
        return self.total / self.count


def means(graph: Graph, ids: list[str], split: Split, batch_size: int, context: Context) -> dict[str, Tensor]:
    """The mean of each channel of what the nodes give, before any format of their result."""
    found = {i: Mean() for i in ids}
    wanted = {i: ("data_out",) for i in ids}
    observe(graph, split, batch_size, wanted, lambda i, _, y: found[i].add(graph.nodes[i], y), context)
    return {i: mean.value for i, mean in found.items()}


class Correction:
    """The layers of the built `module` as a walk comes to them; `biases`: node → the name of its bias, its alone.

    `wanted`: node → E[y]. `changed`: the nodes whose bias changed, in the end.
    """

    def __init__(self, module: nn.Module, biases: dict[str, str], wanted: dict[str, Tensor]) -> None:
        self.tensors, self.biases, self.wanted = parameters_of(module), biases, wanted
        self.changed: set[str] = set()
        self.rows: list[Row] = []

    def visit(self, stop: Stop) -> None:
        """Add the shift of a layer's result to its bias; a bias whose format cannot follow stays."""
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
        """E[y] − E[ŷ] of each channel."""
        mean = Mean()
        for _, y in stop.pairs():
            mean.add(stop.node, y)
        return self.wanted[stop.node.id] - mean.value


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())
