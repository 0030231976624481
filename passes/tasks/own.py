"""Tasks made of functions of a Python program, on the labels of another task or on labels of any kind.

They exist in their process alone: recipes hold their name, which any other process refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import CLASSIFICATION, Array
from espalier.model.errors import DataError, GraphError, PassError
from espalier.passes.tasks.base import LOSS, OWN, OWN_FUNCTIONS, TASKS, Kind, Metric, Run, Task, is_own

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.graph.graph import Graph

ANY = "any"  # labels of any kind
RESAMPLES, SEED, LEVELS = 200, 0, (2.5, 97.5)
MAX_RESAMPLED = 1 << 20  # numbers of all outputs and labels; larger data get no interval
MAX_AXES = 6
HEAD = 2 + MAX_AXES  # columns of an array's description: kind, rank, sizes
KINDS = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")


class Functions:
    """A loss and metrics of a program, registered for the lifetime of this object.

    loss: (outputs, labels) → a number, the mean of a batch; None: that of the labels' task. functions: metric →
    (outputs, labels) of all samples → a number. metrics: as a score describes them. labels: task of the labels, `any`,
    or empty for that of the data. output: name of the result that both get; empty: the scores.
    """

    def __init__(
        self, loss: Callable[[Any, Any], Any] | None, functions: Mapping[str, Callable[[Any, Any], Any]],
        metrics: tuple[Metric, ...], labels: str = "", output: str = "",
    ) -> None:  # fmt: skip
        self.loss, self.functions, self.metrics = loss, dict(functions), metrics
        self.labels, self.output = labels, output
        title = next(iter(functions), getattr(loss, "__name__", "loss")).strip("<>").replace(":", "_")
        self.key = f"{title}-{token_hex(4)}"
        self.name = f"{OWN}{self.key}"
        OWN_FUNCTIONS[self.key] = self

    @property
    def title(self) -> str:
        """The functions by name, as a sentence says them."""
        loss = [f"loss {getattr(self.loss, '__name__', 'loss')}"] if self.loss else []
        return " and ".join([*loss, *([f"metric {', '.join(self.functions)}"] if self.functions else [])])

    def task(self, labels: str) -> Task:
        """The task on labels of the task `labels`."""
        inner = TASKS.get(labels or self.labels or CLASSIFICATION)
        return OwnTask(self, inner, f"{self.name}:{labels}" if labels else self.name)


def functions_of(name: str) -> Functions | None:
    """The functions of a task's name; None for other tasks. Raises DataError for those of another process."""
    if not is_own(name):
        return None
    task = TASKS.get(name)
    return task.functions if isinstance(task, OwnTask) else None


class AnyLabels(Task):
    """Labels of any kind and shape, which only functions of a program understand."""

    name, kind, keep, rows, own, metrics = ANY, "values", "loss", False, None, (LOSS,)

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """`logits`, or the only result with a sample axis."""
        return only_result(result)

    def compares(self, kind: Kind) -> bool:
        """Always."""
        return True

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError unless there is a label a sample."""
        if scores.dim() == 0 or len(scores) != len(labels):
            found = len(scores) if scores.dim() else 1
            raise DataError(f"The model gives {found:,} results for {len(labels):,} labels.",
                            "Give each sample one label, and name a result with a sample axis.")  # fmt: skip

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Nothing is known of the labels."""

    def hides(self, labels: Array) -> bool:
        """Whether there are none."""
        return labels.dtype.kind == "b"

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Raise DataError: only a function can tell."""
        raise DataError("The labels are of no task, so there is no loss to train with.",
                        "Give loss=, a function of outputs and labels.")  # fmt: skip

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """Mean squared difference."""
        import torch.nn.functional as F

        return F.mse_loss(scores.float(), teacher.reshape(scores.shape).float())

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """float64 [samples, 0]."""
        import numpy as np

        return np.zeros((len(labels), 0))

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None."""
        return None

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """None."""
        return None

    def figures(self, sums: Array) -> dict[str, Array]:
        """None."""
        return {}

    def guess(self, split: Split, trained: Split) -> float | None:
        """None."""
        return None

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None."""
        return None


def only_result(result: Any, name: str = "") -> Tensor:
    """The result of this name; without one `logits`, or the only result with a sample axis. Raises GraphError."""
    if not isinstance(result, dict | tuple | list):
        return result
    items = result.items() if isinstance(result, dict) else enumerate(result)
    named: dict[str, Any] = {str(k): v for k, v in items if getattr(v, "dim", lambda: 0)() > 0}
    wanted = name or ("logits" if "logits" in named else next(iter(named)) if len(named) == 1 else "")
    if wanted not in named:
        raise GraphError(f"The model has {len(named)} results: {', '.join(named)}.",
                         "Name the one that loss and metric get: es.Task(…, output=NAME).")  # fmt: skip
    return named[wanted]


@dataclass(frozen=True, slots=True)
class _Stored:
    """The layout of a row of statistics: loss, 1, width of the inner task's, these, then outputs and labels."""

    inner: int

    @classmethod
    def of(cls, sums: Array) -> _Stored:
        flat = sums.reshape(-1, sums.shape[-1])
        count = flat[0, 1] if len(flat) else 0
        return cls(round(float(flat[0, 2] / count)) if count else 0)


class OwnTask(Task):
    """`functions` on the labels of `inner`: what they do not replace is that task's."""

    uncut = costly = resampled = True

    def __init__(self, functions: Functions, inner: Task, name: str) -> None:
        self.functions, self.inner, self.name = functions, inner, name
        self.kind, self.windows, self.positions, self.rows = inner.kind, inner.windows, inner.positions, inner.rows
        self.form, self.reads, self.hidden, self.unvalidated = inner.form, "", inner.hidden, inner.unvalidated
        self.keep, self.pooled = ("loss", True) if functions.functions or functions.loss else (inner.keep, inner.pooled)
        self.large, self.batched = inner.large, inner.batched
        self.confuses, self.units = inner.confuses, "samples" if functions.functions else inner.units
        self.own = None if functions.loss else inner.own
        self.loss_text = (
            f"function {getattr(functions.loss, '__name__', 'loss')}" if functions.loss else inner.loss_text
        )
        mine = [m for m in functions.metrics if m.name != LOSS.name]
        names = {m.name for m in mine}
        others = [m for m in inner.metrics if m.name not in names]
        if functions.loss:
            loss = Metric("loss", "loss", "low", f"Mean over batches of the {self.loss_text}")
            others = [m for m in others if m.name != "loss" and m.name not in self.hidden]
            others, self.hidden, self.unvalidated = [*others, loss], frozenset[str](), frozenset[str]()
        self.metrics = (*mine, *others)

    def on(self, split: Split) -> Task:
        """With what the labels of a split refer to."""
        inner = self.inner.on(split)
        return self if inner is self.inner else OwnTask(self.functions, inner, self.name)

    def scores_of_sample(self, split: Split, graph: Graph) -> int | None:
        """That of the labels' task."""
        return self.inner.scores_of_sample(split, graph)

    def shown(self, label: int) -> str:
        """That of the labels' task."""
        return self.inner.shown(label)

    def targets(self, labels: Array) -> Array:
        """Those of the labels' task."""
        return self.inner.targets(labels)

    def hides(self, labels: Array) -> bool:
        """Whether labels are missing."""
        return self.inner.hides(labels)

    def check(self, inputs: dict[str, Any], run: Run) -> None:
        """That of the labels' task."""
        self.inner.check(inputs, run)

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """Those of the labels' task, or the result that is named; raises GraphError where that is not among them."""
        name = self.functions.output
        if name and len(graph.output.args) > 1 and not isinstance(result, dict | tuple | list):
            raise GraphError(f"The result {name} is not the one that is compared.", "Evaluate the model instead.")
        return only_result(result, name) if name else self.inner.scores(result, graph)

    def compares(self, kind: Kind) -> bool:
        """As the labels' task."""
        return bool(self.functions.output) or self.inner.compares(kind)

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError if the labels cannot be those of the scores."""
        self.inner.fit(scores, labels)

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """As `fit`, with labels of any samples."""
        self.inner.fit_all(scores, labels)

    def trial_labels(self, labels: Tensor) -> Tensor:
        """Those of the labels' task; of any kind the labels themselves."""
        return labels if self.inner.name == ANY else self.inner.trial_labels(labels)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The function's value for a batch; raises PassError for what is no number or has no gradient."""
        from torch import Tensor

        if self.functions.loss is None:
            return self.inner.loss(scores, labels)
        value, name = self.functions.loss(*self._given(scores, labels)), self.loss_text
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = (
                f"a tensor of {' × '.join(map(str, value.shape))}"
                if isinstance(value, Tensor)
                else type(value).__name__
            )
            raise PassError(f"The {name} returned {shape}, not a tensor with one number.",
                            "Return the mean over the batch.")  # fmt: skip
        if scores.requires_grad and not value.requires_grad:
            raise PassError(f"The {name} returned a number without a gradient.",
                            "Compute it from the outputs by operations of torch.")  # fmt: skip
        return value.reshape(())

    def _given(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(outputs, labels), first axis = sample."""
        if self.positions and not self.functions.output and len(scores) == labels.numel() and labels.dim() > 1:
            scores = scores.unflatten(0, labels.shape)
        return scores, labels

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """That of the labels' task."""
        return self.inner.taught(scores, teacher, temperature)

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Per sample: the batch's loss, 1, the number of the inner task's statistics, these, outputs, labels."""
        import numpy as np
        import torch

        count = len(labels)
        inner = self.inner.statistics(scores, labels) if not self.functions.output else np.zeros((count, 0))
        with torch.no_grad():
            loss = float(self.loss(scores, labels)) if self.functions.loss else 0.0
        first = np.tile(np.array([loss, 1.0, inner.shape[1]]), (count, 1))
        parts = [_described(x) for x in self._given(scores, labels)] if self.functions.functions else []
        return np.concatenate([first, inner, *parts], 1)

    def _inner(self, values: Array) -> Array:
        return values[..., 3 : 3 + _Stored.of(values).inner]

    def figures(self, sums: Array) -> dict[str, Array]:
        """The metrics of the labels' task, and the mean loss of the function."""
        import numpy as np

        inner = self._inner(sums)
        found = self.inner.figures(inner) if inner.shape[-1] else {}
        found = {k: v for k, v in found.items() if k not in self.functions.functions}
        return found | ({"loss": sums[..., 0] / np.maximum(sums[..., 1], 1)} if self.functions.loss else {})

    def more(self, statistics: Array) -> dict[str, float]:
        """The functions' metrics of all samples."""
        inner = self._inner(statistics)
        found = self.inner.more(inner) if inner.shape[-1] else {}
        return found | (self._measured(statistics) if len(statistics) else {})

    def _measured(self, statistics: Array) -> dict[str, float]:
        if not self.functions.functions:
            return {}
        outputs, labels = _restored(statistics[:, 3 + _Stored.of(statistics).inner :])
        return {name: _number(name, function(outputs, labels)) for name, function in self.functions.functions.items()}

    def intervals(self, statistics: Array) -> dict[str, tuple[float, float]]:
        """Percentile intervals of the functions' metrics by the bootstrap over samples."""
        import numpy as np

        inner = self._inner(statistics)
        found = self.inner.intervals(inner) if inner.shape[-1] and len(inner) else {}
        if not self.functions.functions or len(statistics) < 2 or statistics.size > MAX_RESAMPLED:
            return found
        drawn, n = np.random.default_rng(SEED), len(statistics)
        rows = [self._measured(statistics[drawn.integers(0, n, n)]) for _ in range(RESAMPLES)]
        for name in self.functions.functions:
            low, high = np.percentile([row[name] for row in rows], LEVELS)
            found[name] = (float(low), float(high))
        return found

    def losses(self, statistics: Array) -> Array:
        """[samples] losses: of a function, each sample has that of its batch."""
        return statistics[:, 0] if self.functions.loss else self.inner.losses(self._inner(statistics))

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """Those of the labels' task, unless a function is the main metric."""
        return None if self.functions.functions or self.functions.output else self.inner.hits(scores, labels)

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """The prediction of the labels' task."""
        return None if self.functions.output else self.inner.decided(scores, labels)

    def agreeing(self, scores: Tensor, others: Tensor, labels: Tensor) -> int:
        """Predictions of the labels' task that equal those of other scores."""
        return 0 if self.functions.output else self.inner.agreeing(scores, others, labels)

    def count(self, statistics: Array) -> int:
        """Samples of the labels' task."""
        return len(statistics) if self.functions.functions else self.inner.count(self._inner(statistics))

    def errors(self, statistics: Array) -> Array | None:
        """None, unless the main metric is that of the labels' task."""
        main = not self.functions.functions and self.main.name in {m.name for m in self.inner.metrics[:1]}
        return self.inner.errors(self._inner(statistics)) if main and self.main.name != "loss" else None

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """Those of the labels' task that no function replaces."""
        known = {} if self.functions.loss or "loss" not in figures else self.inner.facts(figures, split)
        return {k: v for k, v in known.items() if k not in self.functions.functions}

    def guess(self, split: Split, trained: Split) -> float | None:
        """That of the labels' task, where its main metric is the main one."""
        same = self.main.name == self.inner.main.name and not self.functions.functions
        return self.inner.guess(split, trained) if same and self.main.name != "loss" else None

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """Those of the labels' task."""
        return None if self.functions.output else self.inner.margins(scores, labels)


def _described(values: Tensor) -> Array:
    """float64 [samples, …]: kind, rank and sizes of a tensor, the same in each row, then its numbers."""
    import numpy as np

    kind, sizes = str(values.dtype).removeprefix("torch."), values.shape[1:]
    if kind not in KINDS or len(sizes) > MAX_AXES:
        raise DataError(f"A metric gets no tensor of {kind} with {values.dim()} axes.", "Give numbers of fewer axes.")
    head = [KINDS.index(kind), len(sizes), *sizes, *[0] * (MAX_AXES - len(sizes))]
    numbers = values.detach().cpu().double().reshape(len(values), -1).numpy()
    return np.concatenate([np.tile(np.array(head, np.float64), (len(values), 1)), numbers], 1)


def _restored(rows: Array) -> list[Tensor]:
    """The tensors of rows of `_described`."""
    import math

    import torch

    found: list[Tensor] = []
    while rows.shape[1]:
        kind, rank, *sizes = (int(x) for x in rows[0, :HEAD])
        width = math.prod(sizes[:rank])
        numbers = torch.from_numpy(rows[:, HEAD : HEAD + width].copy())
        found.append(numbers.reshape(len(rows), *sizes[:rank]).to(getattr(torch, KINDS[kind])))
        rows = rows[:, HEAD + width :]
    return found


def _number(name: str, value: Any) -> float:
    """What a metric returned; raises PassError for what is no number."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise PassError(f"The metric {name} returned {type(value).__name__}, not a number.",
                        "Return a number, or a tensor with one.") from error  # fmt: skip


TASKS.unlisted[ANY] = AnyLabels()
