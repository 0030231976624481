"""Axes as terms: sizes, tying, views, rows, and what is left of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.passes.structure.axes import (
    Axis,
    Reason,
    factors,
    fix,
    kept,
    new,
    new_size,
    numbers,
    pieces,
    row,
    size,
    unify,
    units,
    viewed,
)
from espalier.passes.structure.sizes import ONE, Size, size_of

WHY = Reason("node", "because")


def sizes(*dims: object) -> list[Size]:
    return [size_of(d) for d in dims]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dim", "want"),
    [(6, Size(6)), ("batch", Size(1, ("batch",))), ("2*batch*seq", Size(2, ("batch", "seq"))),
     ("batch**2", Size(1, ("batch", "batch"))), ("seq+1", Size(1, ("seq+1",)))],
)  # fmt: skip
def test_sizes_are_products(dim: object, want: Size) -> None:
    assert size_of(dim) == want  # type: ignore[arg-type]


@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.sampled_from(["batch", "seq", "seq+1"]), max_size=3))
def test_a_quotient_times_its_divisor_is_the_size(a: int, b: int, free: list[str]) -> None:
    whole = Size(a).times(Size(b, tuple(sorted(free))))
    assert whole.over(Size(a)) == Size(b, tuple(sorted(free)))
    assert size_of(whole.dim) == whole


def test_a_view_into_heads_makes_heads_units() -> None:
    (dims,) = (new(Size(12)),)
    heads, inside = viewed((dims,), sizes(3, 4), WHY)
    left = {units(heads).__next__(): np.array([True, False, True])}
    assert kept(dims, left).tolist() == [True] * 4 + [False] * 4 + [True] * 4
    assert size(inside) == Size(4) and new_size(dims, left) == Size(8)


def test_axes_that_are_tied_go_together() -> None:
    one, other = new(Size(6)), new(Size(6))
    unify(one, other, WHY)
    assert list(units(one)) == list(units(other))
    fix(other, WHY)
    assert next(units(one)).fixed == WHY


def test_groupings_that_differ_meet_in_common_factors() -> None:
    one, other = (*new(Size(4)), *new(Size(6))), (*new(Size(2)), *new(Size(12)))
    unify(one, other, WHY)
    assert [a.size.count for a in factors(one)] == [2, 2, 6] == [a.size.count for a in factors(other)]
    assert not any(a.fixed for a in units(one))


def test_groupings_without_common_factors_are_held() -> None:
    one, other = (*new(Size(2)), *new(Size(3))), (*new(Size(3)), *new(Size(2)))
    unify(one, other, WHY)
    assert all(a.fixed for a in (*units(one), *units(other)))


def test_a_row_is_split_in_its_pieces_and_between_them() -> None:
    a, b = new(Size(4)), new(Size(6))
    joined = row([a, b])
    found = pieces(joined, [4, 7], WHY)
    assert found is not None and [size(p).count for p in found] == [4, 3, 3]
    assert list(units(found[0])) == list(units(a)) and len(list(units(b))) == 2


def test_halves_of_one_layer_that_meet_are_one() -> None:
    joint = new(Size(10))
    halves = pieces(joint, [5], WHY)
    assert halves is not None
    unify(halves[0], halves[1], WHY)
    (unit,) = set(units(joint))
    left = {unit: np.array([True, True, False, True, True])}
    assert kept(joint, left).tolist() == [True, True, False, True, True] * 2
    assert numbers(joint, unit).tolist() == [0, 1, 2, 3, 4] * 2


def test_a_row_of_heads_is_viewed_as_heads() -> None:
    """A joint projection of 2 queries, 1 key and 1 value head of 3, viewed as 4 heads."""
    joint = row([new(Size(6)), new(Size(3)), new(Size(3))])
    heads, inside = viewed((joint,), sizes(4, 3), WHY)
    assert size(heads) == Size(4) and len(list(units(inside))) == 1
    assert kept(joint, {next(units(inside)): np.array([True, False, True])}).sum() == 8


def test_a_batch_folded_into_heads() -> None:
    batch, heads = new(Size(1, ("batch",))), new(Size(8))
    folded, inside = viewed((batch, heads), sizes("2*batch", 4), WHY)
    assert size(folded) == Size(2, ("batch",)) and size(inside) == Size(4)
    unit = next(a for a in units(folded) if not a.size.free)
    assert new_size(folded, {unit: np.array([True, False])}).dim == "batch"


def test_a_view_across_axes_holds_them() -> None:
    shape = (new(Size(2)), new(Size(3)))
    viewed(shape, sizes(3, 2), WHY)
    assert all(a.fixed for dims in shape for a in units(dims))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_what_is_kept_is_an_outer_product(counts: list[int], data: st.DataObject) -> None:
    dims = tuple(Axis(Size(n)) for n in counts if n > 1)
    left = {a: np.array(data.draw(st.lists(st.booleans(), min_size=a.size.count, max_size=a.size.count)))
            for a in dims}  # fmt: skip
    want = np.ones(1, bool)
    for axis in dims:
        want = np.kron(want, left[axis]).astype(bool)
    assert kept(dims, left).tolist() == want.tolist()
    assert size(dims).count == len(want) and (dims or size(dims) == ONE)
