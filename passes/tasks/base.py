"""The interface of tasks: what a model predicts, how it is trained and scored, and how it is recognised.

A task is one file that registers in TASKS; evaluation, training, search, sweeps and the window ask it, not its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol
from weakref import WeakValueDictionary

from espalier.model.data.base import CLASSES, CLASSIFICATION, IGNORED, Array, LabelForm
from espalier.model.errors import DataError
from espalier.model.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

Run = Callable[[dict[str, Any]], Any]  # inputs by name → the model's result
Kind = Literal["classes", "distributions", "values", "labels", "pixels", "pairs"]  # of outputs that are compared


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a score. name: its key. better: "high" or "low". share: from 0 to 1, shown in per cent.

    by_sample: a mean over samples, so that trials can be compared sample by sample before their end.
    """

    name: str
    title: str
    better: Literal["high", "low"]
    help: str
    share: bool = False
    by_sample: bool = False


ACCURACY = Metric("accuracy", "accuracy", "high", "Share of the samples that are classified correctly", True, True)
LOSS = Metric("loss", "loss", "low", "Mean cross-entropy in nats", by_sample=True)


class Task:
    """One class a sample, unless a method says otherwise.

    units: what `hits` counts. metrics: of a score, the main one first: it has the interval and the test, and is the
    default goal of a search. keep: the metric by which a training keeps weights. kind: of its outputs when they are
    compared. windows: samples are windows of a text without padding. positions: labels have an entry for each position
    of a text. loss_text: what the loss is. rows: scores are rows of classes, one a label. pooled: batches have
    different numbers of labels. unvalidated: metrics that a training does not compute. hidden: metrics that the score's
    card leaves out. own: rank of labels with which a model may compute its own loss. resampled: its further metrics
    have intervals. confuses: each sample has one class, so that a table of true and predicted classes exists. reads:
    form of labels that choose the task, as `OtherLabelsError` names it. uncut: outputs of all samples have one shape:
    batches keep the padding of the data. costly: its own intervals take long, so that trials leave them out. large: the
    scores of a sample take much memory, so that a validation has the batches of its training. batched: the scores of a
    sample depend on the others of its batch.
    """

    name: str = CLASSIFICATION
    units: str = "samples"
    metrics: tuple[Metric, ...] = (ACCURACY, LOSS)
    keep: Literal["accuracy", "loss"] = "accuracy"
    kind: Kind = "classes"
    windows: bool = False
    positions: bool = False
    loss_text: str = "mean cross-entropy in nats"
    rows: bool = True
    pooled: bool = False
    confuses: bool = False
    hidden: frozenset[str] = frozenset()
    unvalidated: frozenset[str] = frozenset()
    own: int | None = 1
    reads: str = ""
    resampled: bool = False
    uncut: bool = False
    costly: bool = False
    large: bool = False
    batched: bool = False
    form: LabelForm = CLASSES

    def of(self, classes: tuple[str, ...]) -> Task:
        """The task of data with these classes, for metrics that depend on their names."""
        return self

    def on(self, split: Split) -> Task:
        """The task of a split, for metrics that depend on what its labels refer to."""
        return self.of(split.classes)

    # -- recognition

    def recognises(self, limits: Limits) -> bool:
        """Whether a model with these facts has this task, as far as its head tells."""
        return False

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """Whether arrays of a program are labels of this task, for a model with these facts."""
        return False

    def targets(self, labels: Array) -> Array:
        """Labels that `takes` accepted, as `Split` has them."""
        return labels

    def completed(self, inputs: dict[str, Array], labels: Array, limits: Limits) -> dict[str, Array]:
        """The inputs of a program with those that follow from labels that `takes` accepted."""
        return inputs

    def hides(self, labels: Array) -> bool:
        """Whether labels are missing, as the hub hides those of some test sets (−1)."""
        return bool(len(labels)) and bool((labels < 0).any())

    def check(self, inputs: dict[str, Any], run: Run) -> None:
        """Raise DataError if scores of the model on the inputs of a batch would mean nothing."""

    # -- running

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """The outputs among a module's results that are compared with the labels; raises GraphError."""
        from espalier.passes.tasks.scores import logits_of

        return logits_of(result, graph)

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError if the labels cannot be those of the scores."""
        from espalier.passes.tasks.scores import fit

        fit(scores, labels.reshape(-1))

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """As `fit`, with labels of any samples."""
        from espalier.passes.tasks.scores import fit_classes

        fit_classes(scores, labels.reshape(-1))

    def scores_of_sample(self, split: Split, graph: Graph) -> int | None:
        """How many scores a sample has, so that batches of many are made smaller; None: few."""
        from espalier.model.graph.token_scores import token_scores_width

        width = token_scores_width(graph) if self.windows else None
        return None if width is None else width * split.labels.shape[1]

    def trial_labels(self, labels: Tensor) -> Tensor:
        """Labels of the same shape that every model accepts."""
        return labels * 0

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch in training, a mean."""
        import torch.nn.functional as F

        targets = labels.reshape(-1)
        if self.positions and not bool((targets != IGNORED).any()):
            return scores.float().sum() * 0  # a mean of nothing
        return F.cross_entropy(scores.float(), targets)

    def shown(self, label: int) -> str:
        """The text of a label that is an index into the table of a split."""
        return str(label)

    def compares(self, kind: Kind) -> bool:
        """Whether outputs that are compared in this way can be the scores: numbers are no scores of classes."""
        return (kind == "values") == (self.kind == "values")

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """The divergence of a batch from the scores of a teacher: T²·KL (Hinton et al., 2015, arXiv:1503.02531)."""
        import torch.nn.functional as F

        target, student = (F.log_softmax(x.float() / temperature, -1) for x in (teacher, scores))
        return F.kl_div(student, target, reduction="batchmean", log_target=True) * temperature**2

    # -- figures

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """float64 [samples, k]: per sample what `figures` needs the sum of; here right, loss, 1."""
        import numpy as np
        import torch.nn.functional as F

        from espalier.passes.tasks.scores import hits_of

        targets = labels.reshape(-1)
        losses = F.cross_entropy(scores.float(), targets, reduction="none").double()
        right, counts = hits_of(scores, targets).double(), (targets != IGNORED).double()
        return np.stack([c.reshape(len(labels), -1).sum(1).numpy() for c in (right, losses, counts)], 1)

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """bool [units]: which are predicted correctly, in order; None if nothing is right or wrong."""
        from espalier.passes.tasks.scores import hits_of

        targets = labels.reshape(-1)
        return hits_of(scores, targets)[targets != IGNORED].numpy()

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """The prediction in the form of `labels`, IGNORED where there is none; None for numbers."""
        from espalier.passes.tasks.scores import is_defined

        predicted = scores.argmax(-1).where(is_defined(scores), IGNORED)
        return predicted.reshape(labels.shape).where(labels != IGNORED, IGNORED)

    def agreeing(self, scores: Tensor, others: Tensor, labels: Tensor) -> int:
        """How many predictions [units] equal those of other scores; `labels`: of the same samples."""
        decided = self.decided(others, labels)
        hits = None if decided is None else self.hits(scores, decided)
        return 0 if hits is None else int(hits.sum())

    def figures(self, sums: Array) -> dict[str, Array]:
        """Metric → values [...] of sums [..., k] of `statistics`."""
        import numpy as np

        right, loss, count = sums[..., 0], sums[..., 1], np.maximum(sums[..., 2], 1)
        return {"accuracy": right / count, "loss": loss / count}

    def more(self, statistics: Array) -> dict[str, float]:
        """Further metrics, that sums do not give."""
        return {}

    def intervals(self, statistics: Array) -> dict[str, tuple[float, float]]:
        """95 % intervals of metrics of `more`."""
        return {}

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """Further entries of a score."""
        return {}

    def losses(self, statistics: Array) -> Array:
        """[samples] mean losses."""
        import numpy as np

        return statistics[:, 1] / np.maximum(statistics[:, 2], 1)

    def count(self, statistics: Array) -> int:
        """Number of samples."""
        return len(statistics)

    def errors(self, statistics: Array) -> Array | None:
        """[samples] whose mean is the main metric, for a paired test; None for a metric with `hits`, or none such."""
        return None

    def guess(self, split: Split, trained: Split) -> float | None:
        """The main metric of the best constant prediction; `trained`: samples that a constant is fitted to, if any."""
        import numpy as np

        labels = split.labels[split.labels >= 0]
        return float(np.bincount(labels).max() / max(split.targets, 1)) if len(labels) else None

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """[units] score of the true class minus the highest other; None without classes."""
        import torch

        counted = labels.reshape(-1) != IGNORED
        plain, at = scores.float()[counted], labels.reshape(-1)[counted].clamp(min=0)[:, None]
        return (plain.gather(-1, at) - plain.scatter(-1, at, -torch.inf).amax(-1, keepdim=True))[:, 0].numpy()

    # -- names

    @property
    def main(self) -> Metric:
        """The main metric."""
        return self.metrics[0]

    def title(self, name: str) -> str:
        """The title of a metric."""
        metric = self.metric(name)
        return metric.title if metric else name

    def metric(self, name: str) -> Metric | None:
        """The metric of this name."""
        return next((m for m in self.metrics if m.name == name), None)


class OwnFunctions(Protocol):
    """Functions of a Python program, from which tasks are made; see `functions`."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Of the functions."""
        ...

    def task(self, labels: str) -> Task:
        """The task on labels of the task `labels`; empty if these are not known yet."""
        ...


OWN = "python:"  # prefix of tasks that are made of functions of this process
OWN_FUNCTIONS: WeakValueDictionary[str, OwnFunctions] = WeakValueDictionary()


def is_own(name: str) -> bool:
    """Whether a task is made of functions of a Python program."""
    return name.startswith(OWN)


class Tasks(Registry[str, Task]):
    """All tasks. `python:NAME:LABELS` is a task of functions of this process; it and `unlisted` are in no list."""

    unlisted: ClassVar[dict[str, Task]] = {}

    def get(self, key: str) -> Task:
        """The task of a name; raises DataError, also for functions of another process."""
        if not is_own(key):
            return self.unlisted[key] if key in self.unlisted else super().get(key)
        name, _, labels = key.removeprefix(OWN).partition(":")
        functions = OWN_FUNCTIONS.get(name)
        if functions is None:
            raise DataError(
                f"The task {OWN}{name} is made of functions of another Python program, which no file holds.",
                "Give loss and metric again, or register the task in a plug-in (guide: Add a task).",
            )
        return functions.task(labels)

    __getitem__ = get


_OURS = tuple(
    f"espalier.passes.tasks.{name}"
    for name in (
        "classification",
        "next_token",
        "multi_label",
        "regression",
        "masked_token",
        "token_classification",
        "question_answering",
        "segmentation",
        "seq2seq",
        "contrastive",
    )
)
TASKS = Tasks("task", DataError, _OURS)


def task_names() -> tuple[str, ...]:
    """The names of all tasks, those of plug-ins included, after the empty name of the default."""
    return "", *TASKS


TASK_OPTION: dict[str, Any] = {
    "help": "task, such as classification, regression or next-token; default: by the model's head and the labels",
    "names": task_names,
}


def task_of(split: Split) -> Task:
    """The task of a split's labels."""
    return TASKS.get(split.predicts).on(split)


def recognised(limits: Limits | None) -> str:
    """The name of the task that a model's head tells; empty if it tells none."""
    return next((name for name, task in TASKS.items() if limits is not None and task.recognises(limits)), "")


def all_metrics() -> dict[str, Metric]:
    """Name → metric, of all tasks."""
    own = {m.name: m for functions in list(OWN_FUNCTIONS.values()) for m in functions.metrics}
    return own | {m.name: m for _, task in reversed(TASKS.items()) for m in task.metrics}
