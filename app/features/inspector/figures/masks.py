"""Data of a sparsity map: kept share and magnitude of each cell of a region. numpy only.

Runs in a pool thread. Weights are viewed as [outputs, inputs], convolutions unfolded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.tensor_chunks import Stop, Stopped, never
from espalier.model.graph.views import View
from espalier.model.store.weights import Tensor
from espalier.passes.pruning.patterns import seen

Floats = NDArray[np.float32]
_SAMPLE = 1 << 16


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight as [outputs, inputs] and its mask (None: all kept); `full`: magnitude of full intensity."""

    values: Floats
    keep: NDArray[np.bool_] | None
    full: float

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.values.shape[0], self.values.shape[1]


@dataclass(frozen=True, slots=True)
class Region:
    """Rows `top` to `bottom` and columns `left` to `right`, ends excluded."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def high(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    @property
    def wide(self) -> int:
        """Number of columns."""
        return self.right - self.left


@dataclass(frozen=True, slots=True)
class Picture:
    """Cells of a region: kept share, and mean magnitude of kept elements relative to `full` (0 … 1).

    `rows`, `columns`: kept shares of rows and columns of the region. `values`: the elements if each cell is one.
    """

    region: Region
    kept: Floats
    shade: Floats
    rows: Floats
    columns: Floats
    values: Floats | None = None


def matrix_of(tensor: Tensor, mask: NDArray[np.uint8] | None, view: View | None) -> Matrix:
    """Build a Matrix from a stored weight and its packed mask."""
    values = seen(tensor.float32(), view)
    keep = None
    if mask is not None:
        flat = np.unpackbits(np.asarray(mask), count=values.size).astype(bool)
        keep = seen(flat.reshape(tensor.shape), view)
    flat_values = values.reshape(-1)
    sample = np.abs(flat_values[:: flat_values.size // _SAMPLE | 1])
    sample = sample[np.isfinite(sample)]
    full = float(np.quantile(sample, 0.995)) if sample.size else 0.0
    return Matrix(values, keep, full or 1.0)


def picture(matrix: Matrix, region: Region, cells: tuple[int, int], stop: Stop = never) -> Picture:
    """Compute a region in at most `cells` (rows, columns) of whole elements; raises Stopped."""
    tops, lefts = _starts(region.top, region.bottom, cells[0]), _starts(region.left, region.right, cells[1])
    bottoms, widths = [*tops[1:], region.bottom], np.diff([*lefts, region.right])
    kept, shade = np.empty((len(tops), len(lefts)), np.float32), np.empty((len(tops), len(lefts)), np.float32)
    offsets = np.asarray(lefts) - region.left
    for i, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
        if stop():
            raise Stopped
        part = np.nan_to_num(np.abs(matrix.values[top:bottom, region.left : region.right]), posinf=matrix.full)
        counts = np.full(region.wide, bottom - top, np.float32)
        if matrix.keep is not None:
            keep = matrix.keep[top:bottom, region.left : region.right]
            part, counts = part * keep, np.count_nonzero(keep, axis=0).astype(np.float32)
        number = np.add.reduceat(counts, offsets)
        kept[i] = number / (widths * (bottom - top))
        shade[i] = np.add.reduceat(part.sum(0), offsets) / np.maximum(number, 1) / matrix.full
    weights = widths / max(region.wide, 1)
    heights = np.diff([*tops, region.bottom]) / max(region.high, 1)
    rows, columns = (kept * weights).sum(1), (kept * heights[:, None]).sum(0)
    inner = slice(region.top, region.bottom), slice(region.left, region.right)
    values = matrix.values[inner].copy() if kept.shape == (region.high, region.wide) else None
    sums = rows.astype(np.float32), columns.astype(np.float32)
    return Picture(region, kept, np.minimum(shade, 1), *sums, values)


def _starts(first: int, last: int, cells: int) -> list[int]:
    """Start indices of at most `cells` even parts of a range."""
    count = max(min(cells, last - first), 1)
    return [first + (last - first) * i // count for i in range(count)]


def loader(load: Callable[[], Tensor], mask: Callable[[], Tensor] | None, view: View | None) -> Callable[[], Matrix]:
    """A function that builds the matrix at its first call and caches it."""
    cache: list[Matrix] = []

    def read() -> Matrix:
        if not cache:
            cache.append(matrix_of(load(), mask().array if mask else None, view))
        return cache[0]

    return read
