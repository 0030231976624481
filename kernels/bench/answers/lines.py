"""The metrics of each answer from measured data; None if they are not measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from espalier.kernels.bench.answers import passes
from espalier.kernels.bench.answers.known import Known
from espalier.kernels.bench.results import ABOVE, Row, disturbed
from espalier.kernels.bench.spec import shape_text

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
TIMED = {  # question → kernels whose times it tells
    "compile": ("small layer", "large chain"), "softmax": ("softmax",), "attention": ("attention",),
    "mxint8": ("mxint8_dequantize",), "tiles": ("copy",),
    "roofline": ("attention", "layer_norm", "linear_gelu", "mxint8_dequantize", "mxint8_linear", "softmax"),
}  # fmt: skip
VERSIONS = ("torch", "naive", "triton", "compiled")


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of an answer. `unit`: of s, bytes, GB/s, TFLOP/s, ×, share, count or FLOP/byte. `value` None: not
    measured yet, or `note` says why there is none. `computed`: by arithmetic, not measured."""

    label: str
    value: float | None
    unit: str
    note: str = ""
    computed: bool = False


def lines_of(question: str, known: Known) -> tuple[Line, ...]:
    """The lines of an answer; last, what other programs took of the machine while its rows were timed."""
    share = disturbed(r for r in known.rows if r.kernel in TIMED.get(question, ()))
    busy = () if share is None else (Line("other programs", share, "share", "of the processors, while it was timed"),)
    return (*LINES[question](known), *busy)


# -- torch.compile


@dataclass(frozen=True, slots=True)
class Compiled:
    """Seconds of a function's first and later calls, eager and compiled; those that were not measured are None.

    `captured`: later calls of the graph as found, run by torch without compiling.
    """

    first_eager: float | None
    first: float | None
    eager: float | None
    captured: float | None
    compiled: float | None

    @property
    def break_even(self) -> float | None:
        """After how many calls the time of compiling is back; infinite: never; None: not measured."""
        if self.first is None or self.first_eager is None or self.eager is None or self.compiled is None:
            return None
        return break_even(self.first - self.first_eager, self.eager - self.compiled)


def break_even(cost: float, saved: float) -> float:
    """Calls until a cost in seconds is back at so many saved a call; infinite where nothing is saved."""
    return max(1.0, math.ceil(cost / saved)) if saved > 0 else math.inf


def compiled(name: str, known: Known) -> Compiled:
    """What is known of a function that was compiled."""
    held: dict[str, Row | None] = {v: known.row(name, v) for v in ("eager", "captured", "compiled")}
    first = {n: r.first if r else None for n, r in held.items()}
    least = {n: r.least if r else None for n, r in held.items()}
    return Compiled(first["eager"], first["compiled"], least["eager"], least["captured"], least["compiled"])


def _compile(known: Known) -> Iterator[Line]:
    for name in ("small layer", "large chain"):
        found, why = compiled(name, known), known.problem(name, "compiled")
        yield Line(f"{name}: first call, eager", found.first_eager, "s")
        yield Line(f"{name}: first call, compiled", found.first, "s", why)
        yield Line(f"{name}: a later call, eager", found.eager, "s")
        yield Line(f"{name}: a later call, graph captured", found.captured, "s", why)
        yield Line(f"{name}: a later call, compiled", found.compiled, "s", why or _verdict(found))
        calls = found.break_even
        if calls is not None and math.isinf(calls):
            yield Line(f"{name}: pays after", None, "count", "never: compiled calls are not shorter here")
        else:
            yield Line(f"{name}: pays after", calls, "count", why or ("calls" if calls else ""))


def _verdict(found: Compiled) -> str:
    """What the times say; of the cost of guards, only where it is there."""
    if found.eager is None or found.compiled is None:
        return ""
    ratio = found.eager / found.compiled
    if ratio >= 1.05:
        return f"{ratio:.3g} × as fast"
    guards = (found.captured or 0.0) - found.eager
    cause = f"; entering a captured graph takes {1e6 * guards:.2g} µs" if guards > 0 else ""
    return (f"{1 / ratio:.3g} × as long" if ratio < 0.95 else "no faster") + cause


# -- softmax, attention


def _softmax(known: Known) -> Iterator[Line]:
    shape = known.largest("softmax")
    for version in VERSIONS:
        row = known.row("softmax", version, shape)
        if version in ("compiled", "triton") and row is None:
            if why := known.problem("softmax", version):
                yield Line(f"{version}: bandwidth", None, "GB/s", why)
            continue
        at = f" of {shape['m']} × {shape['n']}, {row.dtype}" if shape and row else ""
        yield Line(f"{version}: bytes", row.bytes if row else None, "bytes", _formula(version, at), computed=True)
        yield Line(f"{version}: time", row.seconds if row else None, "s")
        yield Line(f"{version}: bandwidth", row.gb_s if row else None, "GB/s")
    naive, fused = known.row("softmax", "naive", shape), known.row("softmax", "torch", shape)
    ratio = _ratio(naive, fused)
    yield Line("fused is faster by", ratio, "×", "the bytes alone would give 4 ×" if ratio else "")
    yield Line("a copy on this machine", known.ceilings.copy_gb_s if known.ceilings else None, "GB/s")


def _formula(version: str, at: str) -> str:
    naive, fused = passes.NAIVE, passes.FUSED
    held = naive if version == "naive" else fused
    return f"reads {passes.reads(held)}, writes {passes.writes(held)}{at}"


def _ratio(slow: Row | None, fast: Row | None) -> float | None:
    return slow.seconds / fast.seconds if slow and fast and slow.seconds and fast.seconds else None


def plain_attention(known: Known, version: str) -> list[Row]:
    """Timed rows of a version over tokens, without masks, of the batch, heads and depth that most were timed at."""
    rows = [r for r in known.timed("attention", version) if not r.shape["causal"] and not r.shape["mask"]]
    kinds = [(r.shape["b"], r.shape["h"], r.shape["d"], r.dtype) for v in ("torch", "naive")
             for r in known.timed("attention", v) if not r.shape["causal"] and not r.shape["mask"]]  # fmt: skip
    best = max(kinds, key=kinds.count, default=None)
    held = [r for r in rows if (r.shape["b"], r.shape["h"], r.shape["d"], r.dtype) == best]
    return sorted(held, key=lambda r: r.shape["s"])


def _attention(known: Known) -> Iterator[Line]:
    rows = {v: plain_attention(known, v) for v in ("naive", "torch", "triton")}
    shared = sorted({r.shape["s"] for r in rows["naive"]} & {r.shape["s"] for r in rows["torch"]})
    if not shared:
        yield Line("naive: time", None, "s")
        yield Line("fused: time", None, "s")
        yield Line("scores of naive", None, "bytes")
        yield Line("naive: most held beside the inputs", None, "bytes")
        return
    for tokens in dict.fromkeys((shared[0], shared[-1])):
        at = {v: next((r for r in held if r.shape["s"] == tokens), None) for v, held in rows.items()}
        one = at["naive"]
        assert one is not None
        where = f"{tokens} tokens: "
        yield Line(f"{where}naive", one.seconds, "s", shape_text(one.shape))
        yield Line(f"{where}fused (torch)", at["torch"].seconds if at["torch"] else None, "s", _times(at))
        if at["triton"]:
            yield Line(f"{where}fused (triton)", at["triton"].seconds, "s")
        size = passes.score_bytes(one.shape["b"], one.shape["h"], tokens, SIZES.get(one.dtype, 4))
        yield Line(f"{where}a matrix of scores", size, "bytes", "b·h·s²·bytes of an element", computed=True)
        for version, name in (("naive", "naive"), ("torch", "fused (torch)")):
            held = known.fact(f"attention memory {version}", tokens)
            yield Line(f"{where}most held beside the inputs, {name}", held.value if held else None, "bytes")


def _times(at: dict[str, Row | None]) -> str:
    ratio = _ratio(at["naive"], at["torch"])
    return f"{ratio:.3g} × as fast as naive" if ratio else ""


# -- MXINT8, tiles, memory, roofline


def _mxint8(known: Known) -> Iterator[Line]:
    shape = known.largest("mxint8_dequantize")
    for version in ("torch", "numba", "triton", "bits"):
        row, why = known.row("mxint8_dequantize", version, shape), known.problem("mxint8_dequantize", version)
        at = f"{shape['rows']} × {shape['columns']} to {row.dtype}" if row and shape else why
        yield Line(f"{version}: time", row.seconds if row else None, "s", at)
        if row:
            yield Line(f"{version}: bandwidth", row.gb_s, "GB/s")


def _tiles(known: Known) -> Iterator[Line]:
    rows, columns = known.row("copy", "along rows"), known.row("copy", "down columns")
    yield Line("a copy along rows", rows.gb_s if rows else None, "GB/s", shape_text(rows.shape) if rows else "")
    yield Line("the same elements down columns", columns.gb_s if columns else None, "GB/s")
    yield Line("along rows is faster by", _ratio(columns, rows), "×")


def saving(width: int, block: int = 32, shared: int = 8) -> float:
    """What codes of so many bits and an exponent for each block save of float32."""
    return 1 - (width + shared / block) / 32


def _memory(known: Known) -> Iterator[Line]:
    floats = known.fact("weight in float", 32)
    for width in (8, 4):
        text = f"(32 − {width + 0.25:g})/32"
        yield Line(f"MXINT{width} in blocks of 32, ideal", saving(width), "share", text, computed=True)
        held = known.fact("weight packed", width)
        share = 1 - held.value / floats.value if held and floats else None
        note = f"{held.value:,.0f} of {floats.value:,.0f} bytes".replace(",", "\u2009") if held and floats else ""
        yield Line(f"MXINT{width}: a weight of 3072 × 768, measured", share, "share", note)
    for row in known.project:
        value: Any = row.get("bytes")
        note: Any = row.get("saving")
        text = "measured in a run" if row.get("kind") == "measured" else ""
        saved = f"{100 * note:.1f} % less than float32" if isinstance(note, float) and note else ""
        yield Line(f"{known.project_name}: {row['line']}", float(value), "bytes", saved or text)


def _roofline(known: Known) -> Iterator[Line]:
    limits = known.ceilings
    yield Line("a copy: bandwidth", limits.copy_gb_s if limits else None, "GB/s")
    rates = limits.matmul_tflop_s if limits else {}
    if not rates:
        yield Line("a product of matrices: rate", None, "TFLOP/s")
    for dtype, rate in rates.items():
        yield Line(f"a product of matrices: rate, {dtype}", rate, "TFLOP/s")
        yield Line(f"ridge, {dtype}", ridge(limits.copy_gb_s, rate) if limits else None, "FLOP/byte",
                   "below it bytes decide, above it operations")  # fmt: skip
    for row in points(known):
        bound = bound_by(row, known)
        share = f", {100 * row.of_roof:.0f} % of the roof" if row.of_roof else ""
        note = ABOVE if row.above_roof else f"bound by {bound}{share}" if bound else ""
        yield Line(f"{row.kernel} ({row.version})", row.intensity, "FLOP/byte", note)


def ridge(copy_gb_s: float, tflop_s: float) -> float:
    """FLOPs for each byte where both limits take the same time."""
    return tflop_s * 1e3 / copy_gb_s


def points(known: Known) -> list[Row]:
    """The rows of a roofline: of each kernel its fastest version, at the size that moves most."""
    best: dict[str, Row] = {}
    for row in known.rows:
        if not row.seconds or not row.flops or row.kernel in ("small layer", "large chain", "copy"):
            continue
        held = best.get(row.kernel)
        if held is None or (row.bytes_least, -row.seconds) > (held.bytes_least, -(held.seconds or 0)):
            best[row.kernel] = row
    return sorted(best.values(), key=lambda r: r.intensity)


def bound_by(row: Row, known: Known) -> str:
    """`bandwidth` or `operations`, by the ceilings; empty where they are not known."""
    rate = known.ceilings.matmul_tflop_s.get(row.dtype) if known.ceilings else None
    if known.ceilings is None or rate is None:
        return ""
    return "bandwidth" if row.intensity < ridge(known.ceilings.copy_gb_s, rate) else "operations"


LINES: dict[str, Callable[[Known], Iterator[Line]]] = {
    "compile": _compile, "softmax": _softmax, "attention": _attention, "mxint8": _mxint8, "tiles": _tiles,
    "memory": _memory, "roofline": _roofline,
}  # fmt: skip
