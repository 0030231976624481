"""What a graph says of each sample: which classes it takes for which, and where it is surely wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.figure import wilson
from espalier.passes.running.batches import batches, fit, fit_error, logits_of
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split

if TYPE_CHECKING:
    from espalier.model.data.base import Array, Split


@dataclass(frozen=True, slots=True)
class Predictions:
    """By sample: its class, the class that the graph tells, and the probability that it gives that one."""

    split: str
    classes: tuple[str, ...]
    labels: Array
    told: Array
    confidence: Array

    @property
    def wrong(self) -> Array:
        """The numbers of the samples that are taken for others, the surest first."""
        import numpy as np

        at = np.flatnonzero(self.told != self.labels)
        return at[np.argsort(-self.confidence[at], kind="stable")]

    def confusion(self) -> Array:
        """int64 [class, told]: how many samples of a class are taken for which."""
        import numpy as np

        side = len(self.classes)
        return np.bincount(self.labels * side + self.told, minlength=side * side).reshape(side, side)


@analysis("predictions", "Confusion of classes", EvaluateOptions)
def predictions(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """For each class how many samples are taken for which, its recall (share found) and precision (share of those
    told that are right); `mean_confidence` is of all answers, `wrong_confidence` of the wrong ones.
    """
    from espalier.model.torch.build import build

    task = load_task(options, context.reading, whole=options.split in ("", "all"))
    split = measured_split(task, options.split, options.limit)
    module = build(graph, context.store, context.callables, packed=True)
    told, confidence, width = predict(module, graph, split, options.batch_size, context)
    extra = tuple(f"class {n}" for n in range(len(task.classes), width))
    found = Predictions(options.split, (*task.classes, *extra), split.labels, told, confidence)
    context.found(found)
    right = told == split.labels
    accuracy = float(right.mean())
    summary: dict[str, Any] = {"n": len(split), "wrong": int((~right).sum()), "accuracy": accuracy,
                               "interval": list(wilson(accuracy, len(split))),
                               "mean_confidence": float(confidence.mean())}  # fmt: skip
    if not right.all():
        summary["wrong_confidence"] = float(confidence[~right].mean())
    return graph, Report("predictions", tuple(_rows(found)), summary)


def predict(module: Any, graph: Graph, split: Split, size: int, context: Context) -> tuple[Array, Array, int]:
    """(class told, its probability) by sample, and how many classes the module tells apart."""
    import numpy as np
    import torch

    from espalier.model.torch.in_place import unheard

    told, sure, width = [], [], 0
    with unheard(module), torch.no_grad():
        for inputs, labels in batches(split, graph, size):
            with fit_error(inputs):
                logits = logits_of(module(**inputs), graph)
            fit(logits, labels)
            best = logits.float().softmax(-1).max(-1)
            told.append(best.indices.numpy())
            sure.append(best.values.numpy())
            width = logits.shape[-1]
            context.progress(sum(map(len, told)), len(split), "predicting")
    return np.concatenate(told), np.concatenate(sure).astype(np.float32), width


def _rows(found: Predictions) -> list[Row]:
    matrix = found.confusion()
    rows: list[Row] = []
    for at, name in enumerate(found.classes):
        of, told = int(matrix[at].sum()), int(matrix[:, at].sum())
        row: Row = {"class": name, "samples": of, "recall": matrix[at, at] / of if of else None,
                    "precision": matrix[at, at] / told if told else None}  # fmt: skip
        rows.append(row | {f"as {other}": int(matrix[at, to]) for to, other in enumerate(found.classes)})
    return [{k: float(v) if k in ("recall", "precision") and v is not None else v for k, v in r.items()} for r in rows]
