"""One table of all benchmarks: each figure's last record, its present value and its target (targets.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = Path(__file__).with_name("targets.toml")


@dataclass(frozen=True, slots=True)
class Target:
    """A figure of a benchmark and the most (or with `least` the least) that it may be."""

    benchmark: str
    what: str
    path: str
    unit: str
    target: float
    least: bool = False

    def value(self, data: Any) -> float | None:
        """The worst of the values at `path` in a benchmark's JSON; None where it has none."""
        values = [v for v in _at(data, self.path.split("/")) if isinstance(v, int | float)]
        return (min if self.least else max)(values) if values else None

    def met(self, value: float) -> bool:
        """Whether a value keeps the target."""
        return value >= self.target if self.least else value <= self.target


def figures() -> list[Target]:
    """All figures, in the order of the file."""
    return [Target(**row) for row in tomllib.loads(TARGETS.read_text())["figure"]]


def _at(data: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield data
    elif isinstance(data, dict):
        for key in data if path[0] == "*" else [path[0]] if path[0] in data else []:
            yield from _at(data[key], path[1:])


def table(before: Mapping[str, Any], now: Mapping[str, Any], changed_only: bool = False) -> str:
    """Markdown; `before`: the records by benchmark, `now`: what ran, a sentence where it did not end.

    A figure that ran is judged by its present value, another by its record.
    """
    lines = [
        "| benchmark | figure | last record | now | target | met |", "|---|---|---:|---:|---:|---|",
    ]  # fmt: skip
    for figure in figures():
        if changed_only and figure.benchmark not in now:
            continue
        lines.append(_row(figure, before.get(figure.benchmark), now.get(figure.benchmark)))
    if changed_only:
        return "\n".join(lines)
    ran = [d for d in now.values() if isinstance(d, dict)]
    where = f"Run on {ran[0]['date']}, {ran[0]['machine']}. " if ran else ""
    return (
        "# Benchmarks against their targets\n\n"
        f"Written by `make bench`. {where}Records name their date; their machines may differ: a ratio travels, seconds"
        " do not.\n\n" + "\n".join(lines) + "\n"
    )


def _row(figure: Target, record: Any, now: Any) -> str:
    last = figure.value(record)
    value = figure.value(now) if isinstance(now, dict) else None
    judged = value if value is not None else last
    verdict = "–" if judged is None else "yes" if figure.met(judged) else "**no**"
    sign = "≥" if figure.least else "≤"
    shown = now if isinstance(now, str) else _number(value, figure.unit)
    dated = f"{_number(last, figure.unit)} ({record['date']})" if last is not None else "–"
    cells = (figure.benchmark, figure.what, dated, shown, f"{sign} {_number(figure.target, figure.unit)}", verdict)
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.4g} {unit}".strip() if unit != "×" else f"{value:.3g}×"
