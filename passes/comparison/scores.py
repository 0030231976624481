"""Compares the scores of two states, figure by figure: which is better, and what is noise."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from espalier.passes.figure import Figure, Interval, Z
from espalier.passes.score import Score
from espalier.passes.tasks.base import all_metrics

Verdict = Literal["better", "worse", "within noise", "same", "not tested", "other data", ""]


@dataclass(frozen=True, slots=True)
class Measured:
    """The score of one state. `main`: the task's main metric with its samples, if they are known; `kl`: divergence from
    the model as opened, nats a sample; `latency`: seconds a batch. `data`: what identifies the data and the split, None
    if unknown. `metrics`: further metrics by name.
    """

    score: Score
    main: Figure | None = None
    kl: float | None = None
    latency: float | None = None
    data: Hashable = None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One figure of both. `change`: B − A, None where one is not measured.

    `interval_a`, `interval_b`: 95 %, of the task's main metric; `reach`: half the 95 % interval of its change, None
    after a paired test of means. `test`, `p`: of `Figure.against`; `p` for results on the same samples. `verdict`: of
    B; empty for figures without a better side.
    """

    name: str
    a: float | None
    b: float | None
    verdict: Verdict
    interval_a: Interval | None = None
    interval_b: Interval | None = None
    reach: float | None = None
    test: str = ""
    p: float | None = None
    n: int = 0

    @property
    def change(self) -> float | None:
        """B − A."""
        return None if self.a is None or self.b is None else self.b - self.a

    def to_json(self) -> dict[str, Any]:
        """{name, a, b, change, verdict}, and of the main metric n, intervals, reach, test and p."""
        data: dict[str, Any] = {"name": self.name, "a": self.a, "b": self.b, "change": self.change,
                                "verdict": self.verdict}  # fmt: skip
        if self.test:
            data |= {"n": self.n, "interval_a": self.interval_a, "interval_b": self.interval_b,
                     "reach": self.reach, "test": self.test, "baseline": "A"}  # fmt: skip
        return data | ({"p": self.p} if self.p is not None else {})


# Figure → +1 where more is better, −1 where less is, 0 where neither is.
BETTER: dict[str, int] = {
    "accuracy": 1, "loss": -1, "kl": -1, "size_bytes": -1, "weight_bits": -1, "activation_bits": -1, "sparsity": 0,
    "activation_sparsity": 0, "bitops": -1, "memory_density": 1, "latency": -1,
}  # fmt: skip
ON_DATA = ("accuracy", "loss", "kl")
SAMPLED = ("loss", "kl", "latency")  # measured means, without the values by sample that a test would need


def compare_scores(a: Measured, b: Measured) -> tuple[ScoreRow, ...]:
    """A row for each figure of BETTER and each metric of the task; figures that neither has are left out.

    The main metric is tested: shares by McNemar's exact test where both are of the same samples, else by Newcombe's
    interval; means by a paired t-test, else by both intervals. Costs that follow from the graph have no noise. Other
    measured means are "not tested", and nothing is that was measured on "other data".
    """
    rows: list[ScoreRow] = []
    signs = {name: 1 if m.better == "high" else -1 for name, m in all_metrics().items()}
    signs = {n: s for n, s in signs.items() if n not in BETTER and (n in a.metrics or n in b.metrics)}
    apart = None not in (a.data, b.data) and a.data != b.data
    for name, sign in _ordered(signs).items():
        x, y = _value(a, name), _value(b, name)
        if x is None and y is None:
            continue
        if apart and (name in ON_DATA or name in signs) and x is not None and y is not None:
            rows.append(ScoreRow(name, x, y, "other data"))
        elif a.main and b.main and name == a.main.name == b.main.name:
            rows.append(_main(a.main, b.main))
        else:
            rows.append(ScoreRow(name, x, y, _verdict(name, sign, x, y, sampled=name in signs)))
    return tuple(rows)


def _ordered(signs: dict[str, int]) -> dict[str, int]:
    """The signs of all figures: accuracy, other metrics of the task, then the rest."""
    return {"accuracy": BETTER["accuracy"], **signs, **BETTER}


def _value(side: Measured, name: str) -> float | None:
    if name in ("kl", "latency"):
        return getattr(side, name)
    return getattr(side.score, name) if name in BETTER else side.metrics.get(name)


def _verdict(name: str, sign: int, x: float | None, y: float | None, *, sampled: bool = False) -> Verdict:
    if x is None or y is None:
        return ""
    if x == y:
        return "same"
    if sampled or name in ("accuracy", *SAMPLED):
        return "not tested"
    return "" if not sign else "better" if (y - x) * sign > 0 else "worse"


def _main(a: Figure, b: Figure) -> ScoreRow:
    change = b.against(a, "A")
    verdict: Verdict = "same" if not change.value and change.noise else "within noise"
    if not change.noise:
        verdict = "better" if (change.value > 0) != b.low else "worse"
    reach = paired_reach(a, b)
    if reach is None and (a.share or change.p is None):  # a paired test of means is narrower than both intervals tell
        low, high = (e - v.value for v in (b,) for e in v.interval)
        first = [e - a.value for e in a.interval]
        reach = max(math.hypot(low, first[1]), math.hypot(high, first[0]))  # the wider side of Newcombe's interval
    return ScoreRow(a.name, a.value, b.value, verdict, a.interval, b.interval, reach, change.test, change.p, b.n)


def paired_reach(a: Figure, b: Figure) -> float | None:
    """Half the 95 % interval of the difference of two shares of the same samples; None for others.

    Source: Agresti, Categorical Data Analysis, 2013, section 11.1.1: se = √(n₁₂ + n₂₁ − (n₁₂ − n₂₁)²/n) / n.
    """
    if not (a.hits and b.hits) or a.n != b.n:
        return None
    mine, theirs, n = int(b.hits, 16), int(a.hits, 16), a.n
    gained, lost = (mine & ~theirs).bit_count(), (theirs & ~mine).bit_count()
    return Z * math.sqrt(max(gained + lost - (gained - lost) ** 2 / n, 0.0)) / n
