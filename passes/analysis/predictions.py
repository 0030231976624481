"""The predicted class of each sample: confusion matrix, and misclassifications by confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.figure import wilson
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split
from espalier.passes.tasks.base import TASKS
from espalier.passes.tasks.scores import fit, is_defined, logits_of

if TYPE_CHECKING:
    from espalier.model.data.base import Array, Split

NONE = -1  # the predicted class of a sample whose scores are not finite


@dataclass(frozen=True, slots=True)
class Predictions:
    """Per sample: true class, predicted class, and the probability of the predicted class (`confidence`).

    Samples whose scores are not finite have a last class of their own, with confidence 0.
    """

    split: str
    classes: tuple[str, ...]
    labels: Array
    predicted: Array
    confidence: Array

    @property
    def wrong(self) -> Array:
        """The numbers of misclassified samples, by decreasing confidence."""
        import numpy as np

        at = np.flatnonzero(self.predicted != self.labels)
        return at[np.argsort(-self.confidence[at], kind="stable")]

    def confusion(self) -> Array:
        """int64 [true class, predicted class]: numbers of samples."""
        import numpy as np

        side = len(self.classes)
        return np.bincount(self.labels * side + self.predicted, minlength=side * side).reshape(side, side)


@analysis("predictions", "Confusion of classes", EvaluateOptions)
def predictions(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Confusion matrix, recall and precision of each class; `mean_confidence` is over all samples, `wrong_confidence`
    over misclassified ones.
    """
    from espalier.model.torch.build import build

    task = load_task(options, context.reading, whole=options.split in ("", "all"))
    if not task.classes or not TASKS.get(task.task).confuses:
        raise DataError(f"The task {task.task} has no single class a sample, so no classes are confused.",
                        "Evaluate the model instead.")  # fmt: skip
    split = measured_split(task, options.split, options.limit)
    module = build(graph, context.store, context.callables, packed=True)
    predicted, confidence, width = predict(module, graph, split, options.batch_size, context)
    extra = tuple(f"class {n}" for n in range(len(task.classes), width))
    if (predicted == NONE).any():
        extra = *extra, "none (scores not finite)"
        predicted[predicted == NONE] = len(task.classes) + len(extra) - 1
    result = Predictions(options.split, (*task.classes, *extra), split.labels, predicted, confidence)
    context.found(result)
    right = predicted == split.labels
    accuracy = float(right.mean())
    summary: dict[str, Any] = {"n": len(split), "wrong": int((~right).sum()), "accuracy": accuracy,
                               "interval": list(wilson(accuracy, len(split))),
                               "mean_confidence": float(confidence.mean())}  # fmt: skip
    if not right.all():
        summary["wrong_confidence"] = float(confidence[~right].mean())
    return graph, Report("predictions", tuple(_rows(result)), summary)


def predict(module: Any, graph: Graph, split: Split, size: int, context: Context) -> tuple[Array, Array, int]:
    """([samples] predicted classes, [samples] their probabilities, number of classes); NONE and 0 without a softmax."""
    import numpy as np
    import torch

    from espalier.model.torch.in_place import in_place

    predicted, confidence, width = [], [], 0
    with in_place(module), torch.no_grad():
        for inputs, labels in batches(split, graph, size):
            with fit_error(inputs, graph):
                logits = logits_of(module(**inputs), graph)
            fit(logits, labels)
            best, defined = logits.float().softmax(-1).max(-1), is_defined(logits)
            predicted.append(best.indices.where(defined, NONE).numpy())
            confidence.append(best.values.where(defined, 0.0).numpy())
            width = logits.shape[-1]
            context.progress(sum(map(len, predicted)), len(split), "predicting")
    return np.concatenate(predicted), np.concatenate(confidence).astype(np.float32), width


def _rows(result: Predictions) -> list[Row]:
    matrix = result.confusion()
    rows: list[Row] = []
    for at, name in enumerate(result.classes):
        of_class, as_class = int(matrix[at].sum()), int(matrix[:, at].sum())
        row: Row = {"class": name, "samples": of_class, "recall": matrix[at, at] / of_class if of_class else None,
                    "precision": matrix[at, at] / as_class if as_class else None}  # fmt: skip
        rows.append(row | {f"as {other}": int(matrix[at, to]) for to, other in enumerate(result.classes)})
    return [{k: float(v) if k in ("recall", "precision") and v is not None else v for k, v in r.items()} for r in rows]
