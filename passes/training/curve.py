"""Metrics of trainings by step, recorded while a recipe runs. No torch, for the charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.model.document.recipe import Step

Series = tuple[tuple[int, float], ...]
TRAINING_LOSS = "training loss"
VALIDATION = "validation "  # before the title of a metric
ACCURACY, SAMPLES = f"{VALIDATION}accuracy", f"{VALIDATION}samples"  # the latter: of each accuracy
MAX_POINTS = 400  # of a series stored with a trial of a search


def thinned(series: Sequence[tuple[int, float]], most: int = MAX_POINTS) -> Series:
    """Reduce a series to at most `most` points by means over equal intervals; non-finite values are left out."""
    series = [p for p in series if math.isfinite(p[1])]
    size = -(-len(series) // most) or 1
    parts = [series[i : i + size] for i in range(0, len(series), size)]
    return tuple((part[-1][0], math.fsum(v for _, v in part) / len(part)) for part in parts)


@dataclass(frozen=True, slots=True)
class Curve:
    """One training: `place` of its step in the recipe (from 1), its seed, and metric → (optimiser step, value).

    `taught`: its training loss includes distillation, so it is not a plain cross-entropy.
    """

    recipe: str
    place: int
    name: str
    seed: int
    taught: bool
    series: dict[str, Series] = field(default_factory=dict[str, Series])

    @property
    def samples(self) -> int:
        """Number of samples of its accuracies; 0 if unknown."""
        return samples_of(self.series)


def samples_of(series: Mapping[str, Sequence[tuple[int, float]]]) -> int:
    """Number of samples of the accuracies in a training's metrics; 0 if unknown."""
    return int(series[SAMPLES][-1][1]) if series.get(SAMPLES) else 0


class Recorder:
    """Records the metrics of a recipe's steps: `begins` is called before each step, `metric` as a context's."""

    def __init__(self, recipe: str) -> None:
        self.recipe, self.seed = recipe, 0
        self._of: Curve | None = None
        self._metrics: list[tuple[Curve, dict[str, dict[int, float]]]] = []

    def begins(self, index: int, step: Step) -> None:
        """Assign the following metrics to this step."""
        options: Any = step.options
        taught = bool(getattr(options, "distil", 0.0) or getattr(options, "hidden", 0.0))
        self._of = Curve(self.recipe, index + 1, step.pass_name, self.seed, taught)

    def metric(self, name: str, step: int, value: float) -> None:
        """Record a value; one repeated by a resumed training replaces the first."""
        if self._of is None:
            return
        if not self._metrics or self._metrics[-1][0] is not self._of:
            self._metrics.append((self._of, {}))
        self._metrics[-1][1].setdefault(name, {})[step] = value

    @property
    def curves(self) -> list[Curve]:
        """The curves of all steps with metrics, in the order of their runs."""
        return [
            Curve(c.recipe, c.place, c.name, c.seed, c.taught, {n: tuple(v.items()) for n, v in values.items()})
            for c, values in self._metrics
        ]
