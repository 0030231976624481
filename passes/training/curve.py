"""The figures of trainings by step, as their passes report them while a recipe runs. No torch: a chart reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.model.document.recipe import Step

Series = tuple[tuple[int, float], ...]
TRAINING_LOSS = "training loss"
ACCURACY, SAMPLES = "validation accuracy", "validation samples"  # the latter: on how many each accuracy is measured
MOST = 400  # points of a series that is kept with each trial of a search


def thinned(series: Sequence[tuple[int, float]], most: int = MOST) -> Series:
    """At most so many points: the mean over equally many steps, at the last of them. What is no number is left out."""
    series = [p for p in series if math.isfinite(p[1])]
    size = -(-len(series) // most) or 1
    parts = [series[i : i + size] for i in range(0, len(series), size)]
    return tuple((part[-1][0], math.fsum(v for _, v in part) / len(part)) for part in parts)


@dataclass(frozen=True, slots=True)
class Curve:
    """One training: `place` of its step among the recipe's (from 1), its seed, and figure → (optimiser step, value).

    `taught`: its training loss holds what a teacher adds, so that it is no plain cross-entropy.
    """

    recipe: str
    place: int
    name: str
    seed: int
    taught: bool
    series: dict[str, Series] = field(default_factory=dict[str, Series])

    @property
    def samples(self) -> int:
        """How many samples its accuracies are measured on; 0 where that is not known."""
        return samples_of(self.series)


def samples_of(series: Mapping[str, Sequence[tuple[int, float]]]) -> int:
    """How many samples the accuracies among a training's figures are measured on; 0 where that is not known."""
    return int(series[SAMPLES][-1][1]) if series.get(SAMPLES) else 0


class Recorder:
    """Hears what the steps of a recipe report: `begins` before each, `metric` as a context's."""

    def __init__(self, recipe: str) -> None:
        self.recipe, self.seed = recipe, 0
        self._of: Curve | None = None
        self._told: list[tuple[Curve, dict[str, dict[int, float]]]] = []

    def begins(self, index: int, step: Step) -> None:
        """The next figures are of this step."""
        given: Any = step.options
        taught = bool(getattr(given, "distil", 0.0) or getattr(given, "hidden", 0.0))
        self._of = Curve(self.recipe, index + 1, step.pass_name, self.seed, taught)

    def metric(self, name: str, step: int, value: float) -> None:
        """A figure; one that is told again, as by a training that goes on, counts once."""
        if self._of is None:
            return
        if not self._told or self._told[-1][0] is not self._of:
            self._told.append((self._of, {}))
        self._told[-1][1].setdefault(name, {})[step] = value

    @property
    def curves(self) -> list[Curve]:
        """All steps that reported figures, in the order in which they ran."""
        return [
            Curve(c.recipe, c.place, c.name, c.seed, c.taught, {n: tuple(v.items()) for n, v in told.items()})
            for c, told in self._told
        ]
