"""Measured shares with confidence intervals, and tests of differences between two.

In closed form, so that the window's process needs no scipy; tests compare with scipy.stats and published values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
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
Test = Literal["McNemar", "Newcombe"]
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


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of a share from that of `baseline`, and whether it is within noise.

    `noise`: p ≥ 0.05 of an exact McNemar test for paired predictions (`p`), otherwise whether Newcombe's interval of
    the difference contains 0.
    """

    value: float
    baseline: str
    test: Test
    noise: bool
    p: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with `p` if there is one."""
        data: dict[str, Any] = {"baseline": self.baseline, "value": self.value, "test": self.test}
        return data | ({} if self.p is None else {"p": self.p}) | {"within_noise": self.noise}


def change_of(data: Mapping[str, Any]) -> Change:
    """The inverse of `Change.to_json`."""
    return Change(data["value"], data["baseline"], data["test"], data["within_noise"], data.get("p"))


@dataclass(frozen=True, slots=True)
class Figure:
    """A share of `n` samples, such as an accuracy.

    `hits`: a bit for each sample, 1 if correct, the first sample highest, in hexadecimal; empty if unknown.
    `guessing`: majority-class accuracy on the same samples.
    """

    value: float
    n: int
    hits: str = ""
    guessing: float | None = None

    @property
    def interval(self) -> Interval:
        """The 95 % Wilson interval."""
        return wilson(self.value, self.n)

    @property
    def guesses(self) -> bool:
        """Whether it is not above majority-class accuracy: the interval contains it, or is below."""
        return self.guessing is not None and self.interval[0] <= self.guessing

    def against(self, before: Figure, baseline: str = OPENED) -> Change:
        """The change from another figure, paired if both are of the same samples."""
        value = self.value - before.value
        if self.hits and before.hits and self.n == before.n:
            mine, theirs = int(self.hits, 16), int(before.hits, 16)
            p = mcnemar((mine & ~theirs).bit_count(), (theirs & ~mine).bit_count())
            return Change(value, baseline, "McNemar", p >= 1 - LEVEL, p)
        low, high = newcombe(self.value, self.n, before.value, before.n)
        return Change(value, baseline, "Newcombe", low <= 0 <= high)


def hits_of(correct: Iterable[bool]) -> str:
    """`Figure.hits` of booleans."""
    bits = "".join("1" if c else "0" for c in correct)
    return f"{int(bits, 2):0{(len(bits) + 3) // 4}x}" if bits else ""


def accuracy_of(summary: Mapping[str, Any]) -> Figure | None:
    """The accuracy of an evaluation's summary; None without an accuracy or a number of samples."""
    value, n = summary.get("accuracy"), summary.get("n")
    if not isinstance(value, int | float) or not 0 <= value <= 1 or not isinstance(n, int) or n <= 0:
        return None
    guessing, hits = summary.get("guessing"), summary.get("hits")
    hits = hits if isinstance(hits, str) and _HITS.fullmatch(hits) else ""
    return Figure(float(value), n, hits, float(guessing) if isinstance(guessing, int | float) else None)
