"""Measure accuracy and loss of the graph as it is, on data."""

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
from espalier.passes.score import static_score

if TYPE_CHECKING:
    from torch import Tensor, nn

    from espalier.model.data.base import Split, TaskData
    from espalier.passes.analysis.baseline import Beside


@analysis("evaluate", "Evaluate", EvaluateOptions)
def evaluate(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Accuracy and mean cross-entropy of the graph on the data, with its static score."""
    from espalier.model.torch.build import build

    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    split = measured_split(data, options.split, options.limit)
    if len(split) and int(split.labels.min()) < 0:
        raise DataError(f"{data.name} has hidden labels (−1).", "Choose a split or data with labels.")
    module = build(graph, context.store, context.callables, packed=True)
    beside, correct = _beside(options, context), list[bool]()
    accuracy, loss = measure(module, graph, split, options.batch_size, context, beside, correct)
    score = static_score(graph).measured(accuracy, loss)
    summary: dict[str, Any] = {f: getattr(score, f) for f in score.__dataclass_fields__}
    summary |= noise_of(accuracy, correct, split, graph)
    summary |= _compared(summary, beside, split, graph) if beside else {}
    summary |= text_facts(split, length_of(options, context))
    return graph, Report("evaluate", (), {**summary, **_warning(data, options, context)})


def _compared(summary: dict[str, Any], beside: Beside, split: Split, graph: Graph) -> dict[str, Any]:
    """The divergence from the baseline, and how far the accuracy is from its own, sample by sample."""
    told, now = beside.figures(), accuracy_of(summary)
    if now is None or not beside.right:
        return told
    own = sum(beside.right) / len(beside.right)
    before = Figure(own, len(split), str(noise_of(own, beside.right, split, graph)["hits"]))
    return {**told, "baseline_accuracy": own, "change": {"accuracy": now.against(before, told["baseline"]).to_json()}}


def noise_of(accuracy: float, correct: Sequence[bool], split: Split, graph: Graph) -> dict[str, Any]:
    """What an accuracy is told with: n, Wilson's interval, the share of the most frequent class, which were right.

    `correct`: of each sample, in the order in which `arranged` gives them; `hits` has them in that of the data.
    """
    labels = split.labels[split.labels >= 0]
    rows = np.empty(len(split), bool)
    rows[batch_order(split, graph)] = correct
    guessing = float(np.bincount(labels).max() / len(split)) if len(labels) else None
    return {"n": len(split), "interval": list(wilson(accuracy, len(split))), "guessing": guessing,
            "hits": hits_of(rows.tolist())}  # fmt: skip


def _beside(options: EvaluateOptions, context: Context) -> Beside | None:
    """What tells the divergence from the baseline, where that is wanted."""
    from espalier.passes.analysis.baseline import Beside, BesideOptions

    return Beside(context.base, options, context) if isinstance(options, BesideOptions) and context.base else None


def _warning(data: TaskData, options: EvaluateOptions, context: Context) -> dict[str, str]:
    """As `data_warning`, and that it was measured on a part of them."""
    found = data_warning(data, context, options.split)
    if options.split or not only_trains(data):
        return found
    text = f"{data.name} has training samples alone: the tenth that a training with validation holds out is measured."
    return {"warning": " ".join((*found.values(), text))}


def measure(
    module: nn.Module, graph: Graph, split: Split, batch_size: int, context: Context, beside: Beside | None = None,
    right: list[bool] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """(accuracy, mean cross-entropy) of a built module; `beside` hears what it makes of each batch, `right` of each
    sample whether its class was.
    """
    import torch
    import torch.nn.functional as F

    from espalier.model.torch.in_place import unheard

    correct, loss, seen = 0, 0.0, 0
    context.progress(0, len(split), "evaluating")
    with unheard(module), torch.no_grad():
        for inputs, labels in length_sorted_batches(split, graph, batch_size):
            result = _run(module, inputs)
            logits = logits_of(result, graph)
            fit(logits, labels)
            hits = logits.argmax(-1) == labels
            correct += int(hits.sum())
            if right is not None:
                right += hits.tolist()
            loss += float(F.cross_entropy(logits.float(), labels, reduction="sum"))
            seen += len(labels)
            if beside is not None:
                beside.hear(inputs, result, labels)
            context.progress(seen, len(split), "evaluating")
    return correct / max(seen, 1), loss / max(seen, 1)


def _run(module: nn.Module, inputs: dict[str, Tensor]) -> Any:
    with fit_error(inputs):
        return module(**inputs)
