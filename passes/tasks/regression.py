"""A number a sample: mean squared and absolute error, R², and the correlations of Pearson and Spearman.

R² is 1 − Σ(y − p)² / Σ(y − ȳ)², as scikit-learn's r2_score. The interval of Spearman's is that of Fisher's z with
standard error √((1 + ρ²/2) / (n − 3)) (Bonett and Wright, 2000, https://doi.org/10.1007/BF02294183).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import Array, LabelForm
from espalier.model.data.label_forms import number_rows, number_targets
from espalier.model.errors import DataError, GraphError
from espalier.passes.figure import Z
from espalier.passes.tasks.base import TASKS, Metric, Task

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

REGRESSION = "regression"
FIGURES = (
    Metric("mse", "MSE", "low", "Mean squared error", by_sample=True),
    Metric("mae", "MAE", "low", "Mean absolute error"),
    Metric("r2", "R²", "high", "Share of the targets' variance that is explained; 0 for their mean"),
    Metric("pearson", "Pearson's r", "high", "Pearson's correlation of predictions and targets"),
    Metric("spearman", "Spearman's ρ", "high", "Spearman's correlation of the ranks"),
    Metric("loss", "loss", "low", "Mean squared error", by_sample=True),
)


class Regression(Task):
    """A number a sample. Labels: float32 [samples]."""

    name, keep, kind, metrics, own = REGRESSION, "loss", "values", FIGURES, 1
    loss_text = "mean squared error"
    resampled, rows = True, False
    unvalidated, hidden = frozenset({"mse"}), frozenset({"loss"})  # which are one
    form = LabelForm(rows=number_rows, targets=number_targets, labels=("score", "value", "rating", "stars", "y"))

    def recognises(self, limits: Limits) -> bool:
        """One output a sample, or transformers' problem type."""
        return limits.problem == "regression" or (not limits.problem and limits.width == 1)

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """Numbers, one a sample, for a model with one output."""
        return limits.width == 1 and (labels.ndim == 1 or labels.shape[1:] == (1,))

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """[samples]: `logits`, or the first result with one number a sample."""
        values = [result["logits"]] if isinstance(result, dict) and "logits" in result else None
        values = values or (
            list(result.values()) if isinstance(result, dict) else list(result) if isinstance(result, tuple)
            else [result]
        )  # fmt: skip
        for value in values:
            if value.is_floating_point() and (value.dim() == 1 or (value.dim() == 2 and value.shape[1] == 1)):
                return value.reshape(-1)
        raise GraphError(
            "The model does not give one number a sample, so it is no regression.",
            "Open it with one output (num_labels=1), or choose another task.",
        )

    def targets(self, labels: Array) -> Array:
        """float32 [n]."""
        return labels.reshape(-1).astype("float32")

    def hides(self, labels: Array) -> bool:
        """Whether a number is missing."""
        import numpy as np

        return not bool(np.isfinite(labels).all())

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError unless there is one finite label a sample."""
        if scores.shape != labels.shape:
            raise DataError(
                f"The model gives {len(scores):,} numbers, the data has labels of shape "
                f"{' × '.join(map(str, labels.shape))}.",
                "Give one number a sample.",
            )
        if not bool(labels.isfinite().all()):
            raise DataError("Some labels are not finite numbers.", "Remove those samples.")

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for labels that are not finite."""
        self.fit(labels, labels)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean squared error, as transformers computes it."""
        import torch.nn.functional as F

        return F.mse_loss(scores.float(), labels.float())

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """Mean squared difference from the teacher's numbers; a temperature has no meaning for them."""
        import torch.nn.functional as F

        return F.mse_loss(scores.float(), teacher.reshape(scores.shape).float())

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Per sample: squared error, absolute error, 1, target, prediction, their squares and product."""
        import torch

        y, p = labels.double(), scores.double()
        error = p - y
        return torch.stack([error**2, error.abs(), torch.ones_like(y), y, p, y * y, p * p, y * p], 1).numpy()

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: no number is right or wrong."""
        return None

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """None."""
        return None

    def figures(self, sums: Array) -> dict[str, Array]:
        """MSE (also as loss), MAE, R² and Pearson's correlation; 0 where all targets or predictions are equal."""
        import numpy as np

        squared, absolute, n, y, p, yy, pp, yp = np.moveaxis(sums, -1, 0)
        n = np.maximum(n, 1)
        of_y, of_p, both = (np.maximum(yy - y * y / n, 0), np.maximum(pp - p * p / n, 0), yp - y * p / n)
        spread = np.sqrt(of_y * of_p)
        tiny = 1e-12 * np.maximum(yy, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(of_y > tiny, 1 - squared / of_y, 0.0)
            r = np.where(spread > 1e-12 * np.sqrt(np.maximum(yy * pp, 1e-300)), both / spread, 0.0)
        r = np.where(np.isfinite(spread), r, np.nan)
        mse = squared / n
        return {"mse": mse, "mae": absolute / n, "r2": r2, "pearson": np.clip(r, -1, 1), "loss": mse}

    def more(self, statistics: Array) -> dict[str, float]:
        """Spearman's correlation: Pearson's of the ranks, equal values with their mean rank."""
        import numpy as np

        if not np.isfinite(statistics[:, 4]).all():
            return {"spearman": math.nan}
        y, p = _ranks(statistics[:, 3]), _ranks(statistics[:, 4])
        if len(y) < 2 or not np.ptp(y) or not np.ptp(p):
            return {"spearman": 0.0}
        return {"spearman": float(np.corrcoef(y, p)[0, 1])}

    def intervals(self, statistics: Array) -> dict[str, tuple[float, float]]:
        """Of Spearman's correlation, above 3 samples."""
        n, rho = len(statistics), self.more(statistics)["spearman"]
        if n <= 3 or not abs(rho) < 1:
            return {}
        reach = Z * math.sqrt((1 + rho * rho / 2) / (n - 3))
        return {"spearman": (math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach))}

    def losses(self, statistics: Array) -> Array:
        """Squared errors."""
        return statistics[:, 0]

    def errors(self, statistics: Array) -> Array | None:
        """Squared errors."""
        return statistics[:, 0]

    def guess(self, split: Split, trained: Split) -> float | None:
        """MSE of the mean of the training targets."""
        import numpy as np

        if not len(split) or not len(trained):
            return None
        return float(np.square(split.labels.astype(np.float64) - trained.labels.mean(dtype=np.float64)).mean())

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: there are no classes."""
        return None


def _ranks(values: Array) -> Array:
    """Ranks from 0, equal values with their mean rank."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts + 1) / 2)[inverse]


TASKS.add(REGRESSION, Regression())
