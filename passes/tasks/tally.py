"""Accumulates predictions of a model by batch into the metrics of a task, with their noise."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.data.base import Array
from espalier.model.errors import DataError
from espalier.passes.figure import hits_of, wilson
from espalier.passes.tasks.base import Task
from espalier.passes.tasks.resampling import bootstrapped

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

MAX_HITS = 1 << 18  # samples or tokens up to which a score stores which were right, for paired tests
MAX_ERRORS = 1 << 14  # samples up to which it stores their errors


class Tally:
    """Sums by batch number, so that they are added in the order of the batches whatever order these ran in."""

    def __init__(self, task: Task, batches: int = 0) -> None:
        self.task = task
        self._statistics: list[Array | None] = [None] * batches
        self._hits: list[Array | None] = [None] * batches
        self._order: list[int] = []

    def add(self, scores: Tensor, labels: Tensor, number: int = -1) -> None:
        """Add a batch; `number`: of the batch, by default the next one."""
        if number < 0:
            number = len(self._statistics)
            self._statistics.append(None)
            self._hits.append(None)
        statistics = self.task.statistics(scores, labels)
        other = next((s for s in self._statistics if s is not None and s.shape[1:] != statistics.shape[1:]), None)
        if other is not None:
            raise DataError("The model gives another number of scores in each batch, so they are no scores of classes.",
                            "Open it with a head whose outputs do not depend on the length.")  # fmt: skip
        self._statistics[number] = statistics
        self._hits[number] = self.task.hits(scores, labels)
        self._order.append(number)

    @property
    def count(self) -> int:
        """Number of samples so far."""
        return sum(len(s) for s in self._statistics if s is not None)

    @property
    def units(self) -> int:
        """Number of samples or tokens so far."""
        hits = self.hits()
        return (
            self.task.count(self.statistics)
            if hits is None and self.count
            else self.count
            if hits is None
            else len(hits)
        )

    @property
    def unscored(self) -> int:
        """Number of samples whose figures are not finite, as those of NaN in the scores."""
        return int((~np.isfinite(self.statistics)).any(1).sum())

    @property
    def statistics(self) -> Array:
        """float64 [samples, k], in the order of the batches."""
        return _joined(self._statistics)

    def figures(self) -> dict[str, float]:
        """Metrics over the samples so far."""
        statistics = self.statistics
        if not len(statistics):
            return {}
        values = {name: float(value) for name, value in self.task.figures(statistics.sum(0)).items()}
        return values | self.task.more(statistics)

    def hits(self) -> Array | None:
        """bool [units] in the order of the batches; None if nothing is right or wrong."""
        return None if any(h is None for h in self._present(self._hits)) else _joined(self._hits)

    def losses(self) -> Array:
        """[samples] losses, in the order of the run."""
        return np.concatenate([self.task.losses(self._of(n)) for n in self._order])

    def correct(self) -> Array | None:
        """bool [units], in the order of the run."""
        parts = [self._hits[n] for n in self._order]
        return None if any(p is None for p in parts) else _joined(parts)

    def _of(self, number: int) -> Array:
        statistics = self._statistics[number]
        assert statistics is not None
        return statistics

    def _present(self, parts: Sequence[Array | None]) -> list[Array | None]:
        return [p for p, s in zip(parts, self._statistics, strict=True) if s is not None]

    def noise(self, split: Split, order: Array, guessing: float | None, full: bool = True) -> dict[str, Any]:
        """Interval data of the main metric: task, metric, n, interval, guessing, and hits or errors of the samples.

        `order`: the rows of the data in the order of the batches. `full`: with `intervals` of all metrics.
        """
        task, statistics, hits = self.task, self.statistics, self.hits()
        main, figures = task.main, self.figures()
        n = len(hits) if hits is not None else task.count(statistics)
        data: dict[str, Any] = {"task": task.name, "metric": main.name, "n": n, "guessing": guessing}
        data |= {} if main.better == "high" and hits is not None else {"better": main.better}
        resampled = full and ((len(task.metrics) > 2 and task.resampled) or hits is None)
        intervals = bootstrapped(statistics, task.figures) if resampled or hits is None else {}
        intervals = {k: v for k, v in intervals.items() if task.metric(k)}
        intervals |= task.intervals(statistics) if full or not task.costly else {}
        if hits is not None:
            intervals[main.name] = wilson(figures.get(main.name, 0.0), n)
            data["interval"] = list(intervals[main.name])
            data["hits"] = hits_of(_in_place(hits, split, order).tolist()) if n <= MAX_HITS else ""
        else:
            data["interval"] = list(intervals[main.name]) if main.name in intervals else None
            errors = task.errors(statistics)
            if errors is not None and len(errors) <= MAX_ERRORS:
                data["errors"] = packed(_in_place(errors, split, order))
        return data | ({"intervals": {k: list(v) for k, v in intervals.items()}} if resampled else {})


def _in_place(values: Array, split: Split, order: Array) -> Array:
    """Values [units] in the order of the data, from the order of the batches."""
    sizes = np.ones(len(split), np.int64)
    if len(values) != len(split):
        from espalier.model.data.base import IGNORED

        sizes = (split.labels != IGNORED).reshape(len(split), -1).sum(1)
    parts = np.split(values, np.cumsum(sizes[order])[:-1]) if len(order) else []
    by_row: list[Array] = [values[:0]] * len(split)
    for row, part in zip(order.tolist(), parts, strict=True):
        by_row[row] = part
    return np.concatenate(by_row) if by_row else values


def packed(values: Array) -> str:
    """float32 values as text."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _joined(parts: Sequence[Array | None]) -> Array:
    arrays = [p for p in parts if p is not None]
    return np.concatenate(arrays) if arrays else np.zeros((0, 1))
