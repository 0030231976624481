"""Measures the true divergence of a graph from its baseline, recomputing only the nodes after the first change.

Values of the baseline are cached where few are alive, and between consecutive graphs; a graph is built as for any
evaluation, so that its metrics are those of `evaluate`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from espalier.model.data.base import IGNORED
from espalier.model.errors import DataError, EspalierError, PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import build
from espalier.passes.base import Context
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.splits import compared_kind
from espalier.passes.sensitivity.outputs import Outputs
from espalier.passes.sensitivity.partial_run import RESULT, PartialRun, Values
from espalier.passes.tasks.base import task_of
from espalier.passes.tasks.scores import with_counted
from espalier.passes.tasks.tally import Tally

if TYPE_CHECKING:
    from espalier.model.data.base import Split

CACHE_BYTES = 1 << 28  # of a baseline's cached values
MAX_OUTPUTS = 4 << 30  # bytes of a baseline's outputs


@dataclass(frozen=True, slots=True)
class Measured:
    """A graph compared with the baseline on the same samples. kl: nats a sample, or as `Outputs.words` says.

    accuracy, agreement (share of samples with the baseline's class): None if the outputs are not classes. figures:
    metrics of the task, empty without labels.
    """

    kl: float
    accuracy: float | None
    agreement: float | None
    samples: int
    seconds: float
    targets: int = 0
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class _Batch:
    """One batch with the baseline's outputs and cached values of its nodes."""

    inputs: Mapping[str, Tensor]
    labels: Tensor
    outputs: Tensor
    values: Values


class Baseline:
    """A reference graph on some samples, with which graphs with other choices are compared.

    `keep`: bytes of cached intermediate values, spread along the graph; more make late changes faster.
    """

    def __init__(self, graph: Graph, split: Split, batch_size: int, context: Context, keep: int = CACHE_BYTES) -> None:
        self.graph, self.context, self.task = graph, context, task_of(split)
        self.outputs, self._hides = Outputs(graph, compared_kind(split, context)), self.task.hides(split.labels)
        self._run = PartialRun(build(graph, context.store, context.callables), graph)
        self._batches: list[_Batch] = []
        wanted: set[str] | None = None
        for inputs, labels in batches(split, graph, batch_size):
            with fit_error(inputs, graph), torch.no_grad():
                if wanted is None:
                    wanted = {RESULT, *self._stops(inputs, keep * len(labels) // max(len(split), 1))}
                values = self._run.values(inputs, {}, wanted)
            after = self.outputs.of(values.pop(RESULT))
            _check_size(after.nbytes * len(split) // max(len(labels), 1))
            self._batches.append(_Batch(inputs, labels, after, values))
            context.progress(self.samples, len(split), "the baseline's outputs")
        self.outputs.learn(b.outputs for b in self._batches)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(len(b.labels) for b in self._batches)

    def accuracy(self) -> float | None:
        """The baseline's accuracy; None if its outputs are not scores of the labels."""
        return self.figures().get("accuracy")

    def figures(self) -> dict[str, float]:
        """The baseline's metrics; empty if its outputs are not scores of the labels."""
        if not self._scored:
            return {}
        tally = Tally(self.task)
        for batch in self._batches:
            tally.add(self.task.scores(batch.outputs, self.graph), batch.labels)
        return tally.figures()

    @property
    def targets(self) -> int:
        """Number of labels: the samples, or the tokens of all windows."""
        return sum(int((b.labels != IGNORED).sum()) for b in self._batches)

    @property
    def _scored(self) -> bool:
        """Whether the outputs are scores of the labels."""
        if self._hides or not self.task.compares(self.outputs.kind) or not self._batches:
            return False
        try:
            for batch in self._batches:
                self.task.fit(self.task.scores(batch.outputs, self.graph), batch.labels)
        except EspalierError:
            return False
        return True

    def measure(self, graph: Graph) -> Measured:
        """Measure `graph`, any version of the baseline."""
        return next(self.walk([graph]))

    def walk(self, graphs: Iterable[Graph]) -> Iterator[Measured]:
        """Measure each graph in turn. Graphs with the same first changed node share the values before it; in the order
        of these nodes, all graphs together need one run of the baseline.
        """
        previous: str | None = None
        cached = [b.values for b in self._batches]
        for graph in graphs:
            start = time.perf_counter()
            untouched = _untouched(graph, self.graph)
            first = next((n.id for n in self.graph if n.id not in untouched and n.call != "placeholder"), None)
            if first is not None and first != previous:
                previous, cached = first, self._before(first, cached)
            yield self._measured(graph, cached, untouched, start)

    def _before(self, first: str, cached: list[Values]) -> list[Values]:
        """For each batch, the values read by `first` and later nodes, computed from those of an earlier node."""
        result: list[Values] = []
        wanted = self._run.before(first)
        for batch, values in zip(self._batches, cached, strict=True):
            with torch.no_grad():
                more = self._run.values(batch.inputs, {**batch.values, **values}, wanted) if wanted else {}
            result.append({**batch.values, **more})
        return result

    def _measured(self, graph: Graph, cached: list[Values], untouched: set[str], start: float) -> Measured:
        run = PartialRun(build(graph, self.context.store, self.context.callables), graph)
        divergence, same, scored, tally = 0.0, 0, self._scored, Tally(self.task)
        for batch, values in zip(self._batches, cached, strict=True):
            known = {k: v for k, v in values.items() if k in untouched}
            with torch.no_grad():
                after = self.outputs.of(run.values(batch.inputs, known, {RESULT})[RESULT])
            _check_shape(batch.outputs, after)
            seen = with_counted(batch.inputs, batch.labels)
            divergence += self.outputs.divergence(batch.outputs, after, seen)
            if scored:
                before, now = (self.task.scores(x, self.graph) for x in (batch.outputs, after))
                tally.add(now, batch.labels)
                same += self.task.agreeing(now, before, batch.labels)
        count, seconds, hits = max(self.samples, 1), time.perf_counter() - start, tally.hits() if scored else None
        targets = count if hits is None else max(len(hits), 1)
        agreement = None if hits is None else same / targets
        figures = tally.figures() if scored else {}
        return Measured(divergence / count, figures.get("accuracy"), agreement, count, seconds, targets, figures)

    def _stops(self, inputs: Mapping[str, Tensor], keep: int) -> set[str]:
        """Values to cache: those alive at nodes with few live bytes, as many nodes as fit, spread evenly."""
        sizes = self._run.sizes(inputs)
        names = [n for n in self.graph.nodes if sizes.get(n)]
        alive = [(n, self._run.before(n)) for n in names]
        weights = {n: sum(sizes.get(v, 0) for v in values) for n, values in alive}
        least = sorted(w for w in weights.values() if w)
        if not least:
            return set()
        good = [(n, values) for n, values in alive if 0 < weights[n] <= 1.5 * least[len(least) // 10]]
        count = min(len(good), keep // max(least[len(least) // 10], 1))
        chosen = [good[(i + 1) * len(good) // (count + 1)] for i in range(count)]
        return {v for _, values in chosen for v in values}


def _check_size(size: int) -> None:
    """Raise DataError if the baseline's outputs would take more than MAX_OUTPUTS bytes."""
    if size > MAX_OUTPUTS:
        raise DataError(f"The baseline's outputs take {size / 2**30:.1f} GiB.", "Lower the limit of samples.")


def _check_shape(before: Tensor, after: Tensor) -> None:
    if before.shape != after.shape:
        shapes = " and ".join("×".join(map(str, x.shape)) for x in (before, after))
        raise PassError(f"The outputs of the baseline and of the model differ in shape: {shapes}.",
                        "Choose a baseline with the same head.")  # fmt: skip


def _untouched(graph: Graph, base: Graph) -> set[str]:
    """Nodes whose values equal the baseline's: neither they nor their inputs are changed."""
    weights = {k for k, w in graph.weights.items() if base.weights.get(k) != w}
    touched: set[str] = set()
    for node in graph:
        changed = _differs(node, base) or (weights and weights & set(node.tensors))
        if changed or any(r.node in touched for r in node.inputs):
            touched.add(node.id)
    return set(graph.nodes) - touched


_IRRELEVANT = ("id", "ports", "outputs", "module_path", "source", "parallel")  # fields that change no value
_COMPUTES = tuple(f.name for f in fields(Node) if f.name not in _IRRELEVANT)


def _differs(node: Node, base: Graph) -> bool:
    """Whether a node's computation differs from the baseline."""
    before = base.nodes.get(node.id)
    if before is None or before is node:
        return before is None
    return any(getattr(before, name) != getattr(node, name) for name in _COMPUTES)
