"""Compares two versions of a model on the same batches, port by port.

One batch is in memory at a time, and is smaller if the compared results would take more than MAX_BYTES.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import view_at
from espalier.model.torch.build import build
from espalier.model.torch.leaf_builder import effective
from espalier.passes.base import Context
from espalier.passes.figure import Figure, main_figure
from espalier.passes.observed.difference import Comparison
from espalier.passes.observed.stored_tensors import stored_scale
from espalier.passes.observed.tensor_statistics import PortRef, operands, port_map
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.observing import tap
from espalier.passes.score import one_sample
from espalier.passes.tasks.base import task_of
from espalier.passes.tasks.tally import Tally

if TYPE_CHECKING:
    from espalier.model.data.base import Split

MAX_BYTES = 1 << 28


class Scores:
    """The metrics of one model; `scored`: whether its outputs are scores of the labels."""

    def __init__(self, split: Split) -> None:
        self._split, self._tally = split, Tally(task_of(split))
        self.scored = not self._tally.task.hides(split.labels)

    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Add a batch."""
        try:
            if self.scored:
                self._tally.task.fit(scores, labels)
                self._tally.add(scores, labels)
        except DataError:
            self.scored = False

    @property
    def main(self) -> Figure | None:
        """The main metric with its samples; None without scores."""
        if not self.scored:
            return None
        noise = self._tally.noise(self._split, np.arange(len(self._split)), None, full=False)
        return main_figure(self._tally.figures() | noise)

    @property
    def loss(self) -> float:
        """Mean loss of a sample or token."""
        return self._tally.figures().get("loss", 0.0)


@dataclass(slots=True)
class Outcome:
    """Comparisons of each format on an activation, of each result and of the logits; scores of both models."""

    before: Scores
    after: Scores
    activations: dict[PortRef, Comparison] = field(default_factory=dict[PortRef, Comparison])
    outputs: dict[PortRef, Comparison] = field(default_factory=dict[PortRef, Comparison])
    logits: Comparison = field(default_factory=Comparison)
    same: int = 0


def compare_models(plain: Graph, graph: Graph, split: Split, batch_size: int, context: Context) -> Outcome:
    """Run `plain` (float) and `graph` (the same nodes with formats) on `split`; raises DataError for unfit data.

    Compares the results of all nodes with formats: `plain`'s before any format, `graph`'s after its own.
    """
    work = _ModelComparison(plain, graph, split, context)
    size = min(batch_size, max(1, MAX_BYTES // max(work.sample_bytes, 1)))
    seen = 0
    with torch.no_grad():
        for inputs, labels in batches(split, graph, size):
            with fit_error(inputs, graph):
                work.step(inputs, labels)
            seen += len(labels)
            context.progress(seen, len(split), "comparing with the float model")
    return work.outcome


def scored(graph: Graph, split: Split, batch_size: int, context: Context) -> Scores:
    """Scores of one model on `split`."""
    score, module = Scores(split), build(graph, context.store, context.callables)
    with torch.no_grad():
        for inputs, labels in batches(split, graph, batch_size):
            with fit_error(inputs, graph):
                score.add(task_of(split).scores(module(**inputs), graph), labels)
    return score


class _ModelComparison:
    def __init__(self, plain: Graph, graph: Graph, split: Split, context: Context) -> None:
        self.graph, self.context, self.task = graph, context, task_of(split)
        self.outcome = Outcome(Scores(split), Scores(split))
        chosen = [n for n in graph if n.precision]
        self._results = {n.id: ["data_out"] for n in chosen if "data_out" in n.ports}
        wanted = {(n.id, p): operands(n, p) for n in chosen for p in n.precision if weight_at(n, p, graph) is None}
        ports, self._port_of = port_map(wanted)
        for name in self._results:
            ports[name] = [*dict.fromkeys((*ports.get(name, ()), "data_out"))]
        self._reference: dict[str, deque[Tensor]] = {n: deque() for n in self._results}
        self._plain = tap(build(plain, context.store, context.callables), plain, self._results, self._store)
        self._after = tap(build(graph, context.store, context.callables), graph, ports, self._compare)
        self._scales = {(n, p): stored_scale(graph[n].precision[p], graph, context.store) for n, p in wanted}
        sizes = one_sample(graph)
        self.sample_bytes = sum(4 * graph[n].ports["data_out"].elements(sizes) for n in self._results)

    def step(self, inputs: Mapping[str, Tensor], labels: Tensor) -> None:
        """Run one batch."""
        before = self.task.scores(self._plain(inputs), self.graph)
        after = self.task.scores(self._after(inputs), self.graph)
        self.outcome.logits.add(before, after)
        self.outcome.before.add(before, labels)
        self.outcome.after.add(after, labels)
        if self.outcome.after.scored:
            self.outcome.same += self.task.agreeing(after, before, labels)

    def _store(self, node: str, port: str, x: Tensor) -> None:
        self._reference[node].append(x.clone())  # a later node may write in place

    def _compare(self, node: str, port: str, x: Tensor) -> None:
        target = self._port_of.get((node, port))
        if target is not None:
            fmt, view = self.graph[node].precision[target[1]].format, view_at(self.graph[node], port)
            viewed = x if view is None or not fmt.rowwise else view.of(x)
            self.outcome.activations.setdefault(target, Comparison()).add_format(fmt, viewed, self._scales[target])
        if port == "data_out" and self._reference[node]:
            result = self._formatted(self.graph[node], x)
            self.outcome.outputs.setdefault((node, port), Comparison()).add(self._reference[node].popleft(), result)

    def _formatted(self, node: Node, x: Tensor) -> Any:
        """A node's result after its output format."""
        return effective(node, "data_out", self.graph, self.context.store)(x) if "data_out" in node.precision else x
