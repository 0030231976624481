"""Metrics of many graphs on the same data, with results shared between them.

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

from espalier.model.data.base import CLASSIFICATION
from espalier.model.document.graph_json import fingerprint
from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build
from espalier.passes.analysis.evaluate import constant, noise_of
from espalier.passes.base import Context
from espalier.passes.running.batches import check_rows, fit_error
from espalier.passes.running.length_batches import length_sorted_batches
from espalier.passes.running.splits import EvaluateOptions, compared_kind, load_task, measured_split
from espalier.passes.running.task_check import check_task
from espalier.passes.search.results import Results
from espalier.passes.search.trial_run import PartialResult
from espalier.passes.sensitivity.outputs import Outputs
from espalier.passes.tasks.base import ACCURACY, task_of
from espalier.passes.tasks.scores import with_counted
from espalier.passes.tasks.tally import Tally

MAX_HITS = 1 << 16  # samples up to which a trial stores which were classified correctly
MAX_ERRORS = 1 << 12  # samples up to which it stores their errors
MAX_REFERENCE = 4 << 30  # bytes of the baseline's scores
MAX_GRAPHS = 8  # graphs whose losses per sample stay in memory for comparison


class Evaluator:
    """Evaluates graphs on data that is read and batched once. `rungs`: sample counts of intermediate results."""

    def __init__(self, base: Graph, options: EvaluateOptions, context: Context, rungs: tuple[int, ...]) -> None:
        self.base, self.options, self.context = base, options, context
        data = load_task(options, context.reading, whole=options.split in ("", "all"))
        split = measured_split(data, options.split, options.limit)
        check_task(base, split, context)
        self.task = task_of(split)
        self.batches = list(length_sorted_batches(split, base, options.batch_size))
        self.results = Results([inputs for inputs, _ in self.batches])
        self.total = len(split)
        self.order = [int(i) for i in np.random.default_rng(0).permutation(len(self.batches))]
        self.rungs = rungs
        # (losses, correct) by the fingerprint of a graph, for rungs.
        self.samples: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._reference: list[Tensor] | None = None
        self.margins: Any = None  # (samples,) of the graph measured last
        self.noise: dict[str, Any] = {}  # interval data of its main metric
        self._split, self._guessing = split, constant(data, split)
        self._outputs = Outputs(base, compared_kind(split, context))

    def measure(
        self, graph: Graph, show: Callable[[PartialResult], None] = lambda result: None, kl: bool = False
    ) -> dict[str, float]:
        """The task's metrics, its loss and, if `kl`, kl (nats a sample or token); `show` takes the result at each rung
        and may raise.
        """
        tally, lost, seen = Tally(self.task, len(self.batches)), [0.0] * len(self.batches), 0
        margins: list[Any] = [None] * len(self.batches)
        rungs = [r for r in self.rungs if r < self.total]
        with torch.no_grad():
            run = self.results.runner(graph, self.context.store, self.context.callables or {})
            for number in self.order if rungs else range(len(self.batches)):
                inputs, labels = self.batches[number]
                with fit_error(inputs, graph):
                    result = run(number)
                scores = self.task.scores(result, graph)
                check_rows(scores, graph, labels)
                self.task.fit(scores, labels)
                tally.add(scores, labels, number)
                margins[number] = self.task.margins(scores, labels)
                lost[number] = self._divergence(number, result, scores) if kl else 0.0
                seen += len(labels)
                self.context.progress(seen, self.total, "evaluating")
                if rungs and seen >= rungs[0]:
                    rungs = [r for r in rungs if r > seen]
                    figures = _with_kl(tally, lost, kl)
                    show(PartialResult(tally.units, figures, tally.losses(), tally.correct()))
        self.margins = None if any(m is None for m in margins) else np.concatenate(margins)
        self.noise = self._noise(tally)
        if self.rungs:
            self._store_samples(fingerprint(graph), tally)
        return _with_kl(tally, lost, kl)

    def _noise(self, tally: Tally) -> dict[str, Any]:
        """The interval data of `evaluate`; for many samples without those of each."""
        noise = noise_of(tally, self._split, self.base, self._guessing, full=False)
        long = [*(["hits"] if self._split.targets > MAX_HITS else []), *(["errors"] if self.total > MAX_ERRORS else [])]
        plain = () if "better" in noise else ("interval",)  # that of a share follows from n
        usual = {"task": CLASSIFICATION, "metric": ACCURACY.name, "hits": ""}  # of a trial that does not say
        return {k: v for k, v in noise.items() if k not in (*long, *plain) and (k not in usual or v != usual[k])}

    def _divergence(self, number: int, result: Any, scores: Tensor) -> float:
        """Σ over a batch's samples or tokens of the divergence from the base graph, in nats."""
        before = self.reference[number]
        if self.task.rows:
            return _divergence(before, scores.float())
        return self._outputs.divergence(before, self._outputs.of(result), with_counted(*self.batches[number]))

    def _store_samples(self, name: str, tally: Tally) -> None:
        self.samples[name] = tally.losses(), tally.correct()
        while len(self.samples) > MAX_GRAPHS:
            self.samples.popitem(last=False)

    @property
    def reference(self) -> list[Tensor]:
        """Log-probabilities of the base graph, by batch; of tasks without rows of classes its outputs."""
        if self._reference is None:
            module = build(self.base, self.context.store, self.context.callables)
            found: list[Tensor] = []
            size = 0
            with torch.no_grad():
                for inputs, _ in self.batches:
                    result = module(**inputs)
                    if self.task.rows:
                        found.append(F.log_softmax(self.task.scores(result, self.base).float(), -1))
                    else:
                        found.append(self._outputs.of(result))
                    size += found[-1].nbytes
                    self._check_size(max(size, found[0].nbytes * len(self.batches)))
            self._outputs.learn(found)
            self._reference = found
        return self._reference

    @staticmethod
    def _check_size(size: int) -> None:
        if size > MAX_REFERENCE:
            raise DataError(
                f"The scores of the baseline, with which KL is measured, take {size / 2**30:.1f} GiB.",
                "Lower the limit of samples of the search's data, or choose a goal other than kl.",
            )


def _with_kl(tally: Tally, lost: list[float], kl: bool) -> dict[str, float]:
    """Metrics over the samples so far, and the mean divergence."""
    count = tally.units if tally.task.rows else tally.count
    return tally.figures() | ({"kl": sum(lost) / max(count, 1)} if kl else {})


def _divergence(reference: Tensor, logits: Tensor) -> float:
    """Σ over samples of KL(reference ‖ softmax(logits)), in nats; at least 0 despite rounding."""
    mine = F.log_softmax(logits, -1)
    return max(0.0, float((reference.exp() * (reference - mine)).double().sum()))
