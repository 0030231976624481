"""Chunks and samples of a stored tensor. numpy only.

At most one chunk is copied at a time, unless a format has one scale for the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.block_grid import viewed
from espalier.model.formats.base import Format
from espalier.model.formats.independent_rows import independent_rows
from espalier.model.graph.views import View
from espalier.model.store.weights import Tensor

Floats = NDArray[np.float32]
Bits = NDArray[np.uint8]
Part = tuple[Floats, NDArray[np.bool_] | None]
Stop = Callable[[], bool]
CHUNK = 1 << 19  # a multiple of 8, so that chunks of packed masks begin at whole bytes
SAMPLE = 1 << 16


class Stopped(Exception):
    """The result is no longer wanted."""


def never() -> bool:
    """A Stop that never stops."""
    return False


def chunks(tensor: Tensor, mask: Bits | None, stop: Stop = never) -> Iterator[Part]:
    """Yield (values, kept) in flat chunks; raises Stopped."""
    flat = tensor.array.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        if stop():
            raise Stopped
        part = flat[start : start + CHUNK]
        keep = None
        if mask is not None:
            keep = np.unpackbits(mask[start >> 3 : (start + part.size + 7) >> 3], count=part.size).astype(bool)
        yield _float32(part, tensor.dtype), keep


def row_chunks(fmt: Format, tensor: Tensor, mask: Bits | None, view: View | None, stop: Stop = never) -> Iterator[Part]:
    """Yield (values, kept) in whole rows of the format's view; in one chunk if there is a single scale."""
    seen, keep = _seen(tensor, mask, view)
    together = independent_rows(fmt)
    if not together or seen.ndim < 2:
        yield _float32(seen, tensor.dtype), keep
        return
    each = max(CHUNK // max(seen[0].size, 1) // together, 1) * together
    for start in range(0, len(seen), each):
        if stop():
            raise Stopped
        rows = slice(start, start + each)
        yield _float32(seen[rows], tensor.dtype), None if keep is None else keep[rows]


def sample(tensor: Tensor, mask: Bits | None) -> Floats:
    """About SAMPLE evenly spread finite values, masked ones as zero."""
    flat = tensor.array.reshape(-1)
    step = max(1, flat.size // SAMPLE)
    x = _float32(flat[::step], tensor.dtype)
    if mask is not None:
        place = np.arange(0, flat.size, step)
        keep = (mask[place >> 3] >> (7 - (place & 7)).astype(np.uint8)) & 1
        x = np.where(keep.astype(bool), x, np.float32(0))
    return x[np.isfinite(x)]


def row_sample(fmt: Format, tensor: Tensor, mask: Bits | None, view: View | None) -> Part:
    """(values, kept) of about SAMPLE values: evenly spread whole rows of the format's view, in tiles.

    With a single scale the rows of the maximum and minimum are included, since they determine it.
    """
    seen, keep = _seen(tensor, mask, view)
    if seen.ndim < 2 or not seen.size:
        return _float32(seen, tensor.dtype), keep
    together = max(independent_rows(fmt), 1)
    tiles = -(-len(seen) // together)
    wanted = min(tiles, max(SAMPLE // (seen[0].size * together), 1))
    firsts = np.unique(np.linspace(0, tiles - 1, wanted).round().astype(np.int64)) * together
    rows = (firsts[:, None] + np.arange(together)).reshape(-1)
    rows = rows[rows < len(seen)]
    if not independent_rows(fmt) and seen.dtype.kind == "f":
        ends = [np.unravel_index(int(at), seen.shape)[0] for at in (seen.argmax(), seen.argmin())]
        rows = np.union1d(rows, ends)
    return _float32(seen[rows], tensor.dtype), None if keep is None else keep[rows]


def _seen(tensor: Tensor, mask: Bits | None, view: View | None) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    seen = viewed(tensor.array.reshape(tensor.shape), view)
    if mask is None:
        return seen, None
    keep = np.unpackbits(mask, count=math.prod(tensor.shape)).astype(bool)
    return seen, viewed(keep.reshape(tensor.shape), view)


def _float32(part: NDArray[Any], dtype: str) -> Floats:
    if dtype.startswith("float8"):
        return _float8_values(dtype)[part]
    return Tensor(np.ascontiguousarray(part), dtype).float32()


def _float8_values(dtype: str) -> Floats:
    """The 256 values of an 8-bit float, to decode without torch."""
    exponent, mantissa, bias = (4, 3, 7) if dtype == "float8_e4m3fn" else (5, 2, 15)
    codes = np.arange(256)
    e, m = (codes >> mantissa) & ((1 << exponent) - 1), codes & ((1 << mantissa) - 1)
    size = np.where(e == 0, m * 2.0 ** (1 - bias - mantissa), (1 + m / (1 << mantissa)) * 2.0 ** (e - bias))
    special = (codes & 0x7F) == 0x7F if exponent == 4 else e == 31
    size = np.where(special, np.nan, size)
    return np.where(codes & 0x80, -size, size).astype(np.float32)
