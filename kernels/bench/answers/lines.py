"""The metrics of each answer from measured data; None if they are not measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from espalier.kernels.bench.answers import passes
from espalier.kernels.bench.answers.measured_data import MeasuredData
from espalier.kernels.bench.results import ABOVE, Row, disturbance
from espalier.kernels.bench.spec import shape_text

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
TIMED = {  # question → kernels whose times it shows
    "compile": ("small layer", "large chain"), "softmax": ("softmax",), "attention": ("attention",),
    "mxint8": ("mxint8_dequantize",), "tiles": ("copy",),
    "roofline": ("attention", "layer_norm", "linear_gelu", "mxint8_dequantize", "mxint8_linear", "softmax"),
}  # fmt: skip
VERSIONS = ("torch", "naive", "triton", "compiled")


@dataclass(frozen=True, slots=True)
class Line:
    """A metric of an answer. `unit`: s, bytes, GB/s, TFLOP/s, ×, share, count or FLOP/byte. `value` None: not
    measured, for the reason in `note` if any. `computed`: by arithmetic, not measured."""

    label: str
    value: float | None
    unit: str
    note: str = ""
    computed: bool = False


def lines_of(question: str, measured: MeasuredData) -> tuple[Line, ...]:
    """The lines of an answer; the last one is the load by other programs while its rows were timed."""
    load = disturbance(r for r in measured.rows if r.kernel in TIMED.get(question, ()))
    busy = () if load is None else (Line("other programs", load, "share", "of the processors, while it was timed"),)
    return (*LINES[question](measured), *busy)


# -- torch.compile


@dataclass(frozen=True, slots=True)
class Compiled:
    """Seconds of a function's first and later calls, eager and compiled; None if not measured.

    `captured`: later calls of the captured graph, run by torch without compilation.
    """

    first_eager: float | None
    first: float | None
    eager: float | None
    captured: float | None
    compiled: float | None

    @property
    def break_even(self) -> float | None:
        """Number of calls that repay the compilation; infinite if none does, None if not measured."""
        if self.first is None or self.first_eager is None or self.eager is None or self.compiled is None:
            return None
        return break_even(self.first - self.first_eager, self.eager - self.compiled)


def break_even(cost: float, saved: float) -> float:
    """Number of calls that repay a `cost` in seconds at `saved` seconds per call; infinite if nothing is saved."""
    return max(1.0, math.ceil(cost / saved)) if saved > 0 else math.inf


def compiled(name: str, measured: MeasuredData) -> Compiled:
    """The measured times of a compiled function."""
    rows: dict[str, Row | None] = {v: measured.row(name, v) for v in ("eager", "captured", "compiled")}
    first = {n: r.first if r else None for n, r in rows.items()}
    seconds = {n: r.least if r else None for n, r in rows.items()}
    return Compiled(first["eager"], first["compiled"], seconds["eager"], seconds["captured"], seconds["compiled"])


def _compile(measured: MeasuredData) -> Iterator[Line]:
    for name in ("small layer", "large chain"):
        times, problem = compiled(name, measured), measured.problem(name, "compiled")
        yield Line(f"{name}: first call, eager", times.first_eager, "s")
        yield Line(f"{name}: first call, compiled", times.first, "s", problem)
        yield Line(f"{name}: a later call, eager", times.eager, "s")
        yield Line(f"{name}: a later call, graph captured", times.captured, "s", problem)
        yield Line(f"{name}: a later call, compiled", times.compiled, "s", problem or _speedup_text(times))
        calls = times.break_even
        if calls is not None and math.isinf(calls):
            yield Line(f"{name}: pays after", None, "count", "never: compiled calls are not shorter here")
        else:
            yield Line(f"{name}: pays after", calls, "count", problem or ("calls" if calls else ""))


def _speedup_text(times: Compiled) -> str:
    """The speed-up of compilation as text, with the cost of guards if it is measurable."""
    if times.eager is None or times.compiled is None:
        return ""
    ratio = times.eager / times.compiled
    if ratio >= 1.05:
        return f"{ratio:.3g} × as fast"
    guards = (times.captured or 0.0) - times.eager
    cause = f"; entering a captured graph takes {1e6 * guards:.2g} µs" if guards > 0 else ""
    return (f"{1 / ratio:.3g} × as long" if ratio < 0.95 else "no faster") + cause


# -- softmax, attention


def _softmax(measured: MeasuredData) -> Iterator[Line]:
    shape = measured.largest("softmax")
    for version in VERSIONS:
        row = measured.row("softmax", version, shape)
        if version in ("compiled", "triton") and row is None:
            if problem := measured.problem("softmax", version):
                yield Line(f"{version}: bandwidth", None, "GB/s", problem)
            continue
        at = f" of {shape['m']} × {shape['n']}, {row.dtype}" if shape and row else ""
        yield Line(f"{version}: bytes", row.bytes if row else None, "bytes", _formula(version, at), computed=True)
        yield Line(f"{version}: time", row.seconds if row else None, "s")
        yield Line(f"{version}: bandwidth", row.gb_s if row else None, "GB/s")
    naive, fused = measured.row("softmax", "naive", shape), measured.row("softmax", "torch", shape)
    ratio = _ratio(naive, fused)
    yield Line("fused is faster by", ratio, "×", "the bytes alone would give 4 ×" if ratio else "")
    yield Line("a copy on this machine", measured.ceilings.copy_gb_s if measured.ceilings else None, "GB/s")


def _formula(version: str, at: str) -> str:
    naive, fused = passes.NAIVE, passes.FUSED
    passes_of_version = naive if version == "naive" else fused
    return f"reads {passes.reads(passes_of_version)}, writes {passes.writes(passes_of_version)}{at}"


def _ratio(slow: Row | None, fast: Row | None) -> float | None:
    return slow.seconds / fast.seconds if slow and fast and slow.seconds and fast.seconds else None


def plain_attention(measured: MeasuredData, version: str) -> list[Row]:
    """Timed rows of a version by tokens, without masks, at the batch, heads and depth with most rows."""
    rows = [r for r in measured.timed("attention", version) if not r.shape["causal"] and not r.shape["mask"]]
    kinds = [(r.shape["b"], r.shape["h"], r.shape["d"], r.dtype) for v in ("torch", "naive")
             for r in measured.timed("attention", v) if not r.shape["causal"] and not r.shape["mask"]]  # fmt: skip
    best = max(kinds, key=kinds.count, default=None)
    matching = [r for r in rows if (r.shape["b"], r.shape["h"], r.shape["d"], r.dtype) == best]
    return sorted(matching, key=lambda r: r.shape["s"])


def _attention(measured: MeasuredData) -> Iterator[Line]:
    rows = {v: plain_attention(measured, v) for v in ("naive", "torch", "triton")}
    shared = sorted({r.shape["s"] for r in rows["naive"]} & {r.shape["s"] for r in rows["torch"]})
    if not shared:
        yield Line("naive: time", None, "s")
        yield Line("fused: time", None, "s")
        yield Line("scores of naive", None, "bytes")
        yield Line("naive: most held beside the inputs", None, "bytes")
        return
    for tokens in dict.fromkeys((shared[0], shared[-1])):
        at = {v: next((r for r in matching if r.shape["s"] == tokens), None) for v, matching in rows.items()}
        baseline = at["naive"]
        assert baseline is not None
        prefix = f"{tokens} tokens: "
        yield Line(f"{prefix}naive", baseline.seconds, "s", shape_text(baseline.shape))
        yield Line(f"{prefix}fused (torch)", at["torch"].seconds if at["torch"] else None, "s", _times(at))
        if at["triton"]:
            yield Line(f"{prefix}fused (triton)", at["triton"].seconds, "s")
        size = passes.score_bytes(baseline.shape["b"], baseline.shape["h"], tokens, SIZES.get(baseline.dtype, 4))
        yield Line(f"{prefix}a matrix of scores", size, "bytes", "b·h·s²·bytes of an element", computed=True)
        for version, name in (("naive", "naive"), ("torch", "fused (torch)")):
            matching = measured.fact(f"attention memory {version}", tokens)
            yield Line(f"{prefix}most held beside the inputs, {name}", matching.value if matching else None, "bytes")


def _times(at: dict[str, Row | None]) -> str:
    ratio = _ratio(at["naive"], at["torch"])
    return f"{ratio:.3g} × as fast as naive" if ratio else ""


# -- MXINT8, tiles, memory, roofline


def _mxint8(measured: MeasuredData) -> Iterator[Line]:
    shape = measured.largest("mxint8_dequantize")
    for version in ("torch", "numba", "triton", "bits"):
        row, problem = measured.row("mxint8_dequantize", version, shape), measured.problem("mxint8_dequantize", version)
        at = f"{shape['rows']} × {shape['columns']} to {row.dtype}" if row and shape else problem
        yield Line(f"{version}: time", row.seconds if row else None, "s", at)
        if row:
            yield Line(f"{version}: bandwidth", row.gb_s, "GB/s")


def _tiles(measured: MeasuredData) -> Iterator[Line]:
    rows, columns = measured.row("copy", "along rows"), measured.row("copy", "down columns")
    yield Line("a copy along rows", rows.gb_s if rows else None, "GB/s", shape_text(rows.shape) if rows else "")
    yield Line("the same elements down columns", columns.gb_s if columns else None, "GB/s")
    yield Line("along rows is faster by", _ratio(columns, rows), "×")


def saving(width: int, block: int = 32, shared: int = 8) -> float:
    """Share of float32's memory saved by codes of `width` bits with one exponent of `shared` bits per block."""
    return 1 - (width + shared / block) / 32


def _memory(measured: MeasuredData) -> Iterator[Line]:
    floats = measured.fact("weight in float", 32)
    for width in (8, 4):
        text = f"(32 − {width + 0.25:g})/32"
        yield Line(f"MXINT{width} in blocks of 32, ideal", saving(width), "share", text, computed=True)
        packed = measured.fact("weight packed", width)
        saved_share = 1 - packed.value / floats.value if packed and floats else None
        note = f"{packed.value:,.0f} of {floats.value:,.0f} bytes".replace(",", "\u2009") if packed and floats else ""
        yield Line(f"MXINT{width}: a weight of 3072 × 768, measured", saved_share, "share", note)
    for row in measured.project:
        value: Any = row.get("bytes")
        note: Any = row.get("saving")
        text = "measured in a run" if row.get("kind") == "measured" else ""
        saved = f"{100 * note:.1f} % less than float32" if isinstance(note, float) and note else ""
        yield Line(f"{measured.project_name}: {row['line']}", float(value), "bytes", saved or text)


def _roofline(measured: MeasuredData) -> Iterator[Line]:
    limits = measured.ceilings
    yield Line("a copy: bandwidth", limits.copy_gb_s if limits else None, "GB/s")
    rates = limits.matmul_tflop_s if limits else {}
    if not rates:
        yield Line("a product of matrices: rate", None, "TFLOP/s")
    for dtype, rate in rates.items():
        yield Line(f"a product of matrices: rate, {dtype}", rate, "TFLOP/s")
        yield Line(f"ridge, {dtype}", ridge(limits.copy_gb_s, rate) if limits else None, "FLOP/byte",
                   "below it bytes decide, above it operations")  # fmt: skip
    for row in points(measured):
        bound = bound_by(row, measured)
        of_roof_text = f", {100 * row.of_roof:.0f} % of the roof" if row.of_roof else ""
        note = ABOVE if row.above_roof else f"bound by {bound}{of_roof_text}" if bound else ""
        yield Line(f"{row.kernel} ({row.version})", row.intensity, "FLOP/byte", note)


def ridge(copy_gb_s: float, tflop_s: float) -> float:
    """FLOPs per byte at which both limits take the same time."""
    return tflop_s * 1e3 / copy_gb_s


def points(measured: MeasuredData) -> list[Row]:
    """The rows of a roofline: the fastest version of each kernel at the shape that moves the most bytes."""
    best: dict[str, Row] = {}
    for row in measured.rows:
        if not row.seconds or not row.flops or row.kernel in ("small layer", "large chain", "copy"):
            continue
        fastest = best.get(row.kernel)
        if fastest is None or (row.bytes_least, -row.seconds) > (fastest.bytes_least, -(fastest.seconds or 0)):
            best[row.kernel] = row
    return sorted(best.values(), key=lambda r: r.intensity)


def bound_by(row: Row, measured: MeasuredData) -> str:
    """`bandwidth` or `operations`, by the ceilings; empty without ceilings."""
    rate = measured.ceilings.matmul_tflop_s.get(row.dtype) if measured.ceilings else None
    if measured.ceilings is None or rate is None:
        return ""
    return "bandwidth" if row.intensity < ridge(measured.ceilings.copy_gb_s, rate) else "operations"


LINES: dict[str, Callable[[MeasuredData], Iterator[Line]]] = {
    "compile": _compile, "softmax": _softmax, "attention": _attention, "mxint8": _mxint8, "tiles": _tiles,
    "memory": _memory, "roofline": _roofline,
}  # fmt: skip
