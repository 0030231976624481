"""Accuracy and loss of many graphs on the same data, with results shared between them.

The figures equal those of `evaluate`: the same batches, summed in the same order.
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
from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build
from espalier.passes.analysis.evaluate import noise_of
from espalier.passes.base import Context
from espalier.passes.running.batches import fit, fit_error, logits_of
from espalier.passes.running.length_batches import length_sorted_batches
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split
from espalier.passes.running.task_check import check_task
from espalier.passes.search.results import Results
from espalier.passes.search.trial_run import PartialResult

MAX_HITS = 1 << 16  # samples up to which a trial stores which were classified correctly
MAX_REFERENCE = 4 << 30  # bytes of the baseline's scores
MAX_GRAPHS = 8  # graphs whose losses per sample stay in memory for comparison


class Evaluator:
    """Evaluates graphs on data that is read and batched once. `rungs`: sample counts of intermediate results."""

    def __init__(self, base: Graph, options: EvaluateOptions, context: Context, rungs: tuple[int, ...]) -> None:
        self.base, self.options, self.context = base, options, context
        data = load_task(options, context.reading, whole=options.split in ("", "all"))
        split = measured_split(data, options.split, options.limit)
        check_task(base, split, context)
        self.batches = list(length_sorted_batches(split, base, options.batch_size))
        self.results = Results([inputs for inputs, _ in self.batches])
        self.total = len(split)
        self.order = [int(i) for i in np.random.default_rng(0).permutation(len(self.batches))]
        self.rungs = rungs
        # (losses, correct) by the fingerprint of a graph, for rungs.
        self.samples: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._reference: list[Tensor] | None = None
        self.margins: Any = None  # (samples,) of the graph measured last
        self.noise: dict[str, Any] = {}  # interval data of its accuracy
        self._split = split

    def measure(
        self, graph: Graph, show: Callable[[PartialResult], None] = lambda result: None, kl: bool = False
    ) -> dict[str, float]:
        """accuracy (0 to 1), loss (nats) and, if `kl`, kl (nats a sample); `show` takes the result at each rung and may
        raise.
        """
        sums, seen = _Accumulator(len(self.batches)), 0
        rungs = [r for r in self.rungs if r < self.total]
        with torch.no_grad():
            run = self.results.runner(graph, self.context.store, self.context.callables or {})
            for number in self.order if rungs else range(len(self.batches)):
                inputs, labels = self.batches[number]
                with fit_error(inputs):
                    logits, targets = logits_of(run(number), graph), labels.reshape(-1)
                fit(logits, targets)
                sums.add(number, logits, targets, self.reference[number] if kl else None)
                seen += len(labels)
                self.context.progress(seen, self.total, "evaluating")
                if rungs and seen >= rungs[0]:
                    rungs = [r for r in rungs if r > seen]
                    show(sums.partial_result())
        self.margins, self.noise = sums.margins(), self._noise(sums)
        if self.rungs:
            self._store_samples(fingerprint(graph), sums)
        return sums.figures()

    def _noise(self, sums: _Accumulator) -> dict[str, Any]:
        """The interval data of `evaluate`; above MAX_HITS samples without the list of hits."""
        noise = noise_of(sums.figures()["accuracy"], sums.hits(), self._split, self.base)
        return {k: noise[k] for k in ("n", "guessing", *(("hits",) if self._split.targets <= MAX_HITS else ()))}

    def _store_samples(self, name: str, sums: _Accumulator) -> None:
        self.samples[name] = sums.losses(), sums.correct()
        while len(self.samples) > MAX_GRAPHS:
            self.samples.popitem(last=False)

    @property
    def reference(self) -> list[Tensor]:
        """Log-probabilities of the base graph, by batch."""
        if self._reference is None:
            module = build(self.base, self.context.store, self.context.callables)
            found: list[Tensor] = []
            with torch.no_grad():
                for inputs, _ in self.batches:
                    found.append(F.log_softmax(logits_of(module(**inputs), self.base).float(), -1))
                    self._check_size(4 * self._split.targets * found[0].shape[-1])
            self._reference = found
        return self._reference

    @staticmethod
    def _check_size(size: int) -> None:
        if size > MAX_REFERENCE:
            raise DataError(
                f"The scores of the baseline, with which KL is measured, take {size / 2**30:.1f} GiB.",
                "Lower the limit of samples of the search's data, or choose a goal other than kl.",
            )


class _Accumulator:
    """Sums by batch number, so that they are added in the order of the data whatever order the batches ran in."""

    def __init__(self, count: int) -> None:
        self._sums: list[tuple[int, float, float] | None] = [None] * count
        self._losses: list[Any] = []
        self._correct: list[Any] = []
        self._margins: list[Any] = [None] * count
        self._hits: list[list[bool]] = [[] for _ in range(count)]
        self.count = 0  # samples, or tokens of windows

    def add(self, number: int, logits: Tensor, labels: Tensor, reference: Tensor | None) -> None:
        """Add a batch: logits (rows, classes), labels (rows,), log-probabilities of the reference."""
        right = logits.argmax(-1) == labels
        plain = logits.float()
        loss = float(F.cross_entropy(plain, labels, reduction="sum"))
        kl = 0.0 if reference is None else _divergence(reference, plain)
        self._sums[number] = int(right.sum()), loss, kl
        self._losses.append(F.cross_entropy(plain, labels, reduction="none").numpy())
        self._correct.append(right.numpy())
        self._margins[number] = _margins(plain, labels)
        self._hits[number] = right.tolist()
        self.count += len(labels)
        self._kl = reference is not None

    def losses(self) -> Any:
        """(samples,) cross-entropies, in the order of the run."""
        return np.concatenate(self._losses)

    def correct(self) -> Any:
        """(samples,) booleans, in the order of the run."""
        return np.concatenate(self._correct)

    def hits(self) -> list[bool]:
        """Per sample whether the prediction is right, in the order of the batches."""
        return [hit for batch in self._hits for hit in batch]

    def margins(self) -> Any:
        """(samples,) margins, in the order of the batches."""
        return np.concatenate(self._margins)

    def figures(self) -> dict[str, float]:
        """Means over the samples so far."""
        sums = [s for s in self._sums if s is not None]
        loss = kl = 0.0
        for _, batch_loss, batch_kl in sums:  # one by one, as `evaluate` adds them
            loss += batch_loss
            kl += batch_kl
        count = max(self.count, 1)
        means = {"accuracy": sum(s[0] for s in sums) / count, "loss": loss / count}
        return means | ({"kl": kl / count} if self._kl else {})

    def partial_result(self) -> PartialResult:
        """The result over the samples so far."""
        return PartialResult(self.count, self.figures(), self.losses(), self.correct())


def _margins(logits: Tensor, labels: Tensor) -> Any:
    """(batch,) logit of the true class minus the highest other; below 0: misclassified."""
    at = labels.clamp(min=0)[:, None]
    return (logits.gather(-1, at) - logits.scatter(-1, at, -torch.inf).amax(-1, keepdim=True))[:, 0].numpy()


def _divergence(reference: Tensor, logits: Tensor) -> float:
    """Σ over samples of KL(reference ‖ softmax(logits)), in nats; at least 0 despite rounding."""
    mine = F.log_softmax(logits, -1)
    return max(0.0, float((reference.exp() * (reference - mine)).double().sum()))
