"""The page of measured figures, from what `make bench KEEP=--keep` recorded in tests/benchmarks/results."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.record import RESULTS
from tests.benchmarks.table import figures
from tests.reference.markdown import page, table

GPU = "kernels-nvidia-h200"
MOST_ROWS, MOST_COLUMNS = 24, 8
SKIPPED = ("benchmark", "date", "machine", "note")
ABOUT = (
    "What the benchmarks recorded, each with its date and machine. A ratio travels between machines, seconds do not. "
    '`make bench` runs them (`NAMES="trace edit"`: some; `KEEP=--keep`: records the figures) and compares them with '
    "their targets in `tests/benchmarks/targets.toml`. The other pages of the guide say what the figures mean."
)


def records() -> dict[str, Any]:
    """Benchmark → its record."""
    return {f.stem: json.loads(f.read_text(encoding="utf-8")) for f in sorted(RESULTS.glob("*.json"))}


def measured() -> str:
    """The whole page."""
    held = records()
    parts = [f"## {name}\n\n{_where(data)}\n\n{body}" for name, data in held.items()
             if name != GPU and (body := _tables(data))]  # fmt: skip
    gpu = held.get(GPU)
    return page("Measured figures", ABOUT, "## Against their targets", _targets(held),
                *([f"## kernels on a GPU\n\n{_gpu(gpu)}"] if gpu else []), *parts)  # fmt: skip


def _where(data: Any) -> str:
    note = f" {str(data['note']).strip().capitalize().rstrip('.')}." if data.get("note") else ""
    return f"Recorded {data.get('date', '–')}, {data.get('machine', '–')}.{note}"


def _targets(held: dict[str, Any]) -> str:
    rows: list[tuple[str, ...]] = []
    for figure in figures():
        data = held.get(figure.benchmark)
        value = figure.value(data)
        if value is None:
            continue
        met, limit = "yes" if figure.met(value) else "**no**", _amount(figure.target, figure.unit)
        now = _amount(value, figure.unit)
        rows.append((figure.benchmark, figure.what, now, f"{'≥' if figure.least else '≤'} {limit}", met, data["date"]))
    return table(("benchmark", "figure", "value", "target", "met", "date"), rows)


def _amount(value: float, unit: str) -> str:
    return f"{value:.3g}×" if unit == "×" else f"{value:.4g} {unit}".strip()


def _leaves(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, figures) of each part of a record that holds plain figures."""
    if not isinstance(data, dict):
        return
    plain = {k: v for k, v in data.items() if isinstance(v, int | float | str) and not (not path and k in SKIPPED)}
    if plain:
        yield " · ".join(path) or "all", plain
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, str(key)))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                yield from _leaves(item, (*path, str(key), _name(item, i)))


def _name(item: Any, number: int) -> str:
    named = item.get("name") or item.get("what") if isinstance(item, dict) else None
    return str(named or number + 1)


def _tables(data: Any) -> str:
    """The parts of a record, those with the same figures in one table."""
    groups: dict[tuple[str, ...], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for path, plain in _leaves(data):
        groups[tuple(plain)].append((path, plain))
    several = [(keys, rows) for keys, rows in groups.items() if len(rows) > 1 and len(keys) <= MOST_COLUMNS]
    single = [(f"{path} · {key}" if path != "all" else key, _value(value))
              for keys, rows in groups.items() if (keys, rows) not in several
              for path, plain in rows for key, value in plain.items()]  # fmt: skip
    parts = [_limited(("what", *keys), [(p, *(_value(plain[k]) for k in keys)) for p, plain in rows])
             for keys, rows in several]  # fmt: skip
    return "\n\n".join([*([_limited(("what", "figure"), single)] if single else []), *parts])


def _limited(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    more = len(rows) - MOST_ROWS
    return table(head, rows[:MOST_ROWS]) + (f"\n\n{more} further rows are in the record." if more > 0 else "")


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _gpu(data: Any) -> str:
    """Each kernel's Triton version beside torch: times as fast, and its share of what the card's copy allows."""
    machine, ceilings = data["machine"], data["ceilings"]
    copy = ceilings["copy_gb_s"]
    groups: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for row in data["rows"]:
        if row.get("ratio") is not None and row["version"] not in ("torch", "naive") and row.get("seconds"):
            groups[row["kernel"], row["version"], row["dtype"]].append(row)
    rows: list[tuple[str, ...]] = []
    for (kernel, version, dtype), found in sorted(groups.items()):
        ratios = [r["ratio"] for r in found]
        rates = [r["bytes"] / r["seconds"] / 1e9 for r in found]
        span = f"{min(ratios):.2g}–{max(ratios):.2g}×" if len(found) > 1 else f"{ratios[0]:.3g}×"
        rows.append(
            (kernel, version, dtype, str(len(found)), span, f"{max(rates):.0f}", f"{100 * max(rates) / copy:.0f} %")
        )
    head = ("kernel", "version", "type", "sizes", "times as fast as torch", "GB/s at most", "of a copy")
    return (f"{machine['name']}, torch {machine['torch']}, Triton {machine['triton']}, {data['date']}. A copy moves "
            f"{copy:.0f} GB/s, a bfloat16 product reaches {ceilings['matmul_tflop_s']['bfloat16']:.0f} TFLOP/s. "
            "To measure again: `python -m tests.benchmarks.kernels_gpu -o FILE.json`, until it says that all sizes are "
            "there.\n\n" + table(head, rows))  # fmt: skip
