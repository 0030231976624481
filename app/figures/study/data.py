"""The trials of a study as columns that only grow: what all charts draw from, told what is new."""

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
    """Named columns of floats that grow by doubling; what was not told is NaN."""

    def __init__(self) -> None:
        self.count = 0
        self._room = FIRST
        self._held: dict[str, Array] = {}

    def grow(self, count: int) -> None:
        """Make room for so many rows."""
        if count > self._room:
            while count > self._room:
                self._room *= 2
            for name, old in self._held.items():
                self._held[name] = np.concatenate([old, np.full(self._room - len(old), np.nan)])
        self.count = max(self.count, count)

    def put(self, place: int, name: str, value: float) -> None:
        """Write one value."""
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = np.full(self._room, np.nan)
        held[place] = value

    def __contains__(self, name: str) -> bool:
        return name in self._held

    @property
    def names(self) -> list[str]:
        """The columns, in the order in which they came."""
        return list(self._held)

    def __getitem__(self, name: str) -> Array:
        held = self._held.get(name)
        return np.full(self.count, np.nan) if held is None else held[: self.count]


class Scale:
    """One axis of a choice: numbers at their value, anything else one beside the other in its order."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.values: list[Any] = list(choice.values)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)
        if not choice.ordered and numbers:
            self.values.sort()
        self.numeric = choice.low is not None and choice.high is not None
        self.log = choice.log
        self._places = {_key(v): float(i) for i, v in enumerate(self.values)}

    def place(self, value: Any) -> float:
        """Where a value stands: its number, or its place among the values; one that is new gets the next."""
        if self.numeric and isinstance(value, (int, float)):
            return float(value)
        key = value if type(value) is str else _key(value)
        held = self._places.get(key)
        return self._add(key, value) if held is None else held

    def _add(self, key: Any, value: Any) -> float:
        self.values.append(value)
        self._places[key] = place = float(len(self.values) - 1)
        return place

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most."""
        if self.numeric:
            low, high = float(self.choice.low or 0.0), float(self.choice.high or 0.0)
            return (low, high) if high > low else (low - 0.5, low + 0.5)
        return -0.5, max(len(self.values), 1) - 0.5

    def categories(self) -> list[tuple[float, str]]:
        """All values in words, with their places."""
        return [(float(i), self.text(i)) for i in range(len(self.values))]

    def text(self, place: float) -> str:
        """A place in words."""
        if self.numeric:
            return plain(round(place) if self.choice.whole else float(f"{place:.4g}"))
        return plain(self.values[round(place)], self.choice.fit) if 0 <= round(place) < len(self.values) else ""


def _key(value: Any) -> Any:
    """What tells a value from others: 1 and True are two."""
    return (type(value).__name__, str(value)) if isinstance(value, bool | list | dict) else value


class Study:
    """Trials, goals and choices; `note` takes a trial in. `counted`: samples or steps of a training.

    `named`: the name of the baseline.
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
        self.sampled: Accuracy | None = None  # an accuracy with its samples, on which all are measured
        self.trials: list[Trial] = []
        self.scales: dict[str, Scale] = {c.name: Scale(c) for c in choices}
        self._given = bool(choices)
        self._places: dict[int, int] = {}
        self._signs: dict[str, float] = {}
        self.figures, self.params, self.facts = Columns(), Columns(), Columns()
        for trial in trials:
            self.note(trial)

    def __len__(self) -> int:
        return len(self.trials)

    def note(self, trial: Trial) -> int:
        """Take in a trial, or what became of one that is known; its place."""
        place = self._places.setdefault(trial.number, len(self.trials))
        if place == len(self.trials):
            self.trials.append(trial)
            for columns in (self.figures, self.params, self.facts):
                columns.grow(len(self.trials))
        else:
            self.trials[place] = trial
        self.sampled = self.sampled or trial.accuracy
        for name, value in self._told(trial).items():
            self.figures.put(place, name, value)
        scales, put = self.scales, self.params.put  # a space of layers has a hundred choices
        for name, value in trial.params.items():
            if scale := scales.get(name) or self._scale(name):
                put(place, name, scale.place(value))
        facts = {"number": trial.number, "state": STATES.index(trial.state), "feasible": trial.feasible,
                 "started": trial.started, "seconds": np.nan if trial.seconds is None else trial.seconds,
                 "unmeasured": trial.unmeasured}  # fmt: skip
        for name, value in facts.items():
            self.facts.put(place, name, float(value))
        return place

    def _told(self, trial: Trial) -> dict[str, float]:
        """All figures of a trial; of one that ended early, the last that it told of its first goal."""
        told = {k: float(v) for k, v in trial.figures.items() if isinstance(v, int | float)}
        if len(trial.values) == len(self.goals):
            told |= {g.figure: float(v) for g, v in zip(self.goals, trial.values, strict=True)}
        elif len(trial.values) == 1:
            told[SUM] = float(trial.values[0])
        if trial.state == "pruned" and trial.steps and self.goals:
            told.setdefault(self.goals[0].figure, float(trial.steps[-1][1]))
        return told

    def _scale(self, name: str) -> Scale | None:
        """The axis of a choice; studies that come without their space get one from what was chosen."""
        if name not in self.scales and not self._given:
            self.scales[name] = Scale(Choice(name, "option"))
        return self.scales.get(name)

    # -- what charts ask

    @property
    def number(self) -> Array:
        """The trials' numbers."""
        return self.facts["number"]

    @property
    def state(self) -> Array:
        """The trials' states as codes."""
        return self.facts["state"]

    @property
    def feasible(self) -> Array:
        """Which are complete and hold every constraint."""
        return self.facts["feasible"] == 1

    @property
    def names(self) -> list[str]:
        """All figures that can be drawn: goals first."""
        summed = [SUM] if SUM in self.figures else []
        return list(dict.fromkeys([*summed, *(g.figure for g in self.goals), *self.figures.names]))

    def goal(self, figure: str) -> Goal:
        """The goal of a figure; one that is none counts as it is meant."""
        return next((g for g in self.goals if g.figure == figure), Goal(figure))

    def sign(self, figure: str) -> float:
        """1 where more is better, else −1: a figure times this is to be high."""
        if figure not in self._signs:
            self._signs[figure] = 1.0 if rises(self.goal(figure)) else -1.0
        return self._signs[figure]

    def merit(self, figure: str) -> Array:
        """The figure, so that more is better; −inf where it counts for nothing (failed, early, infeasible)."""
        values = self.figures[figure] * self.sign(figure)
        return np.where(self.feasible & ~np.isnan(values), values, -np.inf)

    def best(self, figure: str) -> Array:
        """The best so far after each trial, NaN before the first."""
        so_far = np.maximum.accumulate(self.merit(figure)) if len(self) else np.zeros(0)
        return np.where(np.isfinite(so_far), so_far * self.sign(figure), np.nan)

    def front(self, figures: Sequence[str]) -> Array:
        """Places of the feasible trials that no other beats in all figures, by the first figure."""
        if not len(self) or not figures:
            return np.zeros(0, int)
        return nondominated(np.stack([self.merit(f) for f in figures], 1))

    @cached_property
    def bounds(self) -> dict[str, tuple[str, float]]:
        """Figure → (sense, limit) of the constraints that are plain limits."""
        found: dict[str, tuple[str, float]] = {}
        for text in self.within:
            for sense in ("<=", ">=", "≤", "≥"):
                name, there, limit = text.partition(sense)
                if there:
                    try:
                        found[name.strip()] = ("≤" if sense in ("<=", "≤") else "≥", float(limit))
                    except ValueError:
                        continue
                    break
        return found


def nondominated(merits: Array) -> Array:
    """Places of rows that no other row beats: at least as high everywhere, higher somewhere. Rows of −inf never are."""
    left = np.flatnonzero(np.isfinite(merits).all(1))
    order = left[np.lexsort(-merits[left].T[::-1])]
    kept: list[int] = []
    while len(order):
        first = order[0]
        kept.append(int(first))
        rest = merits[order[1:]]
        beaten = (rest <= merits[first]).all(1)
        equal = (rest == merits[first]).all(1)
        kept += order[1:][equal].tolist()
        order = order[1:][~beaten]
    return np.array(kept, int)
