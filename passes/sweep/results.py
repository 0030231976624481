"""Results of a sweep's points: outcomes, statistics over seeds, tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.passes.figure import Change, main_figure, wilson
from espalier.passes.sweep.sweep import Sweep, axis_name, axis_title
from espalier.passes.sweep.values import value_text
from espalier.passes.tasks.base import all_metrics

COSTS = ("size_bytes", "weight_bits", "activation_bits", "sparsity", "bitops", "memory_density",
         "activation_sparsity")  # fmt: skip
BASELINE = -1
KEPT_STEP = "kept_step"  # selected step of a point's last training; 0: the weights before the training


def metric_names(main: str = "accuracy") -> tuple[str, ...]:
    """The metrics of any task, the `main` one first, and the costs of a score."""
    return tuple(dict.fromkeys([main, "accuracy", "loss", "perplexity", "bits_per_byte", *all_metrics(), *COSTS]))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One point's score or error. `key`: hash of recipe, model and data.

    `seconds`: of each step that was run, and of `evaluate`; `reused`: from an earlier run.
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
    """A metric over seeds: mean, sample standard deviation (0 for one value), extremes, count."""

    mean: float
    std: float
    low: float
    high: float
    count: int


def mean_of(values: Sequence[float]) -> Mean | None:
    """Statistics of values; None if there are none."""
    if not values:
        return None
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Mean(statistics.fmean(values), std, min(values), max(values), len(values))


def figures_of(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """The metrics of any outcome, the task's main one first."""
    outcomes = list(outcomes)
    present = {k for o in outcomes for k, v in o.score.items() if isinstance(v, int | float)}
    return tuple(f for f in metric_names(main_name(outcomes)) if f in present)


def main_name(outcomes: Iterable[Outcome]) -> str:
    """The main metric of the outcomes' task; accuracy if none was measured."""
    return next((str(o.score["metric"]) for o in outcomes if "metric" in o.score), "accuracy")


def curves(sweep: Sweep, outcomes: Iterable[Outcome], figure: str) -> list[list[tuple[int, Mean]]]:
    """For each variant, (index of the value, mean over seeds) of a metric, where available."""
    values_of: dict[tuple[int, int], list[float]] = {}
    for outcome in outcomes:
        value = outcome.score.get(figure)
        if outcome.variant >= 0 and isinstance(value, int | float):
            values_of.setdefault((outcome.variant, outcome.x), []).append(float(value))
    means = {point: mean for point, values in values_of.items() if (mean := mean_of(values))}
    return [[(x, means[v, x]) for x in range(len(sweep.values)) if (v, x) in means]
            for v in range(len(sweep.variants))]  # fmt: skip


def baseline_of(outcomes: Iterable[Outcome]) -> Outcome | None:
    """The outcome of the baseline."""
    return next((o for o in outcomes if o.variant == BASELINE), None)


def baseline_label(sweep: Sweep) -> str:
    """`baseline (opened)`."""
    return f"baseline ({sweep.baseline_name})"


@dataclass(frozen=True, slots=True)
class Sampled:
    """Number of samples of a sweep's main metric, and its level of guessing. `share`: whether it is a share."""

    n: int
    guessing: float | None
    name: str = "accuracy"
    share: bool = True


def sampled(outcomes: Iterable[Outcome]) -> Sampled | None:
    """The samples of the first outcome with a main metric, or None."""
    first = next((f for o in outcomes if (f := main_figure(o.score))), None)
    return None if first is None else Sampled(first.n, first.guessing, first.name, first.share)


def change_of(outcome: Outcome, outcomes: Iterable[Outcome], sweep: Sweep) -> Change | None:
    """Change of a point's main metric from the baseline's; None for the baseline, or if either is missing."""
    base = baseline_of(outcomes)
    before, now = main_figure(base.score) if base else None, main_figure(outcome.score)
    return now.against(before, sweep.baseline_name) if now and before and outcome.variant != BASELINE else None


def bands(sweep: Sweep, outcomes: Sequence[Outcome], figure: str) -> list[list[tuple[int, float, float]]]:
    """For each variant, (index of the value, low, high): interval of each main metric, Wilson's of a mean share; empty
    for other metrics and for the means of several seeds."""
    samples = sampled(outcomes)
    if samples is None or samples.name != figure:
        return [[] for _ in sweep.variants]
    if not samples.share:
        ends = {o.place[:2]: f.interval for o in outcomes if len(sweep.seeds) == 1 and (f := main_figure(o.score))}
        return [[(x, *ends[v, x]) for x in range(len(sweep.values)) if (v, x) in ends]
                for v in range(len(sweep.variants))]  # fmt: skip
    return [[(x, *wilson(m.mean, samples.n)) for x, m in line] for line in curves(sweep, outcomes, figure)]


def guessing_of(outcomes: Iterable[Outcome], figure: str) -> float | None:
    """The level of guessing of the main metric; None for other metrics."""
    samples = sampled(outcomes)
    return samples.guessing if samples and samples.name == figure else None


def _noise(outcome: Outcome, outcomes: Sequence[Outcome], sweep: Sweep) -> dict[str, Any]:
    """Columns beside the main metric: samples, interval, change from the baseline, noise."""
    accuracy, change = main_figure(outcome.score), change_of(outcome, outcomes, sweep)
    return {"n": accuracy.n if accuracy else None, "interval": accuracy.interval if accuracy else None,
            "change": change.value if change else None,
            "within_noise": change.noise if change else None}  # fmt: skip


def rows(sweep: Sweep, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row per point, for tables and files."""
    name = axis_name(sweep.recipe, sweep.axis) if sweep.axis else ""
    metrics = figures_of(outcomes)
    main = main_name(outcomes)
    table: list[dict[str, Any]] = []
    for o in outcomes:
        row: dict[str, Any] = {"variant": baseline_label(sweep) if o.variant < 0 else sweep.variants[o.variant].label}
        if sweep.axis:
            row[name] = None if o.variant < 0 else sweep.values[o.x]
        row["seed"] = o.seed
        for k in metrics:
            row[k] = o.score.get(k)
            if k == main and sampled(outcomes):
                row |= _noise(o, outcomes, sweep)
        if any(KEPT_STEP in other.score for other in outcomes):
            row[KEPT_STEP] = o.score.get(KEPT_STEP)
        table.append({**row, "error": o.error, "seconds": round(sum(o.seconds.values()), 3)})
    return table


def mean_rows(sweep: Sweep, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row per value and variant: mean, standard deviation and extremes of each metric over the seeds."""
    name = axis_name(sweep.recipe, sweep.axis) if sweep.axis else ""
    metrics = figures_of(outcomes)
    by_metric = {k: [dict(line) for line in curves(sweep, outcomes, k)] for k in metrics}
    table: list[dict[str, Any]] = []
    for v, variant in enumerate(sweep.variants):
        for x, value in enumerate(sweep.values):
            means = {k: by_metric[k][v][x] for k in metrics if x in by_metric[k][v]}
            if means:
                row = {"variant": variant.label, **({name: value} if sweep.axis else {})}
                row["seeds"] = max(m.count for m in means.values())
                table.append(row | _spread(means))
    return table


def _spread(means: Mapping[str, Mean]) -> dict[str, float]:
    return {f"{k}{end}": value for k, m in means.items()
            for end, value in (("_mean", m.mean), ("_std", m.std), ("_min", m.low), ("_max", m.high))}  # fmt: skip


def point_text(sweep: Sweep, outcome: Outcome) -> str:
    """Label of a point: `sparsity 0.3 · l1 · seed 1`."""
    if outcome.variant < 0:
        return baseline_label(sweep)
    parts = [f"{axis_title(sweep)} {value_text(sweep.values[outcome.x])}"] if sweep.axis else []
    parts += [sweep.variants[outcome.variant].label] if sweep.variants[outcome.variant].label else []
    parts += [f"seed {outcome.seed}"] if len(sweep.seeds) > 1 or not parts else []
    return " · ".join(parts)
