"""Gradients of the model's loss with respect to weights, over a data sample, for SNIP, movement and OBD scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build, parameters_of
from espalier.passes.base import Context
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.objective import Objective
from espalier.passes.tasks.base import task_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split


def gradients(
    graph: Graph, names: Sequence[str], split: Split, batch_size: int, context: Context, squared: bool = False
) -> dict[str, Tensor]:
    """Weight name → sum of the gradients of each sample's loss, or of their squares; the model is in eval mode.

    `squared` needs one backward pass per sample, since the square of a mean is not the mean of squares.
    """
    module = build(graph, context.store, context.callables)
    objective = Objective(module, graph, task=task_of(split)).eval()
    live = parameters_of(module)
    for name, tensor in live.items():
        if tensor.is_floating_point():
            tensor.requires_grad_(name in names)
    sums = {name: torch.zeros(live[name].shape) for name in names}
    wanted = [live[n] for n in names]
    for count, loss in _each(objective, split, graph, 1 if squared else batch_size, context):
        for name, value in zip(names, torch.autograd.grad(loss, wanted, materialize_grads=True), strict=True):
            sums[name] += value.float().square() if squared else value.float() * count
    return sums


def _each(
    objective: Objective, split: Split, graph: Graph, size: int, context: Context
) -> Iterator[tuple[int, Tensor]]:
    """(samples, mean loss) of each batch."""
    seen = 0
    for inputs, labels in batches(split, graph, size):
        given = {k: v for k, v in inputs.items() if k != "labels"}
        with fit_error(inputs, graph), torch.enable_grad():
            loss = objective(labels, **given)["loss"]
        yield len(labels), loss
        seen += len(labels)
        context.progress(seen, len(split), "gradients")
