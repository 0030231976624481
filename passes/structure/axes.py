"""Unification of tensor axes: plain, product (a view) or row (a concatenation) of axes.

Axes coupled by an operation are unified, split into factors or pieces if necessary. Remaining plain axes are removed
from all tensors together (like DepGraph, Fang et al. 2023, arXiv:2301.12900, but exact through views)."""

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
    """Why units cannot be removed, and the node that prevents it."""

    node: str
    text: str


@dataclass(slots=True, eq=False)
class Axis:
    """A term; `form` tells what `parts` are: the unified axis (same), factors (outermost first) or pieces."""

    size: Size
    form: Literal["plain", "same", "product", "row"] = "plain"
    parts: tuple[Axis, ...] = ()
    fixed: Reason | None = None


Dims = tuple[Axis, ...]  # one dimension of a tensor: a product of axes, outermost first; empty for size 1
Shape = tuple[Dims, ...]


def new(size: Size, fixed: Reason | None = None) -> Dims:
    """A dimension with a new axis."""
    return () if size == ONE else (Axis(size, fixed=fixed),)


def find(axis: Axis) -> Axis:
    """The representative of `axis` after unification."""
    while axis.form == "same":
        axis = axis.parts[0]
    return axis


def factors(dims: Dims) -> list[Axis]:
    """The plain axes and rows of a dimension, with products expanded, without those of size 1."""
    axes: list[Axis] = []
    for axis in map(find, dims):
        if axis.form == "product":
            axes += factors(axis.parts)
        elif axis.size != ONE:
            axes.append(axis)
    return axes


def units(dims: Iterable[Axis]) -> Iterator[Axis]:
    """All plain axes of a dimension."""
    for axis in map(find, dims):
        if axis.form == "plain":
            yield axis
        else:
            yield from units(axis.parts)


def size(dims: Dims) -> Size:
    """The size of a dimension."""
    product = ONE
    for axis in dims:
        product = product.times(axis.size)
    return product


def fix(dims: Iterable[Axis], reason: Reason) -> None:
    """Mark the units of a dimension as not removable."""
    for axis in units(dims):
        axis.fixed = axis.fixed or reason


def pack(dims: Dims) -> Axis:
    """A dimension as one axis."""
    if len(dims) == 1:
        return dims[0]
    return Axis(size(dims), "product", dims) if dims else Axis(ONE)


def row(pieces: Sequence[Dims]) -> Dims:
    """The concatenation of `pieces` as one dimension."""
    if len(pieces) == 1:
        return pieces[0]
    parts = tuple(map(pack, pieces))
    return (Axis(Size(sum(p.size.count for p in parts)), "row", parts),)


# -- unification


def unify(one: Dims, other: Dims, reason: Reason) -> None:
    """Unify two dimensions of equal size, elementwise; axes that cannot be unified are fixed, with `reason`."""
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
        root, other = (a, b) if a.form == "row" else (b, a)
        other.form, other.parts = "same", (root,)
        if other.fixed:
            fix((root,), other.fixed)


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
    """Split an axis into a product with an outermost factor of size `outer`; returns whether that is possible."""
    inner = axis.size.over(outer)
    if inner is None or axis.size.free:
        return False
    if axis.form == "row":
        return _split_row(axis, outer, inner, reason)
    axis.form, axis.parts = "product", (Axis(outer, fixed=axis.fixed), Axis(inner, fixed=axis.fixed))
    return True


def _split_row(axis: Axis, outer: Size, inner: Size, reason: Reason) -> bool:
    """Split a row whose pieces are all multiples of the inner size into a product of a row and that size."""
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
    """A dimension split at the indices `cuts`, as its pieces in order; None if impossible."""
    axes, at = factors(dims), sorted(c for c in set(cuts) if 0 < c < size(dims).count)
    if size(dims).free:
        return None
    if not at:
        return [dims]
    first, rest = axes[0], tuple(axes[1:])
    inner = size(rest).count
    if any(c % inner for c in at):
        return None
    at = [c // inner for c in at]
    if first.form == "plain":
        _cut(first, at)
    parts = _regrouped(first.parts, at, reason)
    if parts is None:
        return None
    return [(*part, *rest) for part in parts]


def _cut(axis: Axis, at: Sequence[int]) -> None:
    ends = [0, *at, axis.size.count]
    sizes = [Size(b - a) for a, b in itertools.pairwise(ends)]
    axis.form, axis.parts = "row", tuple(Axis(s, fixed=axis.fixed) for s in sizes)


def _regrouped(parts: Sequence[Axis], at: Sequence[int], reason: Reason) -> list[Dims] | None:
    """The pieces between the indices `at` of a row of `parts`, which are split if an index lies within one."""
    fine: list[Dims] = []
    start = 0
    for part in parts:
        inside = [c - start for c in at if start < c < start + part.size.count]
        split = pieces((part,), inside, reason) if inside else [(part,)]
        if split is None:
            return None
        fine += split
        start += part.size.count
    groups: list[list[Dims]] = [[]]
    start = 0
    for piece in fine:
        if start in at and groups[-1]:
            groups.append([])
        groups[-1].append(piece)
        start += size(piece).count
    return [row(g) for g in groups]


# -- views


def viewed(shape: Shape, sizes: Sequence[Size], reason: Reason) -> Shape:
    """The shape of a view with `sizes`: the same elements in the same order."""
    left = [a for dims in shape for a in factors(dims)]
    result: list[Dims] = []
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
                return _fixed(shape, sizes, reason)
        if wanted != ONE:
            return _fixed(shape, sizes, reason)
        result.append(tuple(taken))
    return tuple(result) if not left else _fixed(shape, sizes, reason)


def _fixed(shape: Shape, sizes: Sequence[Size], reason: Reason) -> Shape:
    """A view that mixes axes: all of them are fixed."""
    for dims in shape:
        fix(dims, reason)
    return tuple(new(s, reason) for s in sizes)


# -- dimensions after a removal


def kept(dims: Dims, left: Mapping[Axis, Kept]) -> Kept:
    """Mask of the remaining elements of a dimension, from the masks `left` of its units, without dynamic axes."""
    mask = np.ones(1, np.bool_)
    for axis in map(find, dims):
        if not axis.size.free:
            mask = np.logical_and.outer(mask, _kept(axis, left)).reshape(-1)
    return mask


def _kept(axis: Axis, left: Mapping[Axis, Kept]) -> Kept:
    if axis.form == "plain":
        return left.get(axis, np.ones(axis.size.count, np.bool_))
    if axis.form == "product":
        return kept(axis.parts, left)
    return np.concatenate([kept((p,), left) for p in axis.parts])


def numbers(dims: Dims, axis: Axis) -> NDArray[np.int64]:
    """For each element of a dimension the index of its unit of `axis`, −1 for none."""
    indices = np.full(1, -1)
    for part in map(find, dims):
        if not part.size.free:
            inner = _numbers(part, axis)
            indices = np.where(indices[:, None] >= 0, indices[:, None], inner[None, :]).reshape(-1)
    return indices


def _numbers(part: Axis, axis: Axis) -> NDArray[np.int64]:
    if part.form == "plain":
        return np.arange(part.size.count) if part is axis else np.full(part.size.count, -1)
    if part.form == "product":
        return numbers(part.parts, axis)
    return np.concatenate([numbers((p,), axis) for p in part.parts])


def new_size(dims: Dims, left: Mapping[Axis, Kept]) -> Size:
    """The size of a dimension after the removal."""
    free = [f for axis in dims for f in find(axis).size.free]
    static = [a for a in map(find, dims) if not a.size.free]
    dynamic = [a.size.count for a in map(find, dims) if a.size.free]
    count = int(kept(tuple(static), left).sum())
    for n in dynamic:
        count *= n
    return Size(count, tuple(sorted(free)))
