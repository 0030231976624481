"""Axes of tensors as terms: plain, a product of axes (a view) or a row of axes (a concatenation). Two that an operation
ties are made one, cut to common factors or pieces where that takes it. What is plain in the end are the units that go
from all tensors at once (as DepGraph groups layers, Fang et al. 2023, arXiv:2301.12900, but exactly through views).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from espalier.passes.structure.sizes import ONE, Size

Kept = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why units cannot go, and the node that holds them."""

    node: str
    text: str


@dataclass(slots=True, eq=False)
class Axis:
    """A term; `form` says what `parts` are: one other axis that this one is, factors (outermost first) or pieces."""

    size: Size
    form: Literal["plain", "same", "product", "row"] = "plain"
    parts: tuple[Axis, ...] = ()
    fixed: Reason | None = None


Dims = tuple[Axis, ...]  # one dimension of a tensor: a product of axes, outermost first; of size 1: none
Shape = tuple[Dims, ...]


def new(size: Size, fixed: Reason | None = None) -> Dims:
    """A dimension of an axis of its own."""
    return () if size == ONE else (Axis(size, fixed=fixed),)


def find(axis: Axis) -> Axis:
    """The axis that stands for `axis`."""
    while axis.form == "same":
        axis = axis.parts[0]
    return axis


def factors(dims: Dims) -> list[Axis]:
    """The axes of a dimension, products written out: plain ones and rows, none of size 1."""
    found: list[Axis] = []
    for axis in map(find, dims):
        if axis.form == "product":
            found += factors(axis.parts)
        elif axis.size != ONE:
            found.append(axis)
    return found


def units(dims: Iterable[Axis]) -> Iterator[Axis]:
    """All plain axes in a dimension."""
    for axis in map(find, dims):
        if axis.form == "plain":
            yield axis
        else:
            yield from units(axis.parts)


def size(dims: Dims) -> Size:
    """The size of a dimension."""
    found = ONE
    for axis in dims:
        found = found.times(axis.size)
    return found


def fix(dims: Iterable[Axis], reason: Reason) -> None:
    """Hold the units of a dimension as they are."""
    for axis in units(dims):
        axis.fixed = axis.fixed or reason


def pack(dims: Dims) -> Axis:
    """A dimension as one axis."""
    if len(dims) == 1:
        return dims[0]
    return Axis(size(dims), "product", dims) if dims else Axis(ONE)


def row(pieces: Sequence[Dims]) -> Dims:
    """The dimension in which `pieces` lie one after another."""
    if len(pieces) == 1:
        return pieces[0]
    parts = tuple(map(pack, pieces))
    return (Axis(Size(sum(p.size.count for p in parts)), "row", parts),)


# -- making two dimensions one


def unify(one: Dims, other: Dims, reason: Reason) -> None:
    """Tie two dimensions of one size, element by element; what cannot be tied is held, for `reason`."""
    left, right = factors(one), factors(other)
    while left and right:
        a, b = left[0], right[0]
        if a is b or a.size == b.size:
            _join(a, b, reason)
            del left[0], right[0]
        elif b.size.over(a.size) and _split(b, a.size, reason):
            right[:1] = factors((b,))
        elif a.size.over(b.size) and _split(a, b.size, reason):
            left[:1] = factors((a,))
        else:
            break
    fix((*left, *right), reason)


def _join(a: Axis, b: Axis, reason: Reason) -> None:
    a, b = find(a), find(b)
    if a is b:
        return
    if "product" in (a.form, b.form):
        unify((a,), (b,), reason)
    elif a.form == b.form == "row":
        _join_rows(a, b, reason)
    else:
        kept, gone = (a, b) if a.form == "row" else (b, a)
        gone.form, gone.parts = "same", (kept,)
        if gone.fixed:
            fix((kept,), gone.fixed)


def _join_rows(a: Axis, b: Axis, reason: Reason) -> None:
    cuts = _ends(a.parts) | _ends(b.parts)
    left, right = pieces((a,), cuts, reason), pieces((b,), cuts, reason)
    if left is None or right is None:
        fix((a, b), reason)
        return
    for p, q in zip(left, right, strict=True):
        unify(p, q, reason)


def _ends(parts: Sequence[Axis]) -> set[int]:
    return {int(n) for n in np.cumsum([p.size.count for p in parts])[:-1]}


def _split(axis: Axis, outer: Size, reason: Reason) -> bool:
    """Write an axis as a product whose outermost factor has the size `outer`; whether that is possible."""
    inner = axis.size.over(outer)
    if inner is None or axis.size.free:
        return False
    if axis.form == "row":
        return _split_row(axis, outer, inner, reason)
    axis.form, axis.parts = "product", (Axis(outer, fixed=axis.fixed), Axis(inner, fixed=axis.fixed))
    return True


def _split_row(axis: Axis, outer: Size, inner: Size, reason: Reason) -> bool:
    """Pieces that all are whole runs of the inner size: a product of a row and that."""
    shared, heads = Axis(inner), list[Dims]()
    if any(p.size.count % inner.count for p in axis.parts):
        return False
    for part in axis.parts:
        head = new(Size(part.size.count // inner.count))
        unify((*head, shared), (part,), reason)
        heads.append(head)
    axis.form, axis.parts = "product", (pack(row(heads)), shared)
    return True


# -- pieces of a dimension


def pieces(dims: Dims, cuts: Iterable[int], reason: Reason) -> list[Dims] | None:
    """A dimension cut at the places `cuts`, as its pieces in order; None where it cannot be cut so."""
    held, places = factors(dims), sorted(c for c in set(cuts) if 0 < c < size(dims).count)
    if size(dims).free:
        return None
    if not places:
        return [dims]
    first, rest = held[0], tuple(held[1:])
    inner = size(rest).count
    if any(c % inner for c in places):
        return None
    places = [c // inner for c in places]
    if first.form == "plain":
        _cut(first, places)
    parts = _regrouped(first.parts, places, reason)
    if parts is None:
        return None
    return [(*part, *rest) for part in parts]


def _cut(axis: Axis, places: Sequence[int]) -> None:
    ends = [0, *places, axis.size.count]
    sizes = [Size(b - a) for a, b in itertools.pairwise(ends)]
    axis.form, axis.parts = "row", tuple(Axis(s, fixed=axis.fixed) for s in sizes)


def _regrouped(parts: Sequence[Axis], places: Sequence[int], reason: Reason) -> list[Dims] | None:
    """The pieces between `places` of a row of `parts`, which are cut where a place lies within one."""
    fine: list[Dims] = []
    start = 0
    for part in parts:
        inside = [c - start for c in places if start < c < start + part.size.count]
        found = pieces((part,), inside, reason) if inside else [(part,)]
        if found is None:
            return None
        fine += found
        start += part.size.count
    groups: list[list[Dims]] = [[]]
    start = 0
    for piece in fine:
        if start in places and groups[-1]:
            groups.append([])
        groups[-1].append(piece)
        start += size(piece).count
    return [row(g) for g in groups]


# -- views


def viewed(shape: Shape, sizes: Sequence[Size], reason: Reason) -> Shape:
    """The dimensions of the sizes `sizes` that hold the same elements in the same order."""
    left = [a for dims in shape for a in factors(dims)]
    found: list[Dims] = []
    for wanted in sizes:
        taken: list[Axis] = []
        while wanted != ONE and left:
            axis = left[0]
            rest = wanted.over(axis.size)
            if rest is not None:
                taken.append(left.pop(0))
                wanted = rest
            elif axis.size.over(wanted) and _split(axis, wanted, reason):
                left[:1] = factors((axis,))
            else:
                return _lost(shape, sizes, reason)
        if wanted != ONE:
            return _lost(shape, sizes, reason)
        found.append(tuple(taken))
    return tuple(found) if not left else _lost(shape, sizes, reason)


def _lost(shape: Shape, sizes: Sequence[Size], reason: Reason) -> Shape:
    """A view that mixes axes: all of them are held."""
    for dims in shape:
        fix(dims, reason)
    return tuple(new(s, reason) for s in sizes)


# -- what is left of a dimension


def kept(dims: Dims, left: Mapping[Axis, Kept]) -> Kept:
    """Which elements of a dimension stay, where `left` tells it of its units; of a free size nothing goes."""
    found = np.ones(1, np.bool_)
    for axis in map(find, dims):
        if not axis.size.free:
            found = np.logical_and.outer(found, _kept(axis, left)).reshape(-1)
    return found


def _kept(axis: Axis, left: Mapping[Axis, Kept]) -> Kept:
    if axis.form == "plain":
        return left.get(axis, np.ones(axis.size.count, np.bool_))
    if axis.form == "product":
        return kept(axis.parts, left)
    return np.concatenate([kept((p,), left) for p in axis.parts])


def numbers(dims: Dims, axis: Axis) -> NDArray[np.int64]:
    """For each element of a dimension the number of the unit of `axis` that it belongs to, −1 for none."""
    found = np.full(1, -1)
    for held in map(find, dims):
        if not held.size.free:
            inner = _numbers(held, axis)
            found = np.where(found[:, None] >= 0, found[:, None], inner[None, :]).reshape(-1)
    return found


def _numbers(held: Axis, axis: Axis) -> NDArray[np.int64]:
    if held.form == "plain":
        return np.arange(held.size.count) if held is axis else np.full(held.size.count, -1)
    if held.form == "product":
        return numbers(held.parts, axis)
    return np.concatenate([numbers((p,), axis) for p in held.parts])


def new_size(dims: Dims, left: Mapping[Axis, Kept]) -> Size:
    """The size of a dimension afterwards."""
    free = [f for axis in dims for f in find(axis).size.free]
    counted = [a for a in map(find, dims) if not a.size.free]
    apart = [a.size.count for a in map(find, dims) if a.size.free]
    count = int(kept(tuple(counted), left).sum())
    for n in apart:
        count *= n
    return Size(count, tuple(sorted(free)))
