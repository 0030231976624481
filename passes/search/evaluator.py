"""Accuracy and loss of one graph after another on the same data: what does not change between them is kept.

Exactly the figures of `evaluate`: the same batches, summed in the same order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.model.document.graph_json import fingerprint
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build
from espalier.passes.analysis.evaluate import noise_of
from espalier.passes.base import Context
from espalier.passes.running.batches import fit, fit_error, logits_of
from espalier.passes.running.length_batches import length_sorted_batches
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split
from espalier.passes.search.results import Results
from espalier.passes.search.trial_run import Seen

PAIRED = 1 << 16  # samples up to which each trial tells which it had right
KEPT = 8  # graphs whose losses by sample are kept for comparison


class Evaluator:
    """Data read and arranged once."""

    def __init__(self, base: Graph, options: EvaluateOptions, context: Context, rungs: tuple[int, ...]) -> None:
        self.base, self.options, self.context = base, options, context
        data = load_task(options, context.reading, whole=options.split in ("", "all"))
        split = measured_split(data, options.split, options.limit)
        self.batches = list(length_sorted_batches(split, base, options.batch_size))
        self.results = Results([inputs for inputs, _ in self.batches])
        self.total = len(split)
        self.order = [int(i) for i in np.random.default_rng(0).permutation(len(self.batches))]
        self.rungs = rungs
        # Of graphs by their fingerprints, where rungs compare.
        self.known: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._reference: list[Tensor] | None = None
        self.margins: Any = None  # of the graph that was measured last
        self.noise: dict[str, Any] = {}  # and what its accuracy is told with
        self._split = split

    def measure(
        self, graph: Graph, show: Callable[[Seen], None] = lambda seen: None, kl: bool = False
    ) -> dict[str, float]:
        """accuracy, loss and, asked for, kl; `show` is told at each rung, and may raise."""
        found = _Found(len(self.batches))
        rungs = [r for r in self.rungs if r < self.total]
        with torch.no_grad():
            run = self.results.runner(graph, self.context.store, self.context.callables or {})
            for place in self.order if rungs else range(len(self.batches)):
                inputs, labels = self.batches[place]
                with fit_error(inputs):
                    logits = logits_of(run(place), graph)
                fit(logits, labels)
                found.take(place, logits, labels, self.reference[place] if kl else None)
                self.context.progress(found.seen, self.total, "evaluating")
                if rungs and found.seen >= rungs[0]:
                    rungs = [r for r in rungs if r > found.seen]
                    show(found.told())
        self.margins, self.noise = found.margins(), self._noise(found)
        if self.rungs:
            self._keep(fingerprint(graph), found)
        return found.figures()

    def _noise(self, found: _Found) -> dict[str, Any]:
        """As an evaluation tells it; of very many samples without which were right."""
        hits = found.hits()
        told = noise_of(found.figures()["accuracy"], hits, self._split, self.base)
        wanted = ("n", "guessing", "hits") if self.total <= PAIRED else ("n", "guessing")
        return {k: told[k] for k in wanted}

    def _keep(self, name: str, found: _Found) -> None:
        self.known[name] = found.losses(), found.correct()
        while len(self.known) > KEPT:
            self.known.popitem(last=False)

    @property
    def reference(self) -> list[Tensor]:
        """Log-probabilities of the first graph, batch by batch."""
        if self._reference is None:
            module = build(self.base, self.context.store, self.context.callables)
            with torch.no_grad():
                made = [logits_of(module(**inputs), self.base) for inputs, _ in self.batches]
            self._reference = [F.log_softmax(m.float(), -1) for m in made]
        return self._reference


class _Found:
    """What batches gave, by their places, so that sums run in the order of the data whatever order they came in."""

    def __init__(self, count: int) -> None:
        self._sums: list[tuple[int, float, float] | None] = [None] * count
        self._losses: list[Any] = []
        self._correct: list[Any] = []
        self._margins: list[Any] = [None] * count
        self._hits: list[list[bool]] = [[] for _ in range(count)]
        self.seen = 0

    def take(self, place: int, logits: Tensor, labels: Tensor, reference: Tensor | None) -> None:
        """One batch."""
        right = logits.argmax(-1) == labels
        plain = logits.float()
        loss = float(F.cross_entropy(plain, labels, reduction="sum"))
        kl = 0.0 if reference is None else _divergence(reference, plain)
        self._sums[place] = int(right.sum()), loss, kl
        self._losses.append(F.cross_entropy(plain, labels, reduction="none").numpy())
        self._correct.append(right.numpy())
        self._margins[place] = _margins(plain, labels)
        self._hits[place] = right.tolist()
        self.seen += len(labels)
        self._kl = reference is not None

    def losses(self) -> Any:
        """Of each sample, in the order that they ran in."""
        return np.concatenate(self._losses)

    def correct(self) -> Any:
        """Of each sample."""
        return np.concatenate(self._correct)

    def hits(self) -> list[bool]:
        """Of each sample whether it was right, in the order in which the batches are arranged."""
        return [hit for batch in self._hits for hit in batch]

    def margins(self) -> Any:
        """Of each sample, in the order of the data."""
        return np.concatenate(self._margins)

    def figures(self) -> dict[str, float]:
        """Of what was seen so far."""
        there = [s for s in self._sums if s is not None]
        loss = kl = 0.0
        for _, each, far in there:  # one by one, as `evaluate` adds them
            loss += each
            kl += far
        seen = max(self.seen, 1)
        found = {"accuracy": sum(s[0] for s in there) / seen, "loss": loss / seen}
        return found | ({"kl": kl / seen} if self._kl else {})

    def told(self) -> Seen:
        """As a trial shows it."""
        return Seen(self.seen, self.figures(), self.losses(), self.correct())


def _margins(logits: Tensor, labels: Tensor) -> Any:
    """By how much each sample's class is ahead of the next; below 0: it is behind."""
    at = labels.clamp(min=0)[:, None]
    return (logits.gather(-1, at) - logits.scatter(-1, at, -torch.inf).amax(-1, keepdim=True))[:, 0].numpy()


def _divergence(reference: Tensor, logits: Tensor) -> float:
    """Σ over samples of KL(reference ‖ logits); never below 0 by rounding."""
    mine = F.log_softmax(logits, -1)
    return max(0.0, float((reference.exp() * (reference - mine)).double().sum()))
