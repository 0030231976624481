"""The axes of parallel coordinates: choices and goals, each scaled to 0 … 1, and the brushes on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from espalier.app.figures.study.data import COMPLETE, Scale, Study
from espalier.app.figures.study.labels import tick_text, title, value_words
from espalier.app.figures.study.short_names import short_names
from espalier.app.widgets.charts.metrics import spacing
from espalier.model.data.base import Array

GOLDEN = 0.6180339887
SPREAD = 0.3  # share of a category's height over which its lines are spread
ALL = slice(None)
MANY = 7.0  # labels on an axis of numbers


@dataclass(slots=True, eq=False)
class Axis:
    """A choice or a metric. `brushes`: ranges within 0 … 1; a trial is selected if it lies in one of them."""

    name: str
    text: str
    scale: Scale | None
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    brushes: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def is_categorical(self) -> bool:
        """Whether the axis is categorical."""
        return self.scale is not None and not self.scale.numeric

    def like(self, other: Axis) -> bool:
        """Whether another axis has the same categories."""
        return bool(self.is_categorical and other.is_categorical and self.scale and other.scale
                    and self.scale.values == other.scale.values)  # fmt: skip

    def values(self, study: Study) -> Array:
        """The values of the trials."""
        return study.figures[self.name] if self.scale is None else study.params[self.name]

    def unit(self, study: Study, indices: Array | slice = ALL) -> Array:
        """Positions of the trials in 0 … 1, spread within a category; NaN without a value."""
        return self.part(self.spread(study, indices))

    def spread(self, study: Study, indices: Array | slice = ALL) -> Array:
        """The values of the trials, spread within a category."""
        values = self.values(study)[indices]
        return (
            values + SPREAD * (2 * np.mod(study.number[indices] * GOLDEN, 1.0) - 1) if self.is_categorical else values
        )

    def part(self, values: Array) -> Array:
        """Positions of values in 0 … 1."""
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(np.where(values > 0, values, np.nan)), np.log(low), np.log(high)
        return (values - low) / ((high - low) or 1.0)

    def hover_text_at(self, part: float) -> str:
        """The value at a position of the axis in 0 … 1, as text."""
        part = min(max(part, 0.0), 1.0)
        value = self.low * (self.high / self.low) ** part if self.log else self.low + part * (self.high - self.low)
        return self.scale.text(value) if self.scale else value_words(self.name, value)

    def ticks(self) -> list[tuple[float, str]]:
        """(position in 0 … 1, label) of the ticks."""
        if self.is_categorical and self.scale:
            return [(float(self.part(np.array(position))), text) for position, text in self.scale.categories()]
        if self.log:
            powers = range(int(np.floor(np.log10(self.low))), int(np.ceil(np.log10(self.high))) + 1)
            labels = np.array([10.0**p for p in powers])
        else:
            step = step_of(self.name, self.high - self.low, MANY)
            labels = np.arange(np.ceil(self.low / step), np.floor(self.high / step + 1e-9) + 1) * step
        parts = self.part(labels)
        inside = (parts > -1e-9) & (parts < 1 + 1e-9)
        gap = 0.0 if self.log or len(labels) < 2 else float(labels[1] - labels[0])
        return list(zip(parts[inside].tolist(), tick_text(self.name, labels[inside].tolist(), gap), strict=True))

    def inside(self, study: Study) -> Array:
        """Mask of the trials within a brush; all without brushes."""
        if not self.brushes:
            return np.ones(len(study), bool)
        part = self.unit(study)
        return np.logical_or.reduce([(part >= low) & (part <= high) for low, high in self.brushes])

    def fit(self, study: Study) -> bool:
        """Extend the range to all values; returns whether it changed."""
        previous = self.low, self.high
        if self.scale is not None and (self.scale.numeric or self.is_categorical):
            self.low, self.high = self.scale.ends
        else:
            values = self.values(study)[study.state == COMPLETE]
            values = values[np.isfinite(values)]
            if len(values):
                low, high = float(values.min()), float(values.max())
                if not (self.low <= low and high <= self.high) or previous == (0.0, 1.0):
                    room = 0.03 * ((high - low) or abs(low) or 1.0)
                    self.low, self.high = low - room, high + room
        return previous != (self.low, self.high)


def step_of(name: str, span: float, room: float) -> float:
    """Step between two labels of a metric, round in its unit (binary for sizes)."""
    unit = 1024.0 ** max(int(np.log2(span) // 10), 0) if name == "size_bytes" and span > 1 else 1.0
    return spacing(span / unit, room) * unit


def axes_of(study: Study) -> list[Axis]:
    """The axes of choices with at least one value, then of the goals."""
    made = [s.choice for n, s in study.scales.items() if n in study.params]
    short = short_names(made)
    choices = [Axis(c.name, short[c.name], study.scales[c.name], log=c.log) for c in made]
    return [*choices, *(Axis(g.figure, title(g.figure), None) for g in study.goals if g.figure in study.figures)]


def axes_made(study: Study) -> int:
    """The number of axes of `axes_of`."""
    return sum(n in study.params for n in study.scales) + sum(g.figure in study.figures for g in study.goals)
