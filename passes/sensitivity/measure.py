"""The true divergence of a graph from its baseline: only what comes after the first change is computed again.

The baseline's values are kept where few are alive, or while one walks along it; a graph with other choices is built as
for any evaluation, so that its figures are those of `evaluate`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import build
from espalier.passes.base import Context
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.sensitivity.outputs import Outputs
from espalier.passes.sensitivity.partial_run import RESULT, Asked, Values

if TYPE_CHECKING:
    from espalier.model.data.base import Split

KEPT = 1 << 28  # bytes of a baseline's values that are kept for later


@dataclass(frozen=True, slots=True)
class Measured:
    """A graph against the baseline on the same samples. kl: nats a sample, or what `Outputs.words` says.

    accuracy, agreement (the share of samples with the baseline's class): None where the outputs are no classes.
    """

    kl: float
    accuracy: float | None
    agreement: float | None
    samples: int
    seconds: float


@dataclass(slots=True)
class _Batch:
    """Inputs of one batch, what the baseline makes of them, and values of its nodes that are kept."""

    inputs: Mapping[str, Tensor]
    labels: Tensor
    outputs: Tensor
    values: Values


class Baseline:
    """A reference graph on some samples, against which graphs with other choices at its nodes are measured.

    `keep`: bytes of intermediate values that may stay, spread along the graph; more make a late edit quicker.
    """

    def __init__(self, graph: Graph, split: Split, batch_size: int, context: Context, keep: int = KEPT) -> None:
        self.graph, self.context, self.outputs = graph, context, Outputs(graph)
        self._asked = Asked(build(graph, context.store, context.callables), graph)
        self._batches: list[_Batch] = []
        wanted: set[str] | None = None
        for inputs, labels in batches(split, graph, batch_size):
            with fit_error(inputs), torch.no_grad():
                if wanted is None:
                    wanted = {RESULT, *self._stops(inputs, keep * len(labels) // max(len(split), 1))}
                values = self._asked.values(inputs, {}, wanted)
            after = self.outputs.of(values.pop(RESULT))
            self._batches.append(_Batch(inputs, labels, after, values))
            context.progress(self.samples, len(split), "the baseline's outputs")
        self.outputs.learn(b.outputs for b in self._batches)

    @property
    def samples(self) -> int:
        """How many samples are measured on."""
        return sum(len(b.labels) for b in self._batches)

    def accuracy(self) -> float | None:
        """The baseline's own; None where its outputs are no classes."""
        if not self.outputs.classes:
            return None
        return sum(int((b.outputs.argmax(-1) == b.labels).sum()) for b in self._batches) / max(self.samples, 1)

    def measure(self, graph: Graph) -> Measured:
        """The divergence of `graph`: the baseline with other choices, or any other version of it."""
        return next(self.walk([graph]))

    def walk(self, graphs: Iterable[Graph]) -> Iterator[Measured]:
        """The divergence of each graph in turn. Graphs that change first at one node share all that comes before it;
        given in the order of the nodes that they change, they take one run of the baseline together.
        """
        place: str | None = None
        held = [b.values for b in self._batches]
        for graph in graphs:
            start = time.perf_counter()
            untouched = _untouched(graph, self.graph)
            first = next((n.id for n in self.graph if n.id not in untouched and n.call != "placeholder"), None)
            if first is not None and first != place:
                place, held = first, self._before(first, held)
            yield self._measured(graph, held, untouched, start)

    def _before(self, first: str, held: list[Values]) -> list[Values]:
        """For each batch, the values that the nodes from `first` on take, from those of a node before it."""
        found: list[Values] = []
        wanted = self._asked.before(first)
        for batch, values in zip(self._batches, held, strict=True):
            with torch.no_grad():
                more = self._asked.values(batch.inputs, {**batch.values, **values}, wanted) if wanted else {}
            found.append({**batch.values, **more})
        return found

    def _measured(self, graph: Graph, held: list[Values], untouched: set[str], start: float) -> Measured:
        asked = Asked(build(graph, self.context.store, self.context.callables), graph)
        lost, right, same = 0.0, 0, 0
        for batch, values in zip(self._batches, held, strict=True):
            known = {k: v for k, v in values.items() if k in untouched}
            with torch.no_grad():
                after = self.outputs.of(asked.values(batch.inputs, known, {RESULT})[RESULT])
            _check_shape(batch.outputs, after)
            lost += self.outputs.divergence(batch.outputs, after, batch.inputs)
            if self.outputs.classes:
                right += int((after.argmax(-1) == batch.labels).sum())
                same += int((after.argmax(-1) == batch.outputs.argmax(-1)).sum())
        count, told = max(self.samples, 1), self.outputs.classes
        seconds = time.perf_counter() - start
        return Measured(lost / count, right / count if told else None, same / count if told else None, count, seconds)

    def _stops(self, inputs: Mapping[str, Tensor], keep: int) -> set[str]:
        """The values to keep: those alive at places where few bytes are, as many such places as fit, spread evenly."""
        sizes = self._asked.sizes(inputs)
        names = [n for n in self.graph.nodes if sizes.get(n)]
        alive = [(n, self._asked.before(n)) for n in names]
        weights = {n: sum(sizes.get(v, 0) for v in values) for n, values in alive}
        least = sorted(w for w in weights.values() if w)
        if not least:
            return set()
        good = [(n, values) for n, values in alive if 0 < weights[n] <= 1.5 * least[len(least) // 10]]
        count = min(len(good), keep // max(least[len(least) // 10], 1))
        chosen = [good[(i + 1) * len(good) // (count + 1)] for i in range(count)]
        return {v for _, values in chosen for v in values}


def _check_shape(before: Tensor, after: Tensor) -> None:
    if before.shape != after.shape:
        shapes = " and ".join("×".join(map(str, x.shape)) for x in (before, after))
        raise PassError(f"The outputs of the baseline and of the model have other shapes: {shapes}.",
                        "Choose a baseline with the same head.")  # fmt: skip


def _untouched(graph: Graph, base: Graph) -> set[str]:
    """The nodes whose values are the baseline's, as no change bears on them."""
    weights = {k for k, w in graph.weights.items() if base.weights.get(k) != w}
    touched: set[str] = set()
    for node in graph:
        changed = _differs(node, base) or (weights and weights & set(node.tensors))
        if changed or any(r.node in touched for r in node.inputs):
            touched.add(node.id)
    return set(graph.nodes) - touched


_BESIDE = ("id", "ports", "outputs", "module_path", "source", "parallel")  # of a node, that change no value
_COMPUTES = tuple(f.name for f in fields(Node) if f.name not in _BESIDE)


def _differs(node: Node, base: Graph) -> bool:
    """Whether a node computes something else than in the baseline."""
    held = base.nodes.get(node.id)
    if held is None or held is node:
        return held is None
    return any(getattr(held, name) != getattr(node, name) for name in _COMPUTES)
