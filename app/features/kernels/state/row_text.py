"""Text of kernel rows for tables, charts and comparisons."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from espalier.app.number_text import THIN, count, figure, mebibytes, percent, plural, time_text
from espalier.app.translation import tr
from espalier.kernels.bench import other_load
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Results, Row, compared, disturbance
from espalier.kernels.bench.spec import KernelInfo, shape_text

TIME, BYTES = "time (ms)", "bytes that must move"
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def type_word(dtype: str) -> str:
    """Short name of a dtype: fp32, bf16, fp16."""
    return TYPES.get(dtype, dtype)


def amount(value: float) -> str:
    """Format with three significant digits, or all integer digits: 0.252, 12.5, 4 231."""
    return count(round(value)) if value >= 1000 else figure(value)


def rate_of(device: str) -> tuple[str, float]:
    """Unit of a device's FLOP rate, and its factor to TFLOP/s."""
    return ("GFLOP/s", 1e3) if device == "cpu" else ("TFLOP/s", 1.0)


def size_text(shape: Mapping[str, int]) -> str:
    """Text of a shape as the command line accepts it: `m=256,n=8192`, or `4096x1024` for rows and columns.

    Dimensions of 0 (switches that are off) are omitted.
    """
    if tuple(shape) == ("rows", "columns"):
        return "x".join(map(str, shape.values()))
    return shape_text({k: v for k, v in shape.items() if v})


def cells(row: Row) -> dict[str, Any]:
    """A table row with rounded numbers, so that columns sort."""

    def _round(value: float | None, digits: int = 4) -> float | None:
        return value if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")

    unit, factor = rate_of(row.device)
    time, spread, roof, rate = (v and v * f for v, f in ((row.seconds, 1e3), (row.spread, 100), (row.of_roof, 100),
                                                        (row.tflop_s, factor)))  # fmt: skip
    return {
        "kernel": row.kernel, "version": row.version, "shape": size_text(row.shape), "type": type_word(row.dtype),
        TIME: _round(time), "± %": _round(spread, 2), "GB/s": _round(row.gb_s), unit: _round(rate, 3),
        "ratio (×)": _round(row.ratio), "roof (%)": _round(roof, 3), "error": _round(row.error, 3),
        "": row.remark,
    }  # fmt: skip


def row_tooltip(row: Row) -> str:
    """Tooltip of a chart point."""
    lines = [f"{row.kernel} · {row.version} · {type_word(row.dtype)}", size_text(row.shape)]
    if row.seconds:
        lines.append(f"{time_text(row.seconds)} ±{THIN}{percent(row.spread or 0, 0)}"
                     + (tr(", warm {}", time_text(row.warm)) if row.warm else ""))  # fmt: skip
        unit, factor = rate_of(row.device)
        lines.append(
            tr(
                "{} GB/s · {} {} · {} FLOP/byte",
                amount(row.gb_s or 0),
                amount((row.tflop_s or 0) * factor),
                unit,
                amount(row.intensity),
            )
        )
    ratios = [
        tr("{} × as fast as {}", figure(row.ratio), row.baseline) if row.ratio and row.version != row.baseline else "",
        tr("{} of the roof", percent(row.of_roof, 0)) if row.of_roof else "",
    ]
    rest = (" · ".join(t for t in ratios if t), row.remark, busy_text([row]))
    return "\n".join(line for line in (*lines, *rest) if line)


# -- metrics of curves


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of an axis: title, and value of a row or None."""

    title: str
    of: Callable[[Row], float | None]


FIGURES = {
    "time": Figure(tr("time (ms)"), lambda r: r.seconds and r.seconds * 1e3),
    "gb_s": Figure("GB/s", lambda r: r.gb_s),
    "ratio": Figure(tr("speed relative to the baseline"), lambda r: r.ratio),
}


def figure_of(name: str, rows: Sequence[Row]) -> Figure:
    """The metric of a name, in the unit of the rows' device."""
    if name != "tflop_s":
        return FIGURES[name]
    unit, factor = rate_of(rows[0].device if rows else "")
    return Figure(unit, lambda r: r.tflop_s and r.tflop_s * factor)


def size_axis(rows: Sequence[Row]) -> Figure:
    """Metric that distinguishes the sizes: the dimension that varies, else the bytes that must move."""
    sizes = {tuple(r.shape.items()): r for r in rows}
    varying = [d for d in (rows[0].shape if rows else ()) if len({r.shape.get(d) for r in rows}) > 1]
    distinct = [d for d in varying if len({r.shape.get(d) for r in rows}) == len(sizes)]
    alone = len(varying) == 1 or len({r.bytes_least for r in sizes.values()}) < len(sizes)
    if alone and distinct:
        return Figure(distinct[-1], lambda r: r.shape[distinct[-1]])
    return Figure(BYTES, lambda r: r.bytes_least or None)


# -- cost model


def cost_model_text(info: KernelInfo, version: str, rows: Sequence[Row]) -> list[str]:
    """FLOPs and bytes of a kernel version, as formulas and at the size measured last."""
    spec = next((v for v in info.versions if v.name == version), None)
    lines = [tr("FLOPs {} · bytes at least {} (e: bytes of an element)", info.flops, info.bytes)]
    if spec and spec.bytes != info.bytes:
        lines.append(tr("{} moves {}", version, spec.bytes))
    last = next((r for r in reversed(rows) if r.kernel == info.name and r.version == version), None)
    if last:
        lines.append(
            tr(
                "at {}, {}: {}FLOP, {} moved, {} at least, {} FLOP/byte",
                size_text(last.shape),
                type_word(last.dtype),
                si_count(last.flops),
                mebibytes(last.bytes),
                mebibytes(last.bytes_least),
                amount(last.intensity),
            )
        )
    return lines


def si_count(value: float) -> str:
    """Format a count with an SI prefix: `8.39 M`."""
    size, unit = next(((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s), (1.0, ""))
    return f"{figure(value / size)}{THIN}{unit}"


def limits_text(limits: Ceilings | None) -> str:
    """Text of the measured ceilings."""
    if limits is None:
        return tr("not measured")
    unit, factor = rate_of(limits.device)
    rates = "".join(
        tr(" · {} product {} {}", type_word(d), amount(r * factor), unit) for d, r in limits.matmul_tflop_s.items()
    )
    return tr("copy {} GB/s{}", amount(limits.copy_gb_s), rates)


def busy_text(rows: Sequence[Row]) -> str:
    """Note that other programs disturbed the timing of rows; empty if none did."""
    return other_load.busy_note(disturbance(rows))


# -- comparison of two runs


def comparison_rows(a: Results, b: Results) -> list[dict[str, Any]]:
    """Rows in both runs: times of each, and speed of B relative to A."""
    rows = []
    for row in compared([a, b]):
        (first, second), speed = [v for k, v in row.items() if k.startswith("seconds ")], list(row.values())[-1]
        rows.append({
            "kernel": row["name"], "version": row["version"], "shape": row["shape"], "type": type_word(row["dtype"]),
            "A (ms)": float(f"{first * 1e3:.4g}"), "B (ms)": float(f"{second * 1e3:.4g}"),
            "B vs A (×)": float(f"{speed:.4g}"),
        })  # fmt: skip
    return rows


def comparison_text(rows: Sequence[dict[str, Any]], hint: str = "") -> str:
    """Summary: `B is 1.8 × as fast as A in the geometric mean of 24 rows (0.9 to 3.1 ×)`; `hint`: for no rows."""
    if not rows:
        return tr("The runs share no rows: no common kernel, version, type and shape. {}", hint).strip()
    speeds = [r["B vs A (×)"] for r in rows]
    mean = statistics.geometric_mean(speeds)
    ends = tr(" ({} to {} ×)", figure(min(speeds)), figure(max(speeds))) if len(speeds) > 1 else ""
    scope = tr(" in the geometric mean of {}", plural(len(rows), "row")) if len(rows) > 1 else ""
    return tr("B is {} × as fast as A{}{}.", figure(mean), scope, ends)
