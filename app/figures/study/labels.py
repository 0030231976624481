"""What the charts of studies write: names of choices in short, values with their units, a trial told in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from espalier.app.figures.curves import figure_title, shares
from espalier.app.number_text import (
    THIN,
    cell,
    duration,
    figure,
    mebibytes,
    noise_text,
    percent,
    percents,
    scaled,
    shown,
    training_text,
)
from espalier.app.translation import message, tr
from espalier.model.errors import FormatError
from espalier.model.formats.base import parse_format
from espalier.passes.analysis.format_sqnr import columns
from espalier.passes.costs.base import OTHERS
from espalier.passes.search.format_lists import is_unfitted
from espalier.passes.search.goals import figures
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial

TIMES = ("latency", "layer_latency")  # of a batch: milliseconds, or less
SHARES = frozenset({*shares(), "agreement", OTHERS})
STATES = {
    "waiting": "queued",
    "running": "running",
    "complete": "complete",
    "pruned": "ended early",
    "failed": "failed",
}
SIGNS = {"<=": "≤", ">=": "≥", "≤": "≤", "≥": "≥", "<": "<", ">": ">"}
LOST, UNMEASURED = "lost", "not measured"  # a trial that was cut off; one that misses a limit without a measurement
SUM = tr("sum of goals")  # what the values of a search for one sum are called


def rises(goal: Goal) -> bool:
    """Whether more of it is better."""
    return goal.figure == SUM or (goal.better or figures().get(goal.figure, "low")) == "high"


def title(name: str) -> str:
    """A figure's name on an axis."""
    return {"kl": tr("KL divergence"), "trial": tr("trial")}.get(name) or figure_title(name)


def value_words(name: str, value: float) -> str:
    """A figure with its unit."""
    if value != value:
        return tr("not told")
    if name in SHARES:
        return percent(value)
    if name == "size_bytes":
        return mebibytes(value)
    if name == "bitops":
        return scaled(value)
    if name in TIMES:
        return f"{figure(1e3 * value)}{THIN}ms" if abs(value) < 1 else f"{figure(value)}{THIN}s"
    if name == "seconds":
        return duration(value)
    return cell(float(f"{value:.4g}"))


def tick_text(name: str, values: Sequence[float], spacing: float) -> list[str]:
    """Labels of an axis: as many digits as tell neighbours apart."""
    if name in SHARES:
        return percents(values, spacing)
    if name in ("size_bytes", "bitops", *TIMES):
        return [value_words(name, v) for v in values]
    return [cell(float(f"{v:.6g}")) if abs(v) < 1e15 else figure(v) for v in values]


def plain(value: Any, fit: bool = False) -> str:
    """A value of a choice as people read it: formats by their labels, `int 8 fitted` where layers differ."""
    if fit and isinstance(value, str):
        return _fitted(value)
    return shown("format", value) if isinstance(value, str) else "none" if value is None else cell(value)


@lru_cache(maxsize=1000)
def _fitted(text: str) -> str:
    try:
        return columns((parse_format(text),), is_unfitted(text))[0] if text != "float" else shown("format", text)
    except FormatError:
        return text


def bits_of(value: Any) -> float | None:
    """The bits of an element that a choice's value stands for, where it is a format."""
    return 32.0 if value is None else _bits(value) if isinstance(value, str) else None


@lru_cache(maxsize=1000)
def _bits(text: str) -> float | None:
    try:
        return 32.0 if text == "float" else float(parse_format(text).bits)
    except (FormatError, NotImplementedError):
        return None


def limit_text(text: str) -> str:
    """`weight_bits<=4.5` as people read it: `weight bits ≤ 4.5`."""
    sign = next((s for s in SIGNS if s in text), "")
    figure, _, number = (p.strip() for p in text.partition(sign or "="))
    return f"{title(figure)} {SIGNS[sign]} {number}" if sign else text


def state_text(trial: Trial, counted: str = "samples") -> str:
    """A trial's state with its reason: `outside weight bits ≤ 4.5`, `failed: …`. `counted`: samples or steps."""
    if trial.state == "complete" and not trial.feasible:
        return tr("outside {}", ", ".join((limit_text(k) for k, v in trial.violation.items() if v > 0)))
    words, reason = tr(LOST if trial.lost else STATES[trial.state]), trial.error
    for limit in trial.violation:
        reason = reason.replace(limit, limit_text(limit))
    if trial.unmeasured:
        return message(reason) or tr(UNMEASURED)
    if reason and trial.state in ("failed", "pruned"):
        return f"{words}: {message(reason)}"
    if trial.state == "pruned" and trial.steps:
        return tr("{} after {} {}", words, cell(trial.steps[-1][0]), counted)
    return tr("{}, equal to an earlier one", words) if trial.reused else words


def trial_text(
    trial: Trial, goals: Sequence[Goal], known: Mapping[str, float], counted: str = "samples", last: str = ""
) -> str:
    """A trial for a hover: number, origin, goals, how it stands."""
    origin = f" · {trial.origin}" if trial.origin else ""
    took = f" · {duration(trial.seconds)}" if trial.seconds is not None else ""
    names = list(dict.fromkeys([*(g.figure for g in goals), *known]))
    told = [f"{title(n)} {value_words(n, known[n])}" for n in names if n in known and known[n] == known[n]]
    lines = [
        tr("Trial {}{}{}", trial.number, origin, took),
        " · ".join(t for t in told if t),
        state_text(trial, counted),
    ]
    lines += [noise_text(trial.main)] if trial.main else []
    lines += [training_text(trial.figures), tr("Note: {}", trial.note) if trial.note else ""]
    return "\n".join(line for line in [*lines, last] if line)
