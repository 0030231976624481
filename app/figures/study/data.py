"""The trials of a study as growing columns of floats, which all charts of the study share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from espalier.app.figures.study.labels import SUM, plain, rises
from espalier.model.data.base import Array
from espalier.passes.figure import OPENED
from espalier.passes.figure import Figure as Accuracy
from espalier.passes.search.space import Choice
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial

STATES = ("waiting", "running", "complete", "pruned", "failed")
WAITING, RUNNING, COMPLETE, PRUNED, FAILED = range(5)
FIRST = 64


class Columns:
    """Named columns of floats that grow by doubling; missing values are NaN."""

    def __init__(self) -> None:
        self.count = 0
        self._capacity = FIRST
        self._columns: dict[str, Array] = {}

    def grow(self, count: int) -> None:
        """Grow to `count` rows."""
        if count > self._capacity:
            while count > self._capacity:
                self._capacity *= 2
            for name, old in self._columns.items():
                self._columns[name] = np.concatenate([old, np.full(self._capacity - len(old), np.nan)])
        self.count = max(self.count, count)

    def put(self, row: int, name: str, value: float) -> None:
        """Write one value."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = np.full(self._capacity, np.nan)
        column[row] = value

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of their creation."""
        return list(self._columns)

    def __getitem__(self, name: str) -> Array:
        column = self._columns.get(name)
        return np.full(self.count, np.nan) if column is None else column[: self.count]


class Scale:
    """The axis of a choice: numbers at their value, other values at their index."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.values: list[Any] = list(choice.values)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)
        if not choice.ordered and numbers:
            self.values.sort()
        self.numeric = choice.low is not None and choice.high is not None
        self.log = choice.log
        self._positions = {_key(v): float(i) for i, v in enumerate(self.values)}

    def place(self, value: Any) -> float:
        """The position of a value: the number, or its index; a new value is appended."""
        if self.numeric and isinstance(value, (int, float)):
            return float(value)
        key = value if type(value) is str else _key(value)
        position = self._positions.get(key)
        return self._add(key, value) if position is None else position

    def _add(self, key: Any, value: Any) -> float:
        self.values.append(value)
        self._positions[key] = position = float(len(self.values) - 1)
        return position

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the axis."""
        if self.numeric:
            low, high = float(self.choice.low or 0.0), float(self.choice.high or 0.0)
            return (low, high) if high > low else (low - 0.5, low + 0.5)
        return -0.5, max(len(self.values), 1) - 0.5

    def categories(self) -> list[tuple[float, str]]:
        """(position, text) of all values."""
        return [(float(i), self.text(i)) for i in range(len(self.values))]

    def text(self, place: float) -> str:
        """The text of the value at a position."""
        if self.numeric:
            return plain(round(place) if self.choice.whole else float(f"{place:.4g}"))
        return plain(self.values[round(place)], self.choice.fit) if 0 <= round(place) < len(self.values) else ""


def _key(value: Any) -> Any:
    """A hashable key of a value; 1 and True have different keys."""
    return (type(value).__name__, str(value)) if isinstance(value, bool | list | dict) else value


class Study:
    """The trials, goals and choices of a study; `note` adds or updates a trial.

    `counted`: what intermediate steps count, "samples" or "steps" of a training. `named`: the name of the baseline.
    """

    def __init__(
        self,
        trials: Sequence[Trial] = (),
        goals: Sequence[Goal] = (),
        choices: Sequence[Choice] = (),
        baseline: Mapping[str, float] | None = None,
        within: Sequence[str] = (),
        counted: str = "samples",
        named: str = OPENED,
    ) -> None:
        self.goals = tuple(goals)
        self.baseline = dict(baseline or {})
        self.within, self.counted, self.named = tuple(within), counted, named
        self.sampled: Accuracy | None = None  # an accuracy with its number of samples, the same for all trials
        self.trials: list[Trial] = []
        self.scales: dict[str, Scale] = {c.name: Scale(c) for c in choices}
        self._has_space = bool(choices)
        self._rows: dict[int, int] = {}  # by the number of the trial
        self._signs: dict[str, float] = {}
        self.figures, self.params, self.facts = Columns(), Columns(), Columns()
        for trial in trials:
            self.note(trial)

    def __len__(self) -> int:
        return len(self.trials)

    def note(self, trial: Trial) -> int:
        """Add a trial, or update the one of its number; returns its row."""
        row = self._rows.setdefault(trial.number, len(self.trials))
        if row == len(self.trials):
            self.trials.append(trial)
            for columns in (self.figures, self.params, self.facts):
                columns.grow(len(self.trials))
        else:
            self.trials[row] = trial
        self.sampled = self.sampled or trial.main
        for name, value in self._metrics(trial).items():
            self.figures.put(row, name, value)
        scales, put = self.scales, self.params.put  # looked up once: a space of layers has a hundred choices
        for name, value in trial.params.items():
            if scale := scales.get(name) or self._scale(name):
                put(row, name, scale.place(value))
        facts = {"number": trial.number, "state": STATES.index(trial.state), "feasible": trial.feasible,
                 "started": trial.started, "seconds": np.nan if trial.seconds is None else trial.seconds,
                 "unmeasured": trial.unmeasured}  # fmt: skip
        for name, value in facts.items():
            self.facts.put(row, name, float(value))
        return row

    def _metrics(self, trial: Trial) -> dict[str, float]:
        """The metrics of a trial; for a pruned one also the last intermediate value of the first goal."""
        metrics = {k: float(v) for k, v in trial.figures.items() if isinstance(v, int | float)}
        if len(trial.values) == len(self.goals):
            metrics |= {g.figure: float(v) for g, v in zip(self.goals, trial.values, strict=True)}
        elif len(trial.values) == 1:
            metrics[SUM] = float(trial.values[0])
        if trial.state == "pruned" and trial.steps and self.goals:
            metrics.setdefault(self.goals[0].figure, float(trial.steps[-1][1]))
        return metrics

    def _scale(self, name: str) -> Scale | None:
        """The axis of a choice; in a study without a space it is created from the trials."""
        if name not in self.scales and not self._has_space:
            self.scales[name] = Scale(Choice(name, "option"))
        return self.scales.get(name)

    # -- columns for charts

    @property
    def number(self) -> Array:
        """The numbers of the trials."""
        return self.facts["number"]

    @property
    def state(self) -> Array:
        """The states of the trials, as indices of STATES."""
        return self.facts["state"]

    @property
    def feasible(self) -> Array:
        """Whether each trial is complete and satisfies all constraints."""
        return self.facts["feasible"] == 1

    @property
    def names(self) -> list[str]:
        """The names of all metrics, goals first."""
        summed = [SUM] if SUM in self.figures else []
        return list(dict.fromkeys([*summed, *(g.figure for g in self.goals), *self.figures.names]))

    def goal(self, figure: str) -> Goal:
        """The goal of a metric; a metric that is no goal has its default direction."""
        return next((g for g in self.goals if g.figure == figure), Goal(figure))

    def sign(self, figure: str) -> float:
        """1 if higher is better, else −1."""
        if figure not in self._signs:
            self._signs[figure] = 1.0 if rises(self.goal(figure)) else -1.0
        return self._signs[figure]

    def merit(self, figure: str) -> Array:
        """The metric, signed so that higher is better; −inf for failed, pruned and infeasible trials."""
        values = self.figures[figure] * self.sign(figure)
        return np.where(self.feasible & ~np.isnan(values), values, -np.inf)

    def best(self, figure: str) -> Array:
        """The best value so far after each trial; NaN before the first."""
        so_far = np.maximum.accumulate(self.merit(figure)) if len(self) else np.zeros(0)
        return np.where(np.isfinite(so_far), so_far * self.sign(figure), np.nan)

    def front(self, figures: Sequence[str]) -> Array:
        """Rows of the Pareto front of feasible trials, sorted by the first metric."""
        if not len(self) or not figures:
            return np.zeros(0, int)
        return nondominated(np.stack([self.merit(f) for f in figures], 1))

    @cached_property
    def bounds(self) -> dict[str, tuple[str, float]]:
        """Metric → (sense, limit) of the constraints that are plain limits."""
        bounds: dict[str, tuple[str, float]] = {}
        for text in self.within:
            for sense in ("<=", ">=", "≤", "≥"):
                name, there, limit = text.partition(sense)
                if there:
                    try:
                        bounds[name.strip()] = ("≤" if sense in ("<=", "≤") else "≥", float(limit))
                    except ValueError:
                        continue
                    break
        return bounds


def nondominated(merits: Array) -> Array:
    """Indices of the non-dominated rows of `merits` [rows, metrics], higher is better; rows with −inf are excluded."""
    finite = np.flatnonzero(np.isfinite(merits).all(1))
    order = finite[np.lexsort(-merits[finite].T[::-1])]
    front: list[int] = []
    while len(order):
        first = order[0]
        front.append(int(first))
        rest = merits[order[1:]]
        dominated = (rest <= merits[first]).all(1)
        equal = (rest == merits[first]).all(1)
        front += order[1:][equal].tolist()
        order = order[1:][~dominated]
    return np.array(front, int)
