"""Measured metrics with confidence intervals, and tests of differences between two.

In closed form, so that the window's process needs no scipy; tests compare with scipy.stats and published values.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

LEVEL = 0.95
MAX_DISTANCE = 1.5  # of a line at the majority-class accuracy from a chart's values, relative to their span
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)

OPENED = "opened"
_HITS = re.compile(r"[0-9a-f]+")
BASELINES: dict[str, str] = {
    OPENED: "the opened model, before the first step of the recipe",
    "project at start": "the project as it was when this run, sweep or search began",
    "present weights in float": "the present weights without formats, with their masks",
}
START, EXPANSION = tuple(BASELINES)[1:]
Test = Literal["McNemar", "Newcombe", "paired t", "unpaired intervals"]
Interval = tuple[float, float]


def wilson(share: float, n: int) -> Interval:
    """The 95 % score interval of a share of `n` samples, ends in 0…1 (Wilson 1927, without continuity correction)."""
    if n <= 0:
        return 0.0, 1.0
    weight = Z * Z / n
    middle = (share + weight / 2) / (1 + weight)
    reach = Z / (1 + weight) * math.sqrt(share * (1 - share) / n + weight / (4 * n))
    low = 0.0 if share <= 0 else max(middle - reach, 0.0)
    return low, 1.0 if share >= 1 else min(middle + reach, 1.0)


def is_near(level: float, low: float, high: float) -> bool:
    """Whether a chart of values from `low` to `high` can show a line at `level` without flattening them."""
    return level >= low - MAX_DISTANCE * (high - low)


def newcombe(share: float, n: int, other: float, m: int) -> Interval:
    """The 95 % interval of `share` − `other` on independent samples: hybrid of score intervals (Newcombe 1998, 10)."""
    (low, high), (least, most) = wilson(share, n), wilson(other, m)
    difference = share - other
    return (
        difference - math.hypot(share - low, most - other),
        difference + math.hypot(high - share, other - least),
    )


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of `gained` against `lost` samples, of paired predictions (McNemar 1947).

    Twice the binomial tail of the rarer at ½, at most 1.
    """
    count = gained + lost
    logs = (math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) - count * math.log(2)
            for k in range(min(gained, lost) + 1))  # fmt: skip
    return min(1.0, 2 * math.fsum(map(math.exp, logs)))


def paired_t(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """The two-sided p-value of Student's t-test (1908) that paired values have equal means; 1 below 2 pairs."""
    n = len(mine)
    if n < 2:
        return 1.0
    differences = [a - b for a, b in zip(mine, theirs, strict=True)]
    mean = math.fsum(differences) / n
    variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1)
    if not variance:
        return 1.0 if not mean else 0.0
    return student(abs(mean) / math.sqrt(variance / n), n - 1)


def student(t: float, freedom: int) -> float:
    """The two-sided tail of Student's t beyond `t`: the incomplete beta function I(ν/(ν+t²); ν/2, ½).

    By its continued fraction (Abramowitz and Stegun 26.5.8, evaluated as in Lentz, 1976).
    """
    x = freedom / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(b, a, 1 - x)
    return _beta_share(a, b, x)


def _beta_share(a: float, b: float, x: float) -> float:
    if x <= 0:
        return 0.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny, result, c, d = 1e-300, 1.0, 1.0, 0.0
    for i in range(400):
        m = i // 2
        if not i:
            term = 1.0
        elif i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / (1 + term * d or tiny), 1 + term / c or tiny
        result *= c * d
        if i and abs(c * d - 1) < 1e-14:
            break
    return min(1.0, max(0.0, front * (result - 1)))


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of a metric from that of `baseline`, and whether it is within noise.

    `noise`: of shares, p ≥ 0.05 of an exact McNemar test for paired predictions (`p`), otherwise whether Newcombe's
    interval of the difference contains 0; of means, p ≥ 0.05 of a paired t-test, otherwise whether the interval that
    follows from both intervals contains 0. `share`: whether it is a difference of shares, shown in points.
    """

    value: float
    baseline: str
    test: Test
    noise: bool
    p: float | None = None
    share: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with `p` if there is one."""
        data: dict[str, Any] = {"baseline": self.baseline, "value": self.value, "test": self.test}
        data |= ({} if self.p is None else {"p": self.p}) | {"within_noise": self.noise}
        return data if self.share else {**data, "share": False}


def change_of(data: Mapping[str, Any]) -> Change:
    """The inverse of `Change.to_json`."""
    share = bool(data.get("share", True))
    return Change(data["value"], data["baseline"], data["test"], data["within_noise"], data.get("p"), share)


@dataclass(frozen=True, slots=True)
class Figure:
    """The main metric of a score: a share of `n` samples, such as an accuracy, or a mean with an interval of its own.

    `hits`: a bit for each sample, 1 if correct, the first sample highest, in hexadecimal; empty if unknown.
    `guessing`: the metric of the best constant prediction on the same samples, such as majority-class accuracy.
    `name`: of the metric. `ends`: of the interval of a mean; None for a share. `errors`: of each sample of a mean,
    float32 in base 64. `low`: whether low is better.
    """

    value: float
    n: int
    hits: str = ""
    guessing: float | None = None
    name: str = "accuracy"
    ends: Interval | None = None
    errors: str = ""
    low: bool = False

    @property
    def interval(self) -> Interval:
        """The 95 % interval: Wilson's of a share."""
        return wilson(self.value, self.n) if self.ends is None else self.ends

    @property
    def share(self) -> bool:
        """Whether it is a share of the samples."""
        return self.ends is None

    @property
    def guesses(self) -> bool:
        """Whether it is not better than guessing: the interval contains that level, or is worse."""
        if self.guessing is None:
            return False
        return self.interval[1] >= self.guessing if self.low else self.interval[0] <= self.guessing

    def against(self, before: Figure, baseline: str = OPENED) -> Change:
        """The change from another figure of the same metric, paired if both are of the same samples."""
        value = self.value - before.value
        if not self.share or not before.share:
            return self._mean_against(before, baseline)
        if self.hits and before.hits and self.n == before.n:
            mine, theirs = int(self.hits, 16), int(before.hits, 16)
            p = mcnemar((mine & ~theirs).bit_count(), (theirs & ~mine).bit_count())
            return Change(value, baseline, "McNemar", p >= 1 - LEVEL, p)
        low, high = newcombe(self.value, self.n, before.value, before.n)
        return Change(value, baseline, "Newcombe", low <= 0 <= high)

    def to_json(self) -> dict[str, Any]:
        """The interval data of a summary, without the value; `main_figure` reads them."""
        data: dict[str, Any] = {"n": self.n, "hits": self.hits, "guessing": self.guessing}
        if self.name != "accuracy":
            data["metric"] = self.name
        if self.ends is not None:
            better = "low" if self.low else "high"
            data |= {"better": better, "interval": list(self.ends), "errors": self.errors}
        return data

    def _mean_against(self, before: Figure, baseline: str) -> Change:
        value, mine, theirs = self.value - before.value, unpacked(self.errors), unpacked(before.errors)
        if mine and len(mine) == len(theirs):
            p = paired_t(mine, theirs)
            return Change(value, baseline, "paired t", p >= 1 - LEVEL, p, False)
        (low, high), (least, most) = self.interval, before.interval
        below, above = (
            math.hypot(self.value - low, most - before.value),
            math.hypot(high - self.value, before.value - least),
        )
        return Change(value, baseline, "unpaired intervals", value - below <= 0 <= value + above, None, False)


def unpacked(text: str) -> tuple[float, ...]:
    """The values of `Figure.errors`; empty if it is damaged."""
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f"<{len(data) // 4}f", data)
    except (binascii.Error, ValueError, struct.error):
        return ()


def hits_of(correct: Iterable[bool]) -> str:
    """`Figure.hits` of booleans."""
    bits = "".join("1" if c else "0" for c in correct)
    return f"{int(bits, 2):0{(len(bits) + 3) // 4}x}" if bits else ""


def main_figure(summary: Mapping[str, Any]) -> Figure | None:
    """The main metric of an evaluation's summary (`metric`, an accuracy if it is not named); None without a value or a
    number of samples.
    """
    name = str(summary.get("metric", "accuracy"))
    value, n = summary.get(name), summary.get("n")
    if not isinstance(value, int | float) or not math.isfinite(value) or not isinstance(n, int) or n <= 0:
        return None
    guessing, hits, errors = summary.get("guessing"), summary.get("hits"), summary.get("errors")
    level = float(guessing) if isinstance(guessing, int | float) else None
    if name != "accuracy" and (better := summary.get("better")) in ("low", "high"):  # of means, not of shares
        ends, errors = _ends(summary.get("interval"), float(value)), errors if isinstance(errors, str) else ""
        return Figure(float(value), n, "", level, name, ends, errors, better == "low")
    if not 0 <= value <= 1:
        return None
    hits = hits if isinstance(hits, str) and _HITS.fullmatch(hits) else ""
    return Figure(float(value), n, hits, level, name)


def _ends(value: Any, otherwise: float) -> Interval:
    ends = tuple(value) if isinstance(value, list | tuple) else ()
    if len(ends) == 2 and all(isinstance(e, int | float) and math.isfinite(e) for e in ends):
        return float(ends[0]), float(ends[1])
    return otherwise, otherwise
