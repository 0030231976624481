"""Several labels a sample: a class applies if its score is above 0. Accuracy is that of whole sets; F1 is
2·tp / (2·tp + fp + fn), of all decisions (micro) or its mean over classes, 0 for a class that never occurs (macro):
https://scikit-learn.org/stable/modules/model_evaluation.html#precision-recall-f-measure-metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from espalier.model.data.base import Array, LabelForm
from espalier.model.data.label_forms import set_rows, set_targets
from espalier.model.errors import DataError
from espalier.passes.tasks.base import TASKS, Metric, Task

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.sources.reading import Limits

MULTI_LABEL = "multi-label"
ACCURACY = Metric("accuracy", "accuracy", "high", "Share of the samples whose whole set of labels is right", True, True)
FIGURES = (
    ACCURACY,
    Metric("f1_micro", "F1 micro", "high", "F1 of all decisions of all classes together", True),
    Metric("f1_macro", "F1 macro", "high", "Mean of the F1 of each class", True),
    Metric("label_accuracy", "right decisions", "high", "Share of the decisions, one a class, that are right", True),
    Metric("loss", "loss", "low", "Mean binary cross-entropy of a decision in nats", by_sample=True),
)


class MultiLabel(Task):
    """A set of classes a sample. Labels: float32 [samples, classes], 0 or 1; missing last classes never apply."""

    name, kind, keep, metrics, own = MULTI_LABEL, "labels", "loss", FIGURES, 2
    loss_text = "mean binary cross-entropy of a decision in nats"
    resampled, reads, rows = True, "lists", False
    form = LabelForm(rows=set_rows, targets=set_targets, labels=("labels", "label_ids", "tags", "genres", "topics"))

    def recognises(self, limits: Limits) -> bool:
        """transformers' problem type."""
        return limits.problem == "multi_label_classification"

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """Zeros and ones, one for each of the model's classes."""
        wide = labels.ndim == 2 and labels.shape[1] > 1 and labels.shape[1] == limits.width
        return bool(wide and ((labels == 0) | (labels == 1)).all())

    def targets(self, labels: Array) -> Array:
        """As float32."""
        return labels.astype("float32")

    def hides(self, labels: Array) -> bool:
        """Never: a sample may have no class."""
        return False

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for labels of more classes than the scores have."""
        if scores.dim() != 2 or len(scores) != len(labels) or labels.shape[-1] > scores.shape[-1]:
            raise DataError(
                f"The data has {labels.shape[-1]} classes of {len(labels)} samples, "
                f"the model gives scores of shape {' × '.join(map(str, scores.shape))}.",
                "Use a model with as many labels as the data.",
            )

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for more classes than the scores have."""
        self.fit(scores[:1], labels[:1])

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean binary cross-entropy of all decisions, as transformers computes it."""
        import torch.nn.functional as F

        return F.binary_cross_entropy_with_logits(scores.float(), _aligned(labels, scores))

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """T²·KL of each decision from the teacher's, summed over classes."""
        import torch.nn.functional as F

        p = (teacher.float() / temperature).sigmoid()
        own = F.binary_cross_entropy_with_logits(scores.float() / temperature, p, reduction="none")
        least = F.binary_cross_entropy_with_logits(teacher.float() / temperature, p, reduction="none")
        return (own - least).sum(-1).mean() * temperature**2

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Per sample: set right, mean loss of its decisions, 1, share of right decisions, then tp, fp, fn a class.

        Decisions of undefined scores count as wrong.
        """
        import torch
        import torch.nn.functional as F

        truth = _aligned(labels, scores)
        loss = F.binary_cross_entropy_with_logits(scores.float(), truth, reduction="none").double().mean(-1)
        true = truth > 0.5
        on = (scores > 0).where(_is_defined(scores), ~true)  # an undefined decision is wrong
        right = on == true
        first = torch.stack([right.all(-1).double(), loss, torch.ones_like(loss), right.double().mean(-1)], 1)
        return torch.cat([first, *(x.double() for x in (on & true, on & ~true, ~on & true))], 1).numpy()

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """Whether each sample's set is right."""
        right = (scores > 0) == (_aligned(labels, scores) > 0.5)
        return (right & _is_defined(scores)).all(-1).numpy()

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """1 for each class with a positive score."""
        return (scores > 0).float()

    def figures(self, sums: Array) -> dict[str, Array]:
        """Subset accuracy, loss, label accuracy, micro and macro F1."""
        import numpy as np

        tp, fp, fn = np.split(sums[..., 4:], 3, axis=-1)
        count = np.maximum(sums[..., 2], 1)
        return {
            "accuracy": sums[..., 0] / count,
            "f1_micro": _f1(tp.sum(-1), fp.sum(-1), fn.sum(-1)),
            "f1_macro": _f1(tp, fp, fn).mean(-1),
            "label_accuracy": sums[..., 3] / count,
            "loss": sums[..., 1] / count,
        }

    def guess(self, split: Split, trained: Split) -> float | None:
        """Share of the most frequent set of labels."""
        import numpy as np

        if not len(split):
            return None
        return float(np.unique(split.labels > 0.5, axis=0, return_counts=True)[1].max() / len(split))

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """The least score in favour of a label that is right: below 0 the set is wrong."""
        return (scores.float() * (2 * _aligned(labels, scores) - 1)).amin(-1).numpy()


def _aligned(labels: Tensor, scores: Tensor) -> Tensor:
    """The labels as floats, with zeros for classes that the data do not name."""
    import torch.nn.functional as F

    return F.pad(labels.to(scores.device).float(), (0, scores.shape[-1] - labels.shape[-1]))


def _is_defined(scores: Tensor) -> Tensor:
    """Which decisions have a loss: not those of NaN or +∞; −∞ rules a class out."""
    return scores < float("inf")


def _f1(tp: Array, fp: Array, fn: Array) -> Array:
    import numpy as np

    return 2 * tp / np.maximum(2 * tp + fp + fn, 1)


TASKS.add(MULTI_LABEL, MultiLabel())
