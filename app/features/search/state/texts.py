"""Texts on searches: the size of a space, the progress of a search, the gain of the best trial."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from espalier.app.figures.study.labels import SHARES, SIGNS, title, value_words
from espalier.app.number_text import (
    THIN,
    change_text,
    count,
    duration,
    guess_text,
    noise_text,
    plural,
    signed,
    training_text,
)
from espalier.app.translation import tr
from espalier.passes.costs.base import timed_beside
from espalier.passes.figure import main_figure
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

_SUPER = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
PAUSED = "paused"  # state of a running trial of a paused search


def change(figure: str, value: float, before: float) -> str:
    """The change from the baseline: points of accuracy, otherwise per cent; empty without a meaningful one."""
    if figure in SHARES:
        return tr("{} points", signed(100 * (value - before), 1))
    if not before or not math.isfinite(value):
        return ""
    return f"{signed(100 * (value - before) / abs(before), 0)}{THIN}%"


def power(value: float) -> str:
    """A number such as 7.8·10¹⁰; small numbers in full."""
    if value < 1e6:
        return count(int(value))
    exponent = math.floor(math.log10(value))
    return f"{value / 10**exponent:.1f}·10{str(exponent).translate(_SUPER)}"


def options_of(choice: Choice) -> float:
    """The number of values of a choice; infinite for a range."""
    if choice.values:
        return len(choice.values)
    if choice.whole and choice.low is not None and choice.high is not None:
        return int(choice.high) - int(choice.low) + 1
    return math.inf


def size_words(space: Space) -> str:
    """The size of a space, such as `6¹⁴ ≈ 7.8·10¹⁰ configurations`, with the number of ranges."""
    sizes = [options_of(c) for c in space.choices]
    if not sizes:
        return tr("nothing varies yet")
    free = sum(math.isinf(s) for s in sizes)
    counts = sorted(Counter(int(s) for s in sizes if not math.isinf(s)).items())
    powers = " · ".join(
        f"{s}{str(n).translate(_SUPER) if n > 1 else ''}" for s, n in counts if s > 1 or len(counts) == 1
    )
    log = sum(n * math.log10(s) for s, n in counts)
    exact = math.prod(s**n for s, n in counts) if log < 15 else 10**log if log < 300 else math.inf
    total = power(exact) if log < 300 else f"10{str(int(log)).translate(_SUPER)}"
    if powers == total or not powers:
        text = tr("{} configurations", total) if total != "1" else tr("1 configuration")
    else:
        text = tr("{} {} {} configurations", powers, "=" if log < 6 else "≈", total)
    return tr("{} and {} of a range", text, plural(free, "number")) if free else text


def entry_text(choices: Iterable[Choice]) -> str:
    """The expansion of an entry of a space, such as `14 layers · 6 formats`."""
    parts = list(choices)
    nodes = {n for c in parts for n in c.nodes}
    sizes = sorted({options_of(c) for c in parts})
    texts = [plural(len(nodes), "layer") if nodes else ""]
    if nodes and len(parts) not in (len(nodes), 0):
        texts.append(plural(len(parts), "choice"))
    ends = [s for s in (sizes[0], sizes[-1]) if not math.isinf(s)] if sizes else []
    if ends:
        low, high = int(ends[0]), int(ends[-1])
        texts.append(_options_text(low, high, parts[0].kind))
    elif sizes:
        texts.append(tr("a range"))
    return " · ".join(w for w in texts if w)


def _options_text(low: int, high: int, kind: str) -> str:
    match kind:
        case "format":
            return plural(high, "format") if low == high else tr("{} to {} formats", low, high)
        case "identity":
            return plural(high, "way") if low == high else tr("{} to {} ways", low, high)
        case _:
            return plural(high, "value") if low == high else tr("{} to {} values", low, high)


def pace_text(trials: Iterable[Trial]) -> str:
    """The pace of ended trials, such as `42 trials a minute`."""
    seconds = [t.seconds for t in trials if t.seconds and not t.reused]
    if not seconds:
        return ""
    rate = 60 * len(seconds) / sum(seconds)
    return tr("{:.0f} trials a minute", rate) if rate >= 10 else tr("{:.1f} trials a minute", rate)


def time_text(trials: int, each: float | None, *, trains: bool = False) -> str:
    """The expected duration, such as `50 trials · about 25 s`."""
    unknown = tr(" · the first trial shows how long training takes") if trains else ""
    return plural(trials, "trial") + (tr(" · about {}", duration(trials * each)) if each else unknown)


def best_text(
    spec: SearchSpec, trial: Trial, baseline: Mapping[str, float], front: int, against: Mapping[str, Any] | None = None
) -> str:
    """`Best: accuracy 91.2 % (−0.8 points, within noise), weight bits 4.1 (−87 %) · from opened · trial 37`."""
    values = {**trial.figures}
    if len(trial.values) == len(spec.goals):
        values |= {g.figure: v for g, v in zip(spec.goals, trial.values, strict=True)}
    names = dict.fromkeys([*(g.figure for g in spec.goals), *(limited(t) for t in spec.within)])
    notes = {trial.main.name: main_note(trial, baseline, against or {})} if trial.main else {}
    parts = [_told(n, values[n], baseline.get(n), notes.get(n, "")) for n in names if n in values]
    compared = any(n in baseline for n in names)
    where = [
        tr("from {}", against["name"]) if compared and against else "",
        tr("trial {}", trial.number),
        tr("{} on the front", front) if front > 1 else "",
        timed_beside(trial.figures),
        training_text(trial.figures),
    ]
    return " · ".join(w for w in (tr("Best: {}", ", ".join(parts)), *where) if w)


def main_note(trial: Trial, baseline: Mapping[str, float], against: Mapping[str, Any]) -> str:
    """`not above guessing (50 %)` or `within noise`, if it applies to a trial's main metric."""
    current, before = trial.main, main_figure({**baseline, **against})
    if current is None:
        return ""
    if current.guesses:
        return guess_text(current)
    return tr("within noise") if before and before.name == current.name and current.against(before).noise else ""


def main_text(trial: Trial, baseline: Mapping[str, float], against: Mapping[str, Any]) -> str:
    """Lines on a trial's main metric: samples and interval, change from the baseline, loss of its training."""
    current, before = trial.main, main_figure({**baseline, **against})
    if current is None:
        return ""
    same = before is not None and before.name == current.name
    change = change_text(current.against(before, str(against.get("name", "")))) if before and same else ""
    return "\n".join(w for w in (noise_text(current), change, training_text(trial.figures)) if w)


def _told(figure: str, value: float, before: float | None, note: str = "") -> str:
    gain = change(figure, value, before) if before is not None else ""
    notes = ", ".join(w for w in (gain, note) if w)
    return f"{title(figure)} {value_words(figure, value)}" + (f" ({notes})" if notes else "")


def limited(text: str) -> str:
    """The metric of a limit."""
    return next((text.partition(s)[0].strip() for s in SIGNS if s in text), text)
