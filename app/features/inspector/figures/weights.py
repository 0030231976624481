"""Histogram and quantisation error of a tensor. numpy only, in chunks.

Runs in a pool thread. For large tensors the error of a sample comes first, so that edits are responsive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.block_grid import middle_grid
from espalier.app.figures.tensor_chunks import (
    Bits,
    Floats,
    Part,
    Stop,
    chunks,
    independent_rows,
    never,
    row_chunks,
    row_sample,
    sample,
)
from espalier.app.translation import error_text, tr
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Format
from espalier.model.graph.views import View
from espalier.model.store.weights import Tensor
from espalier.passes.observed.shift_selection import least_error

BINS = 65
GRID_MOST = 4096
FEW = 1 << 18  # up to this many elements the full error is as fast as a sample
MANY = 1 << 22  # more elements in one uninterruptible rounding would block other previews


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts over equal bins from `low` to `high`: of kept and of pruned elements.

    `pruning_sqnr`: Σx² of all over Σx² of the pruned, in dB; None without a mask.
    """

    low: float
    high: float
    kept: NDArray[np.int64]
    pruned: NDArray[np.int64]
    elements: int
    least: float
    most: float
    pruning_sqnr: float | None = None

    @property
    def edges(self) -> NDArray[np.float64]:
        """Bin edges."""
        return np.linspace(self.low, self.high, len(self.kept) + 1)


@dataclass(frozen=True, slots=True)
class Loss:
    """Quantisation error of a tensor. `sqnr` in dB is inf without error, None if all of the signal is noise.

    `sqnr` is relative to the pruned tensor, `whole_sqnr` to the tensor before pruning (None if not pruned). `grid`: the
    representable values within the tensor's range, `low` and `high` their ends; with data-dependent scales there are no
    ends, and the grid is that of `unit`, the block or row in the middle. `best`: the format with the frac_width or
    exponent_bias of least error. `sampled`: of evenly spread rows or values; `goes_on`: the full error follows.
    """

    sqnr: float | None = None
    whole_sqnr: float | None = None
    saturated: float = 0.0
    zeros: float = 0.0
    low: float | None = None
    high: float | None = None
    grid: NDArray[np.float64] | None = None
    best: Format | None = None
    best_sqnr: float | None = None
    unit: str = ""
    reason: str = ""
    sampled: bool = False
    goes_on: bool = False


def histogram(tensor: Tensor, mask: Bits | None, stop: Stop = never) -> Histogram:
    """Histogram of a tensor's finite values. Two passes, no full copy."""
    least, most, count = math.inf, -math.inf, 0
    for x, _ in chunks(tensor, None, stop):
        x = x[np.isfinite(x)]
        count += x.size
        if x.size:
            least, most = min(least, float(x.min())), max(most, float(x.max()))
    low, high = _span(least, most)
    kept, pruned = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    signal = removed = 0.0
    for x, keep in chunks(tensor, mask, stop):
        fine = np.isfinite(x)
        place = ((x[fine] - np.float32(low)) * np.float32(BINS / (high - low))).astype(np.int32)
        np.clip(place, 0, BINS - 1, out=place)
        if keep is None:
            kept += np.bincount(place, minlength=BINS)
        else:
            chosen = keep[fine]
            signal += _energy(x[fine])
            removed += _energy(x[fine][~chosen])
            kept += np.bincount(place[chosen], minlength=BINS)
            pruned += np.bincount(place[~chosen], minlength=BINS)
    pruning = decibels(signal, removed) if mask is not None and count else None
    return Histogram(low, high, kept, pruned, count, least if count else 0.0, most if count else 0.0, pruning)


def _span(least: float, most: float) -> tuple[float, float]:
    """The range to draw: symmetric if values have both signs."""
    if least > most:
        return -1.0, 1.0
    if least < 0 < most:
        reach = max(-least, most)
        return -reach, reach
    room = (most - least) * 0.02 or abs(most) * 0.1 or 1.0
    return least - room, most + room


def quick_loss(fmt: Format, tensor: Tensor, mask: Bits | None, stop: Stop = never, view: View | None = None) -> Loss:
    """As `loss`, but of a sample if the tensor is large."""
    if tensor.array.size <= FEW:
        return loss(fmt, tensor, mask, stop, view)
    goes_on = not fmt.rowwise or independent_rows(fmt) > 0 or tensor.array.size <= MANY
    return _guarded(fmt, lambda: replace(_sampled(fmt, tensor, mask, view), sampled=True, goes_on=goes_on))


def loss(fmt: Format, tensor: Tensor, mask: Bits | None, stop: Stop = never, view: View | None = None) -> Loss:
    """Error of `fmt` on the masked tensor, in its port's view; `reason` explains a missing error."""

    def compute() -> Loss:
        if not fmt.rowwise:
            return _sums(fmt, chunks(tensor, mask, stop))
        rows = row_sample(fmt, tensor, mask, view)
        return _sums(fmt, row_chunks(fmt, tensor, mask, view, stop), _masked(*rows))

    return _guarded(fmt, lambda: _with_best(compute(), fmt, sample(tensor, mask)))


def _sampled(fmt: Format, tensor: Tensor, mask: Bits | None, view: View | None) -> Loss:
    if fmt.rowwise:
        rows = row_sample(fmt, tensor, mask, view)
        return _sums(fmt, (rows,), _masked(*rows))
    return _sums(fmt, ((sample(tensor, mask), None),))  # without `best`, which takes longer than the rest


def _guarded(fmt: Format, find: Callable[[], Loss]) -> Loss:
    try:
        with np.errstate(all="ignore"):
            return find()
    except EspalierError as error:
        return Loss(reason=error_text(error))
    except (ValueError, TypeError, NotImplementedError, OverflowError, IndexError):
        return Loss(
            reason=tr("The error of {} is not computed here; see the report of quantisation errors.", fmt.label)
        )


def _masked(whole: Floats, keep: NDArray[np.bool_] | None) -> Floats:
    return whole if keep is None else np.where(keep, whole, np.float32(0))


def _sums(fmt: Format, parts: Iterable[Part], rows: Floats | None = None) -> Loss:
    """Error over `parts`; `rows`: sample that contains the block or row whose grid is drawn."""
    ends = None if fmt.rowwise else _ends(fmt)
    sums = _Sums(ends)
    for whole, keep in parts:
        x = _masked(whole, keep)
        sums.add(whole, x, quantised(fmt, x), keep is not None)
    if sums.seen and not sums.total:
        return Loss(reason=tr("No value is finite."))
    shared = None if rows is None else middle_grid(fmt, np.nan_to_num(rows))
    grid, unit = shared or (_grid(fmt, sums.reach) if ends else None, "")
    low, high = ends or (None, None)
    total, own = max(sums.total, 1), decibels(sums.signal, sums.noise)
    against_all = decibels(sums.all_signal, sums.all_noise) if sums.masked else None
    return Loss(own, against_all, sums.outside / total, sums.zeros / total, low, high, grid, unit=unit)


@dataclass(slots=True)
class _Sums:
    """Running sums over the parts of a tensor."""

    ends: tuple[float, float] | None
    signal: float = 0.0
    noise: float = 0.0
    all_signal: float = 0.0
    all_noise: float = 0.0
    outside: int = 0
    zeros: int = 0
    total: int = 0
    seen: int = 0
    reach: float = 0.0
    masked: bool = False

    def add(self, whole: Floats, x: Floats, y: Floats, masked: bool) -> None:
        """Add a part: values before the mask, after it, and quantised."""
        if masked:
            self.masked, sound = True, np.isfinite(whole)
            self.all_signal += _energy(whole[sound])
            self.all_noise += _energy(np.subtract(whole, y)[sound])
        fine = np.isfinite(x)
        x, y = (x, y) if fine.all() else (x[fine], y[fine])
        self.signal += _energy(x)
        self.noise += _energy(np.subtract(x, y, dtype=np.float64))
        self.zeros += int(np.count_nonzero(y == 0))
        self.total += x.size
        self.seen += whole.size
        self.reach = max(self.reach, float(np.abs(x).max(initial=0)))
        if self.ends:
            self.outside += int(np.count_nonzero((x < self.ends[0]) | (x > self.ends[1])))


def _energy(x: NDArray[Any]) -> float:
    return float(np.square(x, dtype=np.float64).sum())


def decibels(signal: float, noise: float) -> float | None:
    """10·log10(signal / noise); inf without noise, None without signal."""
    return math.inf if noise == 0 else None if signal == 0 else 10 * math.log10(signal / noise)


def quantised(fmt: Format, x: Floats) -> Floats:
    """`x` rounded to the format; raises ValueError if the shape changes."""
    y = fmt.rounded(x)
    if y.shape != x.shape:
        raise ValueError(f"{fmt.label} gives no values one by one.")
    return y


def _ends(fmt: Format) -> tuple[float, float] | None:
    """Minimum and maximum of a format, or None if they depend on the data."""
    if fmt.rowwise:
        return None
    far = quantised(fmt, np.array([[-1e30, 1e30]], dtype=np.float32))[0]
    if abs(float(far[1])) > 1e29 or not np.isfinite(far).all():
        return None
    return float(far[0]), float(far[1])


def _grid(fmt: Format, reach: float) -> NDArray[np.float64] | None:
    """Representable values up to `reach`; None if there are too many."""
    frac = getattr(fmt, "frac_width", None)
    if frac is not None and fmt.name == "integer":
        step = 2.0**-frac
        lo, hi = fmt.limits  # type: ignore[attr-defined]
        first, last = max(lo, math.floor(-reach / step) - 1), min(hi, math.ceil(reach / step) + 1)
        return np.arange(first, last + 1) * step if last - first <= GRID_MOST else None
    codes = np.asarray(fmt.codes(), dtype=np.float64)
    inside = codes[np.abs(codes) <= reach * 1.05]
    return inside if len(inside) <= GRID_MOST else None


def _with_best(result: Loss, fmt: Format, x: Floats) -> Loss:
    """Add the best frac_width or exponent_bias for the sample `x`, if the format has one."""
    if fmt.shift is None or result.sqnr in (None, math.inf) or not x.any():
        return result
    best = least_error(fmt, x, float(x.min()), float(x.max()))
    return replace(result, best=best, best_sqnr=_sqnr(x, quantised(best, x)))


def _sqnr(x: Floats, y: Floats) -> float:
    noise = float(np.square(np.subtract(x, y, dtype=np.float64)).sum())
    signal = float(np.square(x, dtype=np.float64).sum())
    return math.inf if noise == 0 else 10 * math.log10(max(signal, 1e-300) / noise)
