"""Which colour each node takes: by kind of operation, by a figure of its own, or by values from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.canvas.figures import Figures, amount
from app.canvas.hierarchy import Hierarchy
from app.theme import CATEGORIES, CATEGORY_TITLES, Palette

BINS = 24
MODES: dict[str, str] = {
    "kind": "op kind",
    "bits": "weight bits",
    "sparsity": "sparsity",
    "parameters": "parameters",
}


@dataclass(frozen=True, slots=True)
class Overlay:
    """Values from outside by node id, such as a sensitivity."""

    title: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Legend:
    """What the colours mean: named swatches, or the two ends of a scale."""

    title: str
    swatches: tuple[tuple[str, str], ...] = ()
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True)
class Colouring:
    """`colours[codes[i]]` is the colour of node i; `values` are NaN where there is nothing to show."""

    colours: tuple[str, ...]
    codes: NDArray[np.int64]
    legend: Legend
    values: NDArray[np.float64] | None = None
    low: float = 0.0
    high: float = 1.0

    def code_of(self, rows: NDArray[np.int64]) -> int | None:
        """The code of the mean value of some nodes; None when colours are not a scale or nothing is known."""
        if self.values is None or not len(rows):
            return None
        known = self.values[rows]
        known = known[~np.isnan(known)]
        if not len(known):
            return None
        return int(_bins(np.array([known.mean()]), self.low, self.high)[0])


def by_kind(tree: Hierarchy) -> Colouring:
    """Colours of the categories; the legend names those that occur."""
    names = list(CATEGORIES)
    place = {n: i for i, n in enumerate(names)}
    codes = np.array([place[c.category] if c else place["other"] for c in tree.captions], np.int64)
    used = {names[k] for k in np.unique(codes).tolist()} - {"other"}
    swatches = tuple((CATEGORY_TITLES.get(n, n), CATEGORIES[n]) for n in names if n in used)
    return Colouring(tuple(CATEGORIES.values()), codes, Legend("kind", swatches))


def by_value(title: str, values: NDArray[np.float64], palette: Palette) -> Colouring:
    """A sequential scale over the known values; the last colour means unknown."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    colours = tuple(palette.sequential(i / (BINS - 1)) for i in range(BINS))
    codes = _bins(values, low, high)
    legend = Legend(title, low=short(low), high=short(high)) if len(known) else Legend(f"{title}: no values yet")
    return Colouring((*colours, palette.line), codes, legend, np.where(np.isfinite(values), values, np.nan), low, high)


def _bins(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    span = high - low if high > low else 1.0
    place = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / span * (BINS - 1)
    codes = np.clip(np.rint(place), 0, BINS - 1).astype(np.int64)
    return np.where(np.isfinite(values), codes, BINS)


def colouring(mode: str, tree: Hierarchy, figures: Figures, overlay: Overlay | None, palette: Palette) -> Colouring:
    """The colouring for a mode of MODES, or "overlay"."""
    if mode == "overlay" and overlay is not None:
        values = np.array([overlay.values.get(name, np.nan) for name in tree.ids], float)
        return by_value(overlay.title, values, palette)
    found = {"bits": figures.bits, "sparsity": figures.sparsity, "parameters": figures.parameters}.get(mode)
    return by_kind(tree) if found is None else by_value(MODES[mode], found, palette)


def short(value: float) -> str:
    """A value at the end of a scale."""
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return amount(value) if abs(value) >= 1000 else f"{value:.3g}"
