"""SQNR of each weight in each of many formats, layer by layer."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, cast

from espalier.model.errors import PassError
from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import quantisable
from espalier.model.graph.ports import weight_at
from espalier.model.registry import FORMATS
from espalier.passes.analysis.statistics import NO_WEIGHTS
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.observed.shift_selection import Floats, least_error

if TYPE_CHECKING:
    from torch import Tensor

PORT = "weight"
SAMPLE = 1 << 13
THREADS = min(os.cpu_count() or 1, 8)
CHUNK = 1 << 17  # elements: the values and their error stay in the cache
# The usual widths of each format; a format that is not named here (of a plug-in) is taken with its defaults.
USUAL: dict[str, tuple[str, ...]] = {
    "integer": ("integer(width=8)", "integer(width=6)", "integer(width=4)"),
    "scaled_integer": (
        "scaled_integer(width=8)", "scaled_integer(width=4)",
        "scaled_integer(width=4, granularity=group, group=64)",
    ),
    "scaled_element": ("scaled_element(element=e4m3)",),
    "offset_integer": ("offset_integer(width=4)",),
    "minifloat_ieee": (
        "minifloat_ieee(width=8, exponent_width=4)", "minifloat_ieee(width=6, exponent_width=3)",
        "minifloat_ieee(width=4, exponent_width=2)",
    ),
    "minifloat_denorm": ("minifloat_denorm(width=8, exponent_width=4)",),
    "mxint": ("mxint(width=8)", "mxint(width=4)"),
    "mxfp": ("mxfp(element=e4m3)", "mxfp(element=e3m2)", "mxfp(element=e2m1)"),
    "nvfp4": ("nvfp4",),
    "nvfp4_row": (),  # for entries of caches
    "block_fp": ("block_fp(width=8)", "block_fp(width=4)"),
    "block_minifloat": ("block_minifloat(width=8, exponent_width=4)",),
    "log": ("log(width=4)",),
    "block_log": ("block_log(width=4)",),
    "ternary": ("ternary",),
    "binary_residual": ("binary_residual(levels=2)",),
    "binary_scaled": ("binary_scaled",),
    "binary": (),  # without a scale it says nothing of a weight's size
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FormatSqnrOptions:
    """Which formats are tried."""

    formats: tuple[Format, ...] = field(
        default=(), metadata={"help": "formats to try; empty: all at their usual widths"}
    )
    fit: bool = field(default=True, metadata={"help": "fit fraction widths and exponent biases to each weight"})


@dataclass(frozen=True, slots=True)
class WeightSqnr:
    """One weight under every format: the formats as fitted to it, their SQNR in dB (inf: exact; None: no signal)."""

    node: str
    elements: int
    formats: tuple[Format, ...]
    sqnr: tuple[float | None, ...]


@analysis("format_sqnr", "SQNR of formats", FormatSqnrOptions)
def format_sqnr(graph: Graph, options: FormatSqnrOptions, context: Context) -> tuple[Graph, Report]:
    """Per weight and format: SQNR = 10·log10(Σx² / Σ(x − q(x))²) dB, of the weight after its mask; `exact` without
    any error, nothing where there is no signal.

    A format without a scale of its own gets, for each weight, the frac_width or exponent_bias that loses least.
    """
    formats = options.formats or usual_formats()
    names = columns(formats, options.fit)
    from espalier.model.torch.threads import torch_threads

    nodes = tried_nodes(graph)
    rows: list[Row] = []
    for i, node in enumerate(nodes):
        context.progress(i, len(nodes), node.id)
        with torch_threads(1):
            found = _measured(node, _value(node, graph, context), formats, options.fit)
        context.found(found)
        shown = ("exact" if v is not None and math.isinf(v) else v for v in found.sqnr)
        rows.append({"node": node.id, "elements": found.elements, **dict(zip(names, shown, strict=True))})
    return graph, Report("format_sqnr", tuple(rows), {"weights": len(rows), "formats": len(formats)})


def usual_formats() -> tuple[Format, ...]:
    """All registered formats at their usual widths."""
    names = [*(n for n in USUAL if n in FORMATS), *(n for n in FORMATS if n not in USUAL)]
    texts = (USUAL.get(name, (name,)) for name in names)
    return tuple(parse_format(t) for found in texts for t in found)


def columns(formats: tuple[Format, ...], fit: bool = True) -> tuple[str, ...]:
    """A short name for each format: `int 8 fitted` where a parameter is chosen for each weight, else its label."""
    return tuple(f"{_bare(f)} fitted" if fit and f.shift else f.label for f in formats)


def _bare(fmt: Format) -> str:
    return f"int {fmt.width}" if fmt.name == "integer" else fmt.label  # type: ignore[attr-defined]


def tried_nodes(graph: Graph) -> list[Node]:
    """The nodes whose stored weight can take a format and has floating values, in graph order."""

    def floating(node: Node) -> bool:
        name = weight_at(node, PORT, graph)
        return bool(name) and graph.weights[name].dtype.startswith(("float", "bfloat"))

    return [n for n in graph if PORT in quantisable(n) and floating(n)]


def _value(node: Node, graph: Graph, context: Context) -> Tensor:
    """The weight after its mask as formats see it: (outputs, contraction), at least float32."""
    import torch

    from espalier.model.graph.views import view_at
    from espalier.model.torch.leaf_builder import effective
    from espalier.model.torch.tensors import to_torch

    weight = graph.weights[weight_at(node, PORT, graph) or ""]
    if weight.key is None:
        raise PassError(*NO_WEIGHTS)
    value = to_torch(context.store.get(weight.key))
    if (held := node.sparsity.get(PORT)) and held.mask is not None:
        mask = effective(node, PORT, graph, context.store).mask
        value = value if mask is None else value * mask
    view = view_at(node, PORT)
    value = view.of(value) if view else value
    return value.to(torch.promote_types(value.dtype, torch.float32)).contiguous()


def _measured(node: Node, x: Tensor, formats: tuple[Format, ...], fit: bool) -> WeightSqnr:
    """Each thread takes parts that stay in its cache, under all formats in turn; what needs all of a weight comes
    after."""
    flat = x.view(-1)
    if fit:
        formats = fitted(formats, flat)
    apart = [not f.rowwise or (x.dim() > 1 and _by_rows(f)) for f in formats]
    near, far = ([f for f, a in zip(formats, apart, strict=True) if a is wanted] for wanted in (True, False))
    parts = x.split(max(1, CHUNK // max(1, x.shape[1:].numel()))) if x.dim() > 1 else flat.split(CHUNK)
    with ThreadPoolExecutor(THREADS) as pool:
        by_part = list(pool.map(lambda part: [_energy(part), *(_noise(f, part) for f in near)], parts))
        signal, *noises = (math.fsum(each) for each in zip(*by_part, strict=True))
        whole = iter(pool.map(lambda f: _noise(f, x), far))
        parted = iter(noises)
        found = tuple(_decibels(signal, next(parted if a else whole)) for a in apart)
    return WeightSqnr(node.id, x.numel(), formats, found)


def fitted(formats: tuple[Format, ...], x: Tensor) -> tuple[Format, ...]:
    """The formats with the frac_width or exponent_bias whose squared error on a sample of `x` (flat) is least."""
    if not x.numel() or not bool(x.any()):
        return formats
    stride = x.numel() // SAMPLE + 1 | 1  # odd, so that it does not walk along one column
    seen, (low, high) = x[::stride].numpy(), (float(v) for v in x.aminmax())
    return tuple(least_error(f, seen, low, high, _fast) if f.shift else f for f in formats)


def _fast(fmt: Format, x: Floats) -> Floats:
    import torch

    return fmt.forward(torch.from_numpy(x)).numpy()


def _energy(x: Tensor) -> float:
    flat = x.reshape(-1)
    return float(flat.dot(flat))


def _noise(fmt: Format, x: Tensor) -> float:
    """Σ(x − q(x))²."""
    import torch

    y, error = fmt.forward(x), _squared_error()
    plain = error is not None and x.dtype == torch.float32 and x.is_contiguous() and y.is_contiguous()
    return error(x, y) if error is not None and plain else _energy(y.sub_(x))


@cache
def _squared_error() -> Callable[[Tensor, Tensor], float] | None:
    """Σ(x − y)² in one pass, which other threads need not wait for; None without numba."""
    try:
        from espalier.kernels.fake_quant.noise import squared_error
    except ImportError:
        return None
    return squared_error


def _decibels(signal: float, noise: float) -> float | None:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else None


def _by_rows(fmt: Format) -> bool:
    """Whether rows do not see each other: no tiles of rows, nothing that the whole tensor shares."""
    if getattr(fmt, "rows", 1) != 1:
        return False
    shared = any(f.per == 0 for f in fmt.layout())
    return not shared or cast("str", getattr(fmt, "granularity", "")) == "channel"
