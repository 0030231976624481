"""Rows of kernels as people read them: in a table, on a chart, beside another machine's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from espalier.app.words import THIN, count, figure, mebibytes, percent, plural, time_words
from espalier.kernels.bench import others
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Results, Row, compared, disturbed
from espalier.kernels.bench.spec import KernelInfo, shape_text

TIME, BYTES = "time (ms)", "bytes that must move"
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def type_word(dtype: str) -> str:
    """fp32, bf16, fp16."""
    return TYPES.get(dtype, dtype)


def amount(value: float) -> str:
    """Three digits, or all of those before the point: 0.252, 12.5, 4 231."""
    return count(round(value)) if value >= 1000 else figure(value)


def rate_of(device: str) -> tuple[str, float]:
    """The unit of a device's operations a second that leaves few zeros, and how many of it a TFLOP/s is."""
    return ("GFLOP/s", 1e3) if device == "cpu" else ("TFLOP/s", 1.0)


def size_words(shape: Mapping[str, int]) -> str:
    """`m=256,n=8192`, or `4096x1024` where the dimensions say it themselves; the command line reads both.

    Switches that are off are left out.
    """
    if tuple(shape) == ("rows", "columns"):
        return "x".join(map(str, shape.values()))
    return shape_text({k: v for k, v in shape.items() if v})


def cells(row: Row) -> dict[str, Any]:
    """A row of the table; figures stay numbers, so that they sort."""

    def _round(value: float | None, digits: int = 4) -> float | None:
        return value if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")

    unit, factor = rate_of(row.device)
    time, share, roof, rate = (v and v * f for v, f in ((row.seconds, 1e3), (row.spread, 100), (row.of_roof, 100),
                                                        (row.tflop_s, factor)))  # fmt: skip
    return {
        "kernel": row.kernel, "version": row.version, "shape": size_words(row.shape), "type": type_word(row.dtype),
        TIME: _round(time), "± %": _round(share, 2), "GB/s": _round(row.gb_s), unit: _round(rate, 3),
        "ratio (×)": _round(row.ratio), "roof (%)": _round(roof, 3), "error": _round(row.error, 3),
        "": row.remark,
    }  # fmt: skip


def spoken(row: Row) -> str:
    """What a point of a chart says of itself."""
    lines = [f"{row.kernel} · {row.version} · {type_word(row.dtype)}", size_words(row.shape)]
    if row.seconds:
        lines.append(f"{time_words(row.seconds)} ±{THIN}{percent(row.spread or 0, 0)}"
                     + (f", warm {time_words(row.warm)}" if row.warm else ""))  # fmt: skip
        unit, factor = rate_of(row.device)
        lines.append(f"{amount(row.gb_s or 0)} GB/s · {amount((row.tflop_s or 0) * factor)} {unit}"
                     f" · {amount(row.intensity)} FLOP/byte")  # fmt: skip
    told = [f"{figure(row.ratio)} × as fast as {row.baseline}" if row.ratio and row.version != row.baseline else "",
            f"{percent(row.of_roof, 0)} of the roof" if row.of_roof else ""]  # fmt: skip
    rest = (" · ".join(t for t in told if t), row.remark, busy_words([row]))
    return "\n".join(line for line in (*lines, *rest) if line)


# -- figures that a curve draws


@dataclass(frozen=True, slots=True)
class Figure:
    """What stands on an axis: its name there, and a row's value (None where there is none)."""

    title: str
    of: Callable[[Row], float | None]


FIGURES = {
    "time": Figure("time (ms)", lambda r: r.seconds and r.seconds * 1e3),
    "gb_s": Figure("GB/s", lambda r: r.gb_s),
    "ratio": Figure("times as fast as the baseline", lambda r: r.ratio),
}


def figure_of(name: str, rows: Sequence[Row]) -> Figure:
    """A figure of rows of one device, in units that suit it."""
    if name != "tflop_s":
        return FIGURES[name]
    unit, factor = rate_of(rows[0].device if rows else "")
    return Figure(unit, lambda r: r.tflop_s and r.tflop_s * factor)


def size_axis(rows: Sequence[Row]) -> Figure:
    """What tells sizes apart: the one dimension that varies, or one that does where the bytes stay the same.

    Else the bytes that must move.
    """
    sizes = {tuple(r.shape.items()): r for r in rows}
    varying = [d for d in (rows[0].shape if rows else ()) if len({r.shape.get(d) for r in rows}) > 1]
    telling = [d for d in varying if len({r.shape.get(d) for r in rows}) == len(sizes)]
    alone = len(varying) == 1 or len({r.bytes_least for r in sizes.values()}) < len(sizes)
    if alone and telling:
        return Figure(telling[-1], lambda r: r.shape[telling[-1]])
    return Figure(BYTES, lambda r: r.bytes_least or None)


# -- what a kernel is


def model_words(info: KernelInfo, version: str, rows: Sequence[Row]) -> list[str]:
    """FLOPs and bytes of a kernel and of a version of it: as formulas, and at the last size measured."""
    held = next((v for v in info.versions if v.name == version), None)
    lines = [f"FLOPs {info.flops} · bytes at least {info.bytes} (e: bytes of an element)"]
    if held and held.bytes != info.bytes:
        lines.append(f"{version} moves {held.bytes}")
    last = next((r for r in reversed(rows) if r.kernel == info.name and r.version == version), None)
    if last:
        lines.append(f"at {size_words(last.shape)}, {type_word(last.dtype)}: {count_words(last.flops)}FLOP, "
                     f"{mebibytes(last.bytes)} moved, {mebibytes(last.bytes_least)} at least, "
                     f"{amount(last.intensity)} FLOP/byte")  # fmt: skip
    return lines


def count_words(value: float) -> str:
    """`8.39 M`, before a unit."""
    size, unit = next(((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s), (1.0, ""))
    return f"{figure(value / size)}{THIN}{unit}"


def limits_words(limits: Ceilings | None) -> str:
    """What the machine can do at most."""
    if limits is None:
        return "not measured"
    unit, factor = rate_of(limits.device)
    rates = "".join(f" · {type_word(d)} product {amount(r * factor)} {unit}" for d, r in limits.matmul_tflop_s.items())
    return f"copy {amount(limits.copy_gb_s)} GB/s{rates}"


def busy_words(rows: Sequence[Row]) -> str:
    """That the machine was busy with something else while rows were timed; empty where it was not."""
    return others.busy_words(disturbed(rows))


# -- two runs beside each other


def beside(a: Results, b: Results) -> list[dict[str, Any]]:
    """Rows that both runs have: the times of each, and how many times as fast B is."""
    found = []
    for row in compared([a, b]):
        (first, second), speed = [v for k, v in row.items() if k.startswith("seconds ")], list(row.values())[-1]
        found.append({
            "kernel": row["name"], "version": row["version"], "shape": row["shape"], "type": type_word(row["dtype"]),
            "A (ms)": float(f"{first * 1e3:.4g}"), "B (ms)": float(f"{second * 1e3:.4g}"),
            "B against A (×)": float(f"{speed:.4g}"),
        })  # fmt: skip
    return found


def beside_words(rows: Sequence[dict[str, Any]], hint: str = "") -> str:
    """`B is 1.8 × as fast as A in the geometric mean of 24 rows (0.9 to 3.1 ×)`; `hint`: what to do without any."""
    if not rows:
        return f"Nothing was measured in both: no kernel, version, type and shape alike. {hint}".strip()
    speeds = [r["B against A (×)"] for r in rows]
    mean = statistics.geometric_mean(speeds)
    ends = f" ({figure(min(speeds))} to {figure(max(speeds))} ×)" if len(speeds) > 1 else ""
    over = f" in the geometric mean of {plural(len(rows), 'row')}" if len(rows) > 1 else ""
    return f"B is {figure(mean)} × as fast as A{over}{ends}."
