"""Masks from scores: exact counts, ties by index. Rows and groups are those of model/graph/views.py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.views import View
from espalier.passes.choices.pruning import SQUARED, Choice
from espalier.passes.ranking import Bits, Values, keep_largest

Keep = NDArray[np.bool_]
_CHUNK = 1 << 18  # elements that are ranked together
_COUNTED = 16  # groups up to this length are ranked by counting, longer ones by partition


@dataclass(frozen=True, slots=True)
class Scored:
    """The flat scores of a weight's elements, with its shape and the view in which rows are outputs."""

    values: Values
    shape: tuple[int, ...]
    view: View | None = None

    def rows(self) -> Values:
        """As [outputs, inputs]; a 1-d weight is one row."""
        return seen(self.values.reshape(self.shape), self.view)

    def back(self, keep: Keep) -> Keep:
        """A mask of `rows`, flat in the weight's element order."""
        if self.view is None:
            return keep.reshape(-1)
        return self.view.array_back(keep, self.shape).reshape(-1)


class Found(NamedTuple):
    """A mask (numpy.packbits order, 1 = kept) and its number of zeros."""

    bits: Bits
    zeros: int


WHOLE = Found(np.zeros(0, np.uint8), 0)  # nothing is pruned


def seen(array: NDArray[Any], view: View | None) -> NDArray[Any]:
    """A weight as [outputs, inputs]."""
    turned = array if view is None else view.of_array(array)
    axes = 1 if view and view.flat else turned.ndim - 1
    return turned.reshape(math.prod(turned.shape[:axes]), math.prod(turned.shape[axes:]))


def masks(parts: Sequence[Scored], choice: Choice) -> list[Found]:
    """The mask of each part: separately for local, row and n:m, jointly for global."""
    if choice.scope != "global" or choice.pattern == "n:m":
        return [mask(part, choice) for part in parts]
    if choice.pattern == "element":
        return _jointly([p.values for p in parts], choice)
    blocks = [_blocks(p.rows(), choice) for p in parts]
    of_blocks = _jointly([b.reshape(-1) for b in blocks], choice)
    return [_elements(p, b.shape, f, choice) for p, b, f in zip(parts, blocks, of_blocks, strict=True)]


def mask(part: Scored, choice: Choice) -> Found:
    """The mask of one weight."""
    if choice.pattern == "element" and choice.scope != "row":
        return Found(*keep_largest([part.values], round(choice.ratio * part.values.size), choice.signed)[0])
    if not part.values.size or not choice.ratio:
        return _packed(np.ones(part.values.size, bool))
    if choice.pattern == "n:m":
        return _packed(part.back(_groups(_ranked(part.rows(), choice), choice.size)))
    if choice.pattern == "element":
        rows = _ranked(part.rows(), choice)
        return _packed(part.back(largest(rows, round(choice.ratio * rows.shape[1]))))
    blocks = _blocks(part.rows(), choice)
    if choice.scope == "row":
        kept = _packed(largest(_ranked(blocks, choice), round(choice.ratio * blocks.shape[1])).reshape(-1))
    else:
        kept = Found(*keep_largest([blocks.reshape(-1)], round(choice.ratio * blocks.size), choice.signed)[0])
    return _elements(part, blocks.shape, kept, choice)


def _ranked(values: Values, choice: Choice) -> Values:
    return values if choice.signed else np.abs(values)


def _packed(keep: Keep) -> Found:
    return Found(np.packbits(keep), keep.size - int(np.count_nonzero(keep)))


# -- jointly, within bounds


def _jointly(parts: list[Values], choice: Choice) -> list[Found]:
    """One ranking of all parts. Parts whose share would be below `least` or above `most` get exactly that, and the
    others share the rest (the side with the larger violation first, as in projections onto a box).
    """
    total = round(choice.ratio * sum(p.size for p in parts))
    low = [math.floor(choice.least * p.size) if choice.ratio else 0 for p in parts]
    high = [math.ceil(choice.most * p.size) for p in parts]
    fixed: dict[int, int] = {}
    while True:
        free = [i for i in range(len(parts)) if i not in fixed]
        left = total - sum(fixed.values())
        ranked = dict(zip(free, keep_largest([parts[i] for i in free], left, choice.signed), strict=True))
        below = {i: low[i] for i in free if ranked[i][1] < low[i]}
        above = {i: high[i] for i in free if ranked[i][1] > high[i]}
        if not below and not above:
            break
        short = sum(n - ranked[i][1] for i, n in below.items())
        over = sum(ranked[i][1] - n for i, n in above.items())
        fixed |= below if short >= over else above
    bounded = {i: keep_largest([parts[i]], n, choice.signed)[0] for i, n in fixed.items()}
    return [Found(*(bounded[i] if i in bounded else ranked[i])) for i in range(len(parts))]


# -- rows and groups


def largest(rows: Values, drop: int) -> Keep:
    """Mask without the `drop` smallest elements of each row; of equal ones the first are dropped."""
    keep = np.ones(rows.shape, bool)
    if not drop or not rows.size:
        return keep
    for start in _chunks(rows):
        part = rows[start]
        limit = np.partition(part, drop - 1, axis=1)[:, drop - 1 : drop]
        gone, level = part < limit, part == limit
        wanted = drop - np.count_nonzero(gone, axis=1)
        if (np.count_nonzero(level, axis=1) > wanted).any():
            level &= np.cumsum(level, axis=1) <= wanted[:, None]
        keep[start] = ~(gone | level)
    return keep


def _chunks(rows: Values) -> Iterator[slice]:
    step = max(1, _CHUNK // max(rows.shape[1], 1))
    return (slice(i, i + step) for i in range(0, len(rows), step))


def _groups(rows: Values, size: tuple[int, int]) -> Keep:
    """The n largest of every m in a row; a shorter last group keeps up to n."""
    n, m = size
    keep = np.ones(rows.shape, bool)
    whole = rows.shape[1] // m * m
    for part in _chunks(rows):
        if whole:
            groups = rows[part, :whole].reshape(-1, m)
            kept = _counted(groups, m - n) if m <= _COUNTED else largest(groups, m - n)
            keep[part, :whole] = kept.reshape(len(rows[part]), whole)
        if rows.shape[1] > whole:
            keep[part, whole:] = largest(rows[part, whole:], max(rows.shape[1] - whole - n, 0))
    return keep


def _counted(groups: Values, drop: int) -> Keep:
    """`largest` for short rows: an element is kept if at least `drop` of its row are smaller."""
    columns = np.ascontiguousarray(groups.T)
    ahead = np.zeros(columns.shape, np.uint8)
    for i in range(1, len(columns)):
        for j in range(i):  # of two equal ones the first is dropped
            first = columns[j] <= columns[i]
            ahead[i] += first
            ahead[j] += ~first
    return np.ascontiguousarray((ahead >= drop).T)


# -- blocks


def _blocks(rows: Values, choice: Choice) -> Values:
    """The mean score of each block: of magnitudes, squares or signed scores."""
    high, wide = choice.size
    count = (-(-rows.shape[0] // high), -(-rows.shape[1] // wide))
    means = np.empty(count, np.float32)
    lines = np.arange(0, rows.shape[1], wide)
    widths = np.diff([*lines, rows.shape[1]])
    for i in range(count[0]):
        part = rows[i * high : (i + 1) * high].astype(np.float64)
        part = np.square(part) if choice.method in SQUARED else part if choice.signed else np.abs(part)
        means[i] = np.add.reduceat(part.sum(0), lines) / (widths * len(part))
    return means


def _elements(part: Scored, count: tuple[int, ...], of_blocks: Found, choice: Choice) -> Found:
    """The mask of elements from that of blocks."""
    if not of_blocks.zeros:
        return _packed(np.ones(part.values.size, bool))
    shape = part.rows().shape
    kept = np.unpackbits(of_blocks.bits, count=math.prod(count)).astype(bool).reshape(count)
    wide = kept.repeat(choice.size[0], axis=0)[: shape[0]].repeat(choice.size[1], axis=1)[:, : shape[1]]
    return _packed(part.back(wide))
