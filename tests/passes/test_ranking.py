"""The ranking behind pruning is that of a stable sort over all parts, whatever the sample says."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from espalier.passes import ranking
from espalier.passes.ranking import is_finite, keep_largest

Floats = NDArray[np.float32]


def sorted_masks(parts: list[Floats], drop: int) -> list[NDArray[np.bool_]]:
    """The definition: the first `drop` of a stable sort of all magnitudes go."""
    every = np.abs(np.concatenate(parts))
    keep = np.ones(every.size, bool)
    keep[np.argsort(every, kind="stable")[:drop]] = False
    return np.split(keep, np.cumsum([p.size for p in parts])[:-1])


def agree(parts: list[Floats], drop: int) -> None:
    found = keep_largest(parts, drop)
    for part, (bits, zeros), want in zip(parts, found, sorted_masks(parts, drop), strict=True):
        assert np.array_equal(bits, np.packbits(want)) and zeros == part.size - want.sum()


few = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-45, 3e38])


@given(st.lists(st.lists(few, max_size=40), min_size=1, max_size=4), st.floats(0, 1))
def test_small_parts_with_many_ties(values: list[list[float]], share: float) -> None:
    parts = [np.array(v, np.float32) for v in values]
    agree(parts, round(share * sum(p.size for p in parts)))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-6, 0.003, 0.5, 0.9, 0.999999, 1.0]), st.booleans())
def test_parts_that_are_sampled(seed: int, share: float, rounded: bool) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 200_000, 4)
    parts = [(random.standard_normal(n) * random.uniform(0.01, 2)).astype(np.float32) for n in (*sizes, 250_001)]
    agree([np.round(p, 1) for p in parts] if rounded else parts, round(share * sum(p.size for p in parts)))


@pytest.mark.parametrize("drop", [1, 250_000, 499_999, 500_000, 500_001, 999_999])
def test_half_of_all_equal(drop: int) -> None:
    values = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    values[::2] = 0
    agree([values[:300_000], values[300_000:]], drop)


def test_a_sample_that_misleads_costs_time_and_nothing_else() -> None:
    values = np.full(1_000_000, 5, np.float32)
    values[:: 1_000_000 // ranking._SAMPLE | 1] = 0  # just what is sampled
    bracket = ranking._bracket([values], 500_000)
    assert bracket[1] < 5
    agree([values], 500_000)


def test_the_bracket_is_narrow_and_the_weights_are_not_copied() -> None:
    values = np.random.default_rng(1).standard_normal(4_000_000).astype(np.float32)
    low, high = ranking._bracket([values], 2_000_000)
    assert 0 < np.mean((np.abs(values) >= low) & (np.abs(values) <= high)) < 0.03
    tracemalloc.start()
    try:
        keep_largest([values], 2_000_000)
        assert tracemalloc.get_traced_memory()[1] < values.nbytes / 3
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_finite(bad: float) -> None:
    assert is_finite(np.empty(0, np.float32)) and is_finite(np.float32([-3e38, 3e38]))
    assert not is_finite(np.float32([1, bad, 2]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(few, max_size=40), min_size=1, max_size=4), st.floats(0, 1))
def test_signed_values_go_from_the_least(values: list[list[float]], share: float) -> None:
    parts = [np.array(v, np.float32) for v in values]
    drop = round(share * sum(p.size for p in parts))
    keep = np.ones(sum(p.size for p in parts), bool)
    keep[np.argsort(np.concatenate(parts), kind="stable")[:drop]] = False
    wanted = np.split(keep, np.cumsum([p.size for p in parts])[:-1])
    for (bits, zeros), want in zip(keep_largest(parts, drop, signed=True), wanted, strict=True):
        assert np.array_equal(bits, np.packbits(want)) and zeros == want.size - want.sum()


def test_many_signed_values_are_bracketed() -> None:
    values = np.random.default_rng(2).standard_normal(1_000_000).astype(np.float32)
    for drop in (3, 400_000, 999_990):
        ((bits, zeros),) = keep_largest([values], drop, signed=True)
        limit = np.partition(values, drop)[drop]
        assert zeros == drop and np.array_equal(np.unpackbits(bits).astype(bool), values >= limit)
