"""Measures accuracy and loss of the graph on data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.passes.figure import Figure, accuracy_of, hits_of, wilson
from espalier.passes.running.batches import fit, fit_error, logits_of
from espalier.passes.running.data_fit import text_facts
from espalier.passes.running.length_batches import batch_order, length_sorted_batches
from espalier.passes.running.splits import (
    EvaluateOptions,
    data_warning,
    length_of,
    load_task,
    measured_split,
    only_trains,
)
from espalier.passes.running.task_check import check_task
from espalier.passes.score import static_score
from espalier.passes.tasks.base import TASKS

if TYPE_CHECKING:
    from torch import Tensor, nn

    from espalier.model.data.base import Split, TaskData
    from espalier.passes.analysis.baseline import BaselineComparison


MAX_HITS = 1 << 18  # samples or tokens up to which a score stores which were right, for paired tests


@analysis("evaluate", "Evaluate", EvaluateOptions)
def evaluate(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Accuracy and mean cross-entropy of the graph on the data, its static score, and further figures of the task."""
    from espalier.model.torch.build import build

    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    split = measured_split(data, options.split, options.limit)
    if len(split) and int(split.labels.min()) < 0:
        raise DataError(f"{data.name} has hidden labels (−1).", "Choose a split or data with labels.")
    module, task = build(graph, context.store, context.callables, packed=True), TASKS.get(data.task)
    check_task(graph, split, context)
    comparison, correct = _comparison(options, context), list[bool]()
    accuracy, loss = measure(module, graph, split, options.batch_size, context, comparison, correct)
    score = static_score(graph).measured(accuracy, loss)
    summary: dict[str, Any] = {f: getattr(score, f) for f in score.__dataclass_fields__}
    summary |= noise_of(accuracy, correct, split, graph)
    summary |= _compared(summary, comparison, split, graph) if comparison else {}
    summary |= task.figures(loss, split) | {"unit": task.units}
    summary |= text_facts(split, length_of(options, context))
    return graph, Report("evaluate", (), {**summary, **_warning(data, options, context)})


def _compared(summary: dict[str, Any], comparison: BaselineComparison, split: Split, graph: Graph) -> dict[str, Any]:
    """The divergence from the baseline, and the change of the accuracy with a paired test."""
    figures, now = comparison.figures(), accuracy_of(summary)
    if now is None or not comparison.correct:
        return figures
    accuracy = sum(comparison.correct) / len(comparison.correct)
    before = Figure(accuracy, split.targets, str(noise_of(accuracy, comparison.correct, split, graph)["hits"]))
    change = now.against(before, figures["baseline"]).to_json()
    return {**figures, "baseline_accuracy": accuracy, "change": {"accuracy": change}}


def noise_of(accuracy: float, correct: Sequence[bool], split: Split, graph: Graph) -> dict[str, Any]:
    """Interval data of an accuracy: n, Wilson's interval, majority-class accuracy (`guessing`), correct ones (`hits`).

    `correct`: per sample or token, in the order of `length_sorted_batches`; `hits` is in the order of the data.
    """
    labels, n = split.labels[split.labels >= 0], split.targets
    rows = np.empty(split.labels.shape, bool)
    rows[batch_order(split, graph)] = np.reshape(correct, split.labels.shape)
    guessing = float(np.bincount(labels).max() / n) if len(labels) else None
    return {"n": n, "interval": list(wilson(accuracy, n)), "guessing": guessing,
            "hits": hits_of(rows.reshape(-1).tolist()) if n <= MAX_HITS else ""}  # fmt: skip


def _comparison(options: EvaluateOptions, context: Context) -> BaselineComparison | None:
    """The comparison with the baseline, if the options ask for it."""
    from espalier.passes.analysis.baseline import BaselineComparison, ComparedOptions

    return (
        BaselineComparison(context.base, options, context)
        if isinstance(options, ComparedOptions) and context.base
        else None
    )


def _warning(data: TaskData, options: EvaluateOptions, context: Context) -> dict[str, str]:
    """`data_warning`, and a warning if only the held-out part of training data is measured."""
    warning = data_warning(data, context, options.split)
    if options.split or not only_trains(data):
        return warning
    text = f"{data.name} has only training samples: the tenth that a training holds out for validation is measured."
    return {"warning": " ".join((*warning.values(), text))}


def measure(
    module: nn.Module, graph: Graph, split: Split, batch_size: int, context: Context,
    comparison: BaselineComparison | None = None, correct: list[bool] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """(accuracy, mean cross-entropy in nats) of a built module; `comparison` and `correct` (per sample) are filled."""
    import torch
    import torch.nn.functional as F

    from espalier.model.torch.in_place import in_place

    right, loss, count, total = 0, 0.0, 0, split.targets
    context.progress(0, total, "evaluating")
    with in_place(module), torch.no_grad():
        for inputs, labels in length_sorted_batches(split, graph, batch_size):
            result = _run(module, inputs)
            logits, targets = logits_of(result, graph), labels.reshape(-1)
            fit(logits, targets)
            hits = logits.argmax(-1) == targets
            right += int(hits.sum())
            if correct is not None:
                correct += hits.tolist()
            loss += float(F.cross_entropy(logits.float(), targets, reduction="sum"))
            count += len(targets)
            if comparison is not None:
                comparison.add(inputs, result, labels)
            context.progress(count, total, "evaluating")
    return right / max(count, 1), loss / max(count, 1)


def _run(module: nn.Module, inputs: dict[str, Tensor]) -> Any:
    with fit_error(inputs):
        return module(**inputs)
