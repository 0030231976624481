"""Colours of nodes: by kind of operation, by a metric of the node, or by measured values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import eq

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.hierarchy import Hierarchy
from espalier.app.canvas.node_metrics import NodeMetrics, amount
from espalier.app.number_text import percent
from espalier.app.theme import CATEGORIES, CATEGORY_TITLES, Palette
from espalier.app.translation import tr, translated

BINS = 24
KIND = tr("kind")
NOT_MEASURED = tr("not measured yet")
# Modes whose values are measured: mode → (title, unit; "share" is shown in per cent, "log" is a power of ten).
MEASURED: dict[str, tuple[str, str]] = {
    "weight_sqnr": (tr("weight SQNR"), "dB"),
    "activation_sqnr": (tr("activation SQNR"), "dB"),
    "output_sqnr": (tr("output SQNR"), "dB"),
    "saturation": (tr("saturation"), "share"),
    "sensitivity": (tr("sensitivity"), "log"),
    "cycles": (tr("hardware cycles"), ""),
    "busy": (tr("hardware busy"), "share"),
    "lut": (tr("hardware LUT"), ""),
    "dsp": (tr("hardware DSP"), ""),
    "bram": (tr("hardware BRAM"), ""),
    "time": (tr("time"), "ms"),
    "memory": (tr("memory allocated"), "KiB"),
    "shard_strategy": (tr("placement on devices"), ""),
    "shard_bytes": (tr("bytes moved between devices"), "KiB"),
    "shard_time": (tr("predicted time on a device"), "ms"),
}
TRAINS = ("frozen", "trains", "adapter")  # meaning of the codes of `trains`
MODES: dict[str, str] = translated(
    {
        "kind": "op kind",
        "bits": "weight bits",
        "sparsity": "sparsity",
        "parameters": "parameters",
        "trainable": "trainable",
        **{mode: title for mode, (title, _) in MEASURED.items()},
    }
)


@dataclass(frozen=True, slots=True)
class Overlay:
    """Measured values by node id, such as sensitivities; `note`: their state, or why there are none.

    `names`: of the values, which then are their indices instead of amounts.
    """

    title: str
    values: Mapping[str, float]
    unit: str = ""
    note: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Legend:
    """A legend: named swatches, or the two ends of a scale."""

    title: str
    swatches: tuple[tuple[str, str], ...] = ()
    low: str = ""
    high: str = ""
    edges: tuple[tuple[str, str], ...] = ()  # of the colours of edges; the last one, without a colour, on their width


@dataclass(frozen=True, slots=True)
class Colouring:
    """`colours[codes[i]]` is the colour of node i; `values` are NaN for nodes without a value.

    `named`: values are codes of names, not a scale; a group shows the highest.
    """

    colours: tuple[str, ...]
    codes: NDArray[np.int64]
    legend: Legend
    values: NDArray[np.float64] | None = None
    low: float = 0.0
    high: float = 1.0
    named: bool = False

    def code_of(self, rows: NDArray[np.int64]) -> int | None:
        """The code of the mean value of some nodes; None without values."""
        if self.values is None or not len(rows):
            return None
        known = self.values[rows]
        known = known[~np.isnan(known)]
        if not len(known):
            return None
        return int(known.max()) if self.named else int(_bins(np.array([known.mean()]), self.low, self.high)[0])

    def codes_of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The code of the mean of each row of values [groups, nodes], of the highest if named; the last without any."""
        known = ~np.isnan(values)
        some = known.any(axis=1)
        if self.named:
            return np.where(some, np.where(known, values, -1).max(axis=1), len(self.colours) - 1).astype(np.int64)
        means = np.nansum(values, axis=1) / np.maximum(known.sum(axis=1), 1)
        return _bins(np.where(some, means, np.nan), self.low, self.high)


def by_kind(tree: Hierarchy) -> Colouring:
    """Colour by category; the legend lists the categories that occur."""
    names = list(CATEGORIES)
    place = {n: i for i, n in enumerate(names)}
    codes = np.array([place[c.category] if c else place["other"] for c in tree.captions], np.int64)
    used = {names[k] for k in np.unique(codes).tolist()} - {"other"}
    swatches = tuple((CATEGORY_TITLES.get(n) or tr(n), CATEGORIES[n]) for n in names if n in used)
    return Colouring(tuple(CATEGORIES.values()), codes, Legend(KIND, swatches))


def by_training(values: NDArray[np.float64], palette: Palette) -> Colouring:
    """Colour frozen, trained and adapted layers; the legend lists the kinds that occur."""
    colours = (palette.muted, CATEGORIES["linear"], CATEGORIES["activation"], palette.line)
    known = np.isfinite(values)
    codes = np.where(known, np.nan_to_num(values), len(TRAINS)).astype(np.int64)
    swatches = tuple((tr(name), colours[k]) for k, name in enumerate(TRAINS) if bool((values == k).any()))
    legend = Legend(tr("trainable"), swatches) if swatches else Legend(tr("trainable: no parameters"))
    return Colouring(colours, codes, legend, values, named=True)


def by_name(overlay: Overlay, values: NDArray[np.float64], palette: Palette) -> Colouring:
    """Colour by named values; names beyond the number of distinct colours share the last of them."""
    distinct = [c for n, c in CATEGORIES.items() if n not in ("shape", "io", "other")]
    colours = [distinct[min(k, len(distinct) - 1)] for k in range(len(overlay.names))]
    known = np.isfinite(values)
    codes = np.where(known, np.nan_to_num(values), len(colours)).astype(np.int64)
    title = f"{overlay.title} ({overlay.note})" if overlay.note else overlay.title
    return Colouring((*colours, palette.line), codes, Legend(title, tuple(zip(overlay.names, colours, strict=True))),
                     values, named=True)  # fmt: skip


def by_value(title: str, values: NDArray[np.float64], palette: Palette, unit: str = "", note: str = "") -> Colouring:
    """Colour by a sequential scale over the finite values; the last colour is for nodes without a value."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    colours = tuple(palette.sequential(i / (BINS - 1)) for i in range(BINS))
    codes = _bins(values, low, high)
    legend = _scale(title, low, high, unit, note) if len(known) else Legend(f"{title}: {note or tr('no values yet')}")
    if len(known) and low == high:  # a single value has no scale
        legend = Legend(legend.title, ((legend.low, colours[0]),))
    return Colouring((*colours, palette.line), codes, legend, np.where(np.isfinite(values), values, np.nan), low, high)


def _scale(title: str, low: float, high: float, unit: str, note: str) -> Legend:
    words = f"{title} ({note})" if note else title
    if unit == "share":
        digits = min(max(1, 1 - math.floor(math.log10(100 * high))), 4) if high > 0 else 1  # 0.02 % must not read 0.0
        return Legend(words, low=percent(low, digits), high=percent(high, digits))
    if unit == "log":
        return Legend(words, low=short(10.0**low), high=short(10.0**high))
    ends = [f"{short(v)} {unit}".rstrip() for v in (low, high)]
    return Legend(words, low=ends[0], high=ends[1])


def _bins(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    span = high - low if high > low else 1.0
    place = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / span * (BINS - 1)
    codes = np.clip(np.rint(place), 0, BINS - 1).astype(np.int64)
    return np.where(np.isfinite(values), codes, BINS)


def colouring(mode: str, tree: Hierarchy, figures: NodeMetrics, overlay: Overlay | None, palette: Palette) -> Colouring:
    """The colouring for a mode of MODES, or "overlay"; `overlay`: the values of it or of a MEASURED mode."""
    if mode in MEASURED and overlay is None:
        overlay = Overlay(MEASURED[mode][0], {}, note=NOT_MEASURED)
    if (mode == "overlay" or mode in MEASURED) and overlay is not None:
        values = _in_order(overlay.values, tree.ids)
        if overlay.names:
            return by_name(overlay, values, palette)
        return by_value(overlay.title, values, palette, overlay.unit, overlay.note)
    if mode == "trainable":
        return by_training(figures.trains, palette)
    values = {"bits": figures.bits, "sparsity": figures.sparsity, "parameters": figures.parameters}.get(mode)
    unit = "bits" if mode == "bits" else "share" if mode == "sparsity" else ""
    return by_kind(tree) if values is None else by_value(MODES[mode], values, palette, unit)


def _in_order(values: Mapping[str, float], ids: tuple[str, ...]) -> NDArray[np.float64]:
    """The value of each id, NaN if missing; fast if the values are in the order of the ids."""
    if len(values) == len(ids) and all(map(eq, values, ids)):
        return np.fromiter(values.values(), float, len(ids))
    return np.fromiter(map(values.get, ids, repeat(np.nan)), float, len(ids))


def short(value: float) -> str:
    """The label of a value at the end of a scale."""
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return amount(value) if abs(value) >= 1000 else f"{value:.3g}"
