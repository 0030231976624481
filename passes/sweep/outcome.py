"""What came of a sweep's points, as plain values; means and spreads over seeds; tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.passes.figure import Change, accuracy_of, wilson
from espalier.passes.sweep.sweep import Sweep, axis_name, axis_title
from espalier.passes.sweep.values import value_text

FIGURES = ("accuracy", "loss", "size_bytes", "weight_bits", "activation_bits", "sparsity", "bitops", "memory_density",
           "activation_sparsity")  # fmt: skip
BASELINE = -1
KEPT_STEP = "kept_step"  # of a point's last training; 0: it did not help, and the weights of before it are kept


@dataclass(frozen=True, slots=True)
class Outcome:
    """One point's score, or why it has none. `key` tells the recipe, the model and the data.

    `seconds`: of each step that ran for it, and of `evaluate`; `reused`: it was known before.
    """

    key: str
    variant: int
    x: int
    seed: int
    score: dict[str, Any] = field(default_factory=dict)  # type: ignore[assignment]
    error: str = ""
    hint: str = ""
    seconds: dict[str, float] = field(default_factory=dict)  # type: ignore[assignment]
    reused: bool = False

    @property
    def place(self) -> tuple[int, int, int]:
        """Variant, value and seed."""
        return self.variant, self.x, self.seed


@dataclass(frozen=True, slots=True)
class Mean:
    """A figure over seeds: mean, standard deviation of the sample (0 for one), the extremes, and how many."""

    mean: float
    std: float
    low: float
    high: float
    count: int


def mean_of(values: Sequence[float]) -> Mean | None:
    """The mean and its spread; None of nothing."""
    if not values:
        return None
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Mean(statistics.fmean(values), std, min(values), max(values), len(values))


def figures_of(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """The figures that any of them has, accuracy first."""
    found = {k for o in outcomes for k, v in o.score.items() if isinstance(v, int | float)}
    return tuple(f for f in FIGURES if f in found)


def curves(sweep: Sweep, outcomes: Iterable[Outcome], figure: str) -> list[list[tuple[int, Mean]]]:
    """For each variant (number of the value, mean over seeds) of a figure, where it is known."""
    held: dict[tuple[int, int], list[float]] = {}
    for outcome in outcomes:
        value = outcome.score.get(figure)
        if outcome.variant >= 0 and isinstance(value, int | float):
            held.setdefault((outcome.variant, outcome.x), []).append(float(value))
    means = {place: mean for place, values in held.items() if (mean := mean_of(values))}
    return [[(x, means[v, x]) for x in range(len(sweep.values)) if (v, x) in means]
            for v in range(len(sweep.variants))]  # fmt: skip


def baseline_of(outcomes: Iterable[Outcome]) -> Outcome | None:
    """The outcome of the state that points are compared with."""
    return next((o for o in outcomes if o.variant == BASELINE), None)


def baseline_label(sweep: Sweep) -> str:
    """`baseline (opened)`."""
    return f"baseline ({sweep.baseline_name})"


@dataclass(frozen=True, slots=True)
class Sampled:
    """What all accuracies of a sweep are measured on: so many samples, and what guessing gives there."""

    n: int
    guessing: float | None


def sampled(outcomes: Iterable[Outcome]) -> Sampled | None:
    """The samples of the accuracies, as the first one tells them; None where none does."""
    found = next((f for o in outcomes if (f := accuracy_of(o.score))), None)
    return None if found is None else Sampled(found.n, found.guessing)


def change_of(outcome: Outcome, outcomes: Iterable[Outcome], sweep: Sweep) -> Change | None:
    """How far a point's accuracy is from the baseline's; None of the baseline itself, and where one is not known."""
    base = baseline_of(outcomes)
    before, now = accuracy_of(base.score) if base else None, accuracy_of(outcome.score)
    return now.against(before, sweep.baseline_name) if now and before and outcome.variant != BASELINE else None


def bands(sweep: Sweep, outcomes: Sequence[Outcome], figure: str) -> list[list[tuple[int, float, float]]]:
    """For each variant (number of the value, low, high): Wilson's interval of each mean accuracy; else nothing."""
    known = sampled(outcomes) if figure == "accuracy" else None
    if known is None:
        return [[] for _ in sweep.variants]
    return [[(x, *wilson(m.mean, known.n)) for x, m in line] for line in curves(sweep, outcomes, figure)]


def guessing_of(outcomes: Iterable[Outcome], figure: str) -> float | None:
    """What always naming the most frequent class gets right; of other figures None."""
    known = sampled(outcomes) if figure == "accuracy" else None
    return known.guessing if known else None


def _noise(outcome: Outcome, outcomes: Sequence[Outcome], sweep: Sweep) -> dict[str, Any]:
    """The columns that stand with an accuracy."""
    found, change = accuracy_of(outcome.score), change_of(outcome, outcomes, sweep)
    return {"n": found.n if found else None, "interval": found.interval if found else None,
            "change": change.value if change else None,
            "within_noise": change.noise if change else None}  # fmt: skip


def rows(sweep: Sweep, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row a point, for tables and files."""
    name = axis_name(sweep.recipe, sweep.axis) if sweep.axis else ""
    known = figures_of(outcomes)
    found: list[dict[str, Any]] = []
    for o in outcomes:
        row: dict[str, Any] = {"variant": baseline_label(sweep) if o.variant < 0 else sweep.variants[o.variant].label}
        if sweep.axis:
            row[name] = None if o.variant < 0 else sweep.values[o.x]
        row["seed"] = o.seed
        for k in known:
            row[k] = o.score.get(k)
            if k == "accuracy" and sampled(outcomes):
                row |= _noise(o, outcomes, sweep)
        if any(KEPT_STEP in other.score for other in outcomes):
            row[KEPT_STEP] = o.score.get(KEPT_STEP)
        found.append({**row, "error": o.error, "seconds": round(sum(o.seconds.values()), 3)})
    return found


def mean_rows(sweep: Sweep, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row a value and variant: mean, standard deviation and extremes of each figure over the seeds."""
    name = axis_name(sweep.recipe, sweep.axis) if sweep.axis else ""
    known = figures_of(outcomes)
    by_figure = {k: [dict(line) for line in curves(sweep, outcomes, k)] for k in known}
    found: list[dict[str, Any]] = []
    for v, variant in enumerate(sweep.variants):
        for x, value in enumerate(sweep.values):
            held = {k: by_figure[k][v][x] for k in known if x in by_figure[k][v]}
            if held:
                row = {"variant": variant.label, **({name: value} if sweep.axis else {})}
                row["seeds"] = max(m.count for m in held.values())
                found.append(row | _spread(held))
    return found


def _spread(held: Mapping[str, Mean]) -> dict[str, float]:
    return {f"{k}{end}": value for k, m in held.items()
            for end, value in (("_mean", m.mean), ("_std", m.std), ("_min", m.low), ("_max", m.high))}  # fmt: skip


def point_words(sweep: Sweep, outcome: Outcome) -> str:
    """Which point it is: `sparsity 0.3 · l1 · seed 1`."""
    if outcome.variant < 0:
        return baseline_label(sweep)
    parts = [f"{axis_title(sweep)} {value_text(sweep.values[outcome.x])}"] if sweep.axis else []
    parts += [sweep.variants[outcome.variant].label] if sweep.variants[outcome.variant].label else []
    parts += [f"seed {outcome.seed}"] if len(sweep.seeds) > 1 or not parts else []
    return " · ".join(parts)
