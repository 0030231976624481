"""Constraints as people write them (`weight_bits<=4.5`, `size_bytes <= 1.5MiB`, `sparsity>=50%`), and whether held."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from espalier.model.errors import OptionsError, unknown
from espalier.passes.costs.base import COSTS
from espalier.passes.tasks.base import all_metrics

UNITS = {"": 1.0, "%": 0.01, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
         "kb": 1e3, "mb": 1e6, "gb": 1e9, "b": 1.0, "bytes": 1.0, "bits": 1.0, "s": 1.0, "ms": 1e-3}  # fmt: skip
_TEXT = re.compile(r"([A-Za-z_]\w*)\s*(<=|>=|≤|≥|<|>|=+)\s*([-+−]?[\d._]+(?:[eE][-+]?\d+)?)\s*([A-Za-z%]*)")
FORM = "Write it as weight_bits<=4.5, size_bytes<=1.5MiB or accuracy>=0.9."


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure that is to be at most or at least so much."""

    figure: str
    side: Literal["<=", ">="]
    value: float

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.figure}{self.side}{self.value:.10g}"

    def violation(self, value: float) -> float:
        """By which share of the limit it is missed; 0 or less: held. What is no number misses everything."""
        if not math.isfinite(value):
            return math.inf
        over = value - self.value if self.side == "<=" else self.value - value
        return over / (abs(self.value) or 1.0)


def measured_figures() -> dict[str, str]:
    """Metrics of any task, which only a run tells → whether low or high is better."""
    return {name: metric.better for name, metric in all_metrics().items()}


def known_figures() -> dict[str, str]:
    """Every figure that can be limited → whether low or high is better."""
    return {name: c.better for name, c in COSTS.items()} | measured_figures()


def parse_limit(text: str, figures: Iterable[str] | None = None) -> Limit:
    """`weight_bits<=4.5` → Limit; raises OptionsError. `figures`: those that are allowed, else all that are known."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise OptionsError(f"{text!r} is not a constraint.", FORM)
    name, sign, number, unit = match.groups()
    known = known_figures() if figures is None else dict.fromkeys(figures, "")
    if name not in known:
        raise OptionsError(f"There is no figure {name!r} to limit.", unknown(name, known))
    if sign.strip("=") == "" or unit.lower() not in UNITS:
        what = f"{unit!r} is no unit" if sign.strip("=") else "= cannot be aimed at exactly"
        raise OptionsError(f"{text!r} is not a constraint: {what}.", FORM)
    try:
        value = float(number.replace("_", "").replace("−", "-")) * UNITS[unit.lower()]
    except ValueError as error:
        raise OptionsError(f"{text!r} is not a constraint: {number!r} is no number.", FORM) from error
    return Limit(name, "<=" if sign[0] in "<≤" else ">=", value)


def parse_budget(text: str) -> Limit:
    """A limit of a cost that can be shared out among layers, or held by each, on its good side; raises OptionsError."""
    names = [name for name, c in COSTS.items() if c.shares is not None or c.settle is not None]
    limit = parse_limit(text)
    if limit.figure not in names:
        hint = f"An allocation takes {', '.join(names)}; a search can take it as a constraint."
        raise OptionsError(f"{limit.figure} is not a sum over layers, so it cannot be a budget.", hint)
    good = "<=" if COSTS.get(limit.figure).better == "low" else ">="
    if limit.side != good:
        word = "low" if good == "<=" else "high"
        raise OptionsError(f"{text!r} limits a cost on its good side: {limit.figure} is better {word}.",
                           f"Write {limit.figure}{good}{limit.value:g}.")  # fmt: skip
    return limit


def violations(limits: Iterable[Limit], figures: Mapping[str, float]) -> dict[str, float]:
    """Constraint → by how much it is missed, of the figures of a configuration."""
    return {limit.text: limit.violation(figures.get(limit.figure, math.nan)) for limit in limits}
