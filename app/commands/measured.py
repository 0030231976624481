"""Text of timing reports on a terminal: suitable units per column, no empty columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from espalier.app.commands.console import cell
from espalier.app.number_text import percent, time_text
from espalier.passes.base import Report

# Columns in seconds and columns of shares, by report; files keep seconds and fractions.
SECONDS: dict[str, frozenset[str]] = {
    "profile": frozenset({"seconds", "plain", "begins", "rounding", "device_seconds"}),
    "compile": frozenset({"seconds", "first", "least", "compile_seconds"}),
    "layer_latency": frozenset({"seconds"}),
}
SHARES: dict[str, frozenset[str]] = {
    "profile": frozenset({"share", "others"}),
    "compile": frozenset({"spread", "products_share", "others"}),
    "memory": frozenset({"saving"}),
}
TITLES = {
    "device_seconds": "GPU",
    "others": "taken by other programs",
    "seconds": "time",
    "gflop_s": "GFLOP/s",
    "plain": "without the profiler",
}
SUMMARY = {"profile": {"seconds": "under the profiler"}}
NONE: frozenset[str] = frozenset()
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def summary_text(report: Report) -> dict[str, str]:
    """The summary as title → formatted value."""
    return {_name(report, key): _fact(report, key, value) for key, value in report.summary.items()}


def row_cells(report: Report) -> list[dict[str, Any]]:
    """Table rows; timing reports omit empty columns such as those of a GPU."""
    rows = [dict(row) for row in report.rows]
    seconds, shares = SECONDS.get(report.pass_name, NONE), SHARES.get(report.pass_name, NONE)
    for key in list(dict.fromkeys(k for row in rows for k in row)):
        if key in ("device_seconds", "rounding") and not any(row.get(key) for row in rows):
            rows = [{k: v for k, v in row.items() if k != key} for row in rows]
        elif key in seconds:
            size, unit = _unit(row.get(key) for row in rows)
            rows = _converted(rows, key, f"{TITLES.get(key, key.replace('_', ' '))} ({unit})", 1 / size)
        elif key in shares:
            rows = _converted(rows, key, f"{key} (%)", 100.0)
        elif key in TITLES and seconds:
            rows = _converted(rows, key, TITLES[key], 1.0)
    return rows


def _name(report: Report, key: str) -> str:
    own = SUMMARY.get(report.pass_name, {}).get(key)
    return own or (TITLES.get(key) if report.pass_name in SECONDS else None) or key.replace("_", " ")


def _fact(report: Report, key: str, value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value) and key in SECONDS.get(report.pass_name, NONE):
        return time_text(value)
    if isinstance(value, float) and key in SHARES.get(report.pass_name, NONE):
        return percent(value)
    return cell(value)


def _unit(values: Iterable[float | None]) -> tuple[float, str]:
    """The largest unit in which the column's maximum is at least 1."""
    largest = max((v for v in values if v is not None), default=0.0)
    return next(((size, unit) for size, unit in UNITS if largest >= size), UNITS[-1])


def _converted(rows: list[dict[str, Any]], key: str, title: str, factor: float) -> list[dict[str, Any]]:
    """The rows with a column renamed and scaled, rounded to three digits."""

    def converted(value: Any) -> Any:
        return float(f"{value * factor:.3g}") if isinstance(value, int | float) else value

    return [{(title if k == key else k): (converted(v) if k == key else v) for k, v in row.items()} for row in rows]
