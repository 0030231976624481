"""A forward and a backward pass, the same for one process and for a rank, and the difference of their results."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph
from espalier.passes.tasks.scores import logits_of

TOLERANCE = 1e-5  # of relative differences
FLOOR = 0.01


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs by name, and the labels of classes if there are any."""

    inputs: dict[str, Tensor]
    labels: Tensor | None = None


def results_of(value: Any) -> list[Tensor]:
    """All tensors of a nested result, in order."""
    return [v for v in pytree.tree_leaves(value) if isinstance(v, Tensor)]


def loss_of(result: Any, graph: Graph, labels: Tensor | None) -> Tensor | None:
    """Cross-entropy of the class scores, without labels the mean square of the results; None if nothing trains."""
    if labels is not None and not labels.is_floating_point():
        try:
            scores = logits_of(result, graph)
            fits = scores.shape[0] == labels.numel() and int(labels.min()) >= 0 and int(labels.max()) < scores.shape[-1]
            if scores.requires_grad and fits:
                return F.cross_entropy(scores.float(), labels.reshape(-1))
        except GraphError:  # no class scores
            pass
    trained = [v for v in results_of(result) if v.requires_grad and v.is_floating_point() and v.numel()]
    return sum((v.float().square().mean() for v in trained), torch.zeros(())) if trained else None


def passes(
    model: Callable[..., Any], graph: Graph, batches: Iterable[Batch], tensors: Mapping[str, Tensor],
    settle: Callable[[Tensor, Tensor], Tensor] = lambda gradient, tensor: gradient,
) -> tuple[list[list[Tensor]], dict[str, Tensor]]:  # fmt: skip
    """Results of each batch, and the gradients of all of them together, by weight name."""
    results = list[list[Tensor]]()
    for tensor in tensors.values():
        tensor.grad = None
    for batch in batches:
        with torch.enable_grad():
            value = model(**batch.inputs)
            loss = loss_of(value, graph, batch.labels)
        results.append([v.detach() for v in results_of(value)])
        if loss is not None:
            loss.backward()
    gradients = {n: settle(t.grad, t) for n, t in tensors.items() if t.grad is not None}
    for tensor in tensors.values():
        tensor.grad = None
    return results, gradients


def timed(run: Callable[[], Any], before: Callable[[], Any], runs: int = 3) -> float:
    """Median seconds of `run`, with an untimed `before` each."""
    times = list[float]()
    for _ in range(runs):
        before()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def peak_bytes(device: str) -> int:
    """Largest memory of this process so far: resident, on a GPU what torch allocated there."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two lists of tensors. `largest`: absolute; `relative`: to the largest value of the tensor, but at least FLOOR
    of the largest of all, since what is 0 but for rounding is no measure."""

    largest: float
    relative: float
    equal: bool
    worst: str = ""

    @property
    def within(self) -> bool:
        """Whether it is no more than rounding."""
        return self.relative <= TOLERANCE

    def to_json(self) -> dict[str, Any]:
        """Its figures."""
        return {"largest": self.largest, "relative": self.relative, "equal": self.equal, "worst": self.worst,
                "within": self.within, "tolerance": TOLERANCE}  # fmt: skip


def difference(expected: Mapping[str, Tensor], actual: Mapping[str, Tensor]) -> Difference:
    """The difference of tensors by name; a missing one or another shape counts as infinite."""
    largest, relative, equal, worst = 0.0, 0.0, True, ""
    tops = {n: float(t.double().nan_to_num().abs().max()) for n, t in expected.items() if t.numel()}
    least = FLOOR * max(tops.values(), default=0.0) or 1.0
    for name, first in expected.items():
        second = actual.get(name)
        if second is None or second.shape != first.shape:
            return Difference(float("inf"), float("inf"), False, name)
        if not first.numel() or torch.equal(first, second):
            continue
        a, b = first.double().nan_to_num(), second.double().nan_to_num()
        distance = float((a - b).abs().max()) if torch.equal(first.isnan(), second.isnan()) else float("inf")
        equal &= distance == 0
        scaled = distance / max(tops[name], least)
        largest = max(largest, distance)
        if scaled > relative:
            relative, worst = scaled, name
    return Difference(largest, relative, equal, worst)
