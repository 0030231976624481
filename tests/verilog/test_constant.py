"""Networks of adders for constant matrices: exact, as deep as they may be, and cheaper than without sharing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from espalier.verilog.constant.network import Adder, Network, Output, width
from espalier.verilog.constant.pipeline import pipelined
from espalier.verilog.constant.solve import (
    count_of,
    decomposed,
    digits,
    expected_bits,
    shared_network,
    solve,
    solve_cached,
)

Case = tuple[np.ndarray, list[tuple[int, int]], np.ndarray, np.random.Generator]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A matrix, the ranges of its inputs, what is added to its outputs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    outputs, inputs, bits = draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(st.integers(1, 8))
    matrix = rng.integers(-(1 << bits), (1 << bits) + 1, (outputs, inputs))
    matrix = matrix * (rng.random(matrix.shape) < draw(st.sampled_from((0.2, 0.6, 1.0))))
    lows = rng.integers(-200, 100, inputs)
    spans = [(int(low), int(low + rng.integers(1, 300))) for low in lows]
    return matrix, spans, rng.integers(-500, 500, outputs) * draw(st.integers(0, 1)), rng


def alike(case: Case) -> Case:
    """The same with rows that repeat others, turned or not."""
    matrix, spans, constants, rng = case
    rows = rng.integers(0, len(matrix), len(matrix))
    return matrix[rows] * rng.choice((-1, 1), (len(rows), 1)), spans, constants, rng


def one(*rows: list[int], constants: tuple[int, ...] = ()) -> Case:
    """A matrix that was found once, of inputs that are all alike."""
    matrix, rng = np.array(rows), np.random.default_rng(0)
    return matrix, [(-100, 100)] * matrix.shape[1], np.array(constants or [0] * len(rows)), rng


def inside(spans: list[tuple[int, int]], rng: np.random.Generator) -> np.ndarray:
    """Inputs within their ranges, the ends among them."""
    low, high = np.array(spans).T
    return np.concatenate([low[None], high[None], rng.integers(low, high + 1, (20, len(spans)))])


def plain(matrix: np.ndarray) -> int:
    """Adders where every signed digit is added."""
    return int(np.maximum(count_of(matrix).sum(axis=1) - 1, 0).sum())


@pytest.mark.slow
@settings(max_examples=60)
@given(cases() | cases().map(alike), st.sampled_from((0, 1, -1)))
@example(one([-1], [4], [7], [5], [7], constants=(32,) * 5), 1)
@example(one([5, 6], [-5, -6]), 1)
def test_computes_the_matrix(case: Case, slack: int) -> None:
    matrix, spans, constants, rng = case
    made = solve(matrix, spans, constants, slack)
    x = inside(spans, rng)
    assert_array_equal(made.run(x), x @ matrix.T + constants)
    low, high = (np.array([r[k] for r in made.ranges()]) for k in (0, 1))
    for k, out in enumerate(made.outputs):
        if out.value >= 0:
            values = made.run(x)[:, k] >> out.shift
            assert low[out.value] <= values.min()
            assert values.max() <= high[out.value]


@pytest.mark.slow
@settings(max_examples=60)
@given(cases() | cases().map(alike), st.sampled_from((0, 1)))
@example(one([0, 3, 0, -4], [0, 3, 4, -2]), 0)
@example(one([0, -2, 3], [1, -2, -3]), 0)  # half of the second row's digits, shared, would leave it negative
@example(one([-6, -8, 0, 5], [3, -3, 7, 3], [5, 0, 8, 0]), 0)
@example(one([-1, -1, -1, -1], [1, 1, 1, 1]), 0)
@example(one([-1, -2, -4], [1, 0, -1], constants=(-7, 0)), 0)
def test_no_way_is_longer_than_it_may_be(case: Case, slack: int) -> None:
    """A row of n signed digits takes ⌈log₂ n⌉ adders in a row; one of negative digits is taken from 0, a term more."""
    matrix, spans, constants, _ = case
    terms = count_of(matrix).sum(axis=1) + (constants != 0)
    signs = digits(matrix).reshape(len(matrix), -1)
    terms += (signs.min(axis=1) < 0) & (signs.max(axis=1) <= 0) & (constants == 0)
    made = solve(matrix, spans, constants, slack)
    assert made.depth <= max((math.ceil(math.log2(n)) for n in terms if n), default=0) + slack


@given(st.integers(-(2**40), 2**40))
def test_digits_are_the_fewest(number: int) -> None:
    found = digits(np.array([number]))[0]
    assert sum(int(d) << k for k, d in enumerate(found)) == number
    assert not (found[1:] * found[:-1]).any()
    assert (found != 0).sum() == count_of(np.array([number]))[0]


@settings(max_examples=30)
@given(cases() | cases().map(alike), st.sampled_from((1, 2, 4, 64)))
def test_rows_are_made_from_each_other(case: Case, deep: int) -> None:
    matrix = case[0]
    first, second = decomposed(matrix, deep)
    assert_array_equal(second @ first, matrix)
    assert (np.abs(second).sum(axis=1) <= deep).all()
    assert plain(first) + (np.abs(second).sum(axis=1) > 1).sum() <= plain(matrix) + len(matrix)


def test_nothing_is_not_a_value() -> None:
    """A row that repeats another, turned or not, differs from it by 0: no value holds that, so none may be read."""
    first, second = decomposed(np.array([[5], [7], [5], [-7], [0]]), 4)
    assert not second[:, ~first.any(axis=1)].any()
    with pytest.raises(ValueError, match="reads -1 and 0"):
        Network(((0, 1),), (), (Adder(-1, 0, 0, "a+b"),), (Output(1),))


def test_sharing_saves() -> None:
    rng = np.random.default_rng(0)
    matrix, spans = rng.integers(-128, 128, (16, 16)), [(-128, 127)] * 16
    made = solve(matrix, spans)
    assert len(made.adders) < 0.65 * plain(matrix)
    assert made.bits < 4700  # da4ml's network takes 4577 by this measure, for another matrix of this size
    assert abs(expected_bits(matrix, (-128, 127)) - made.bits) < 0.3 * made.bits


def test_equal_rows_are_made_once() -> None:
    matrix = np.array([[3, 5, 7], [3, 5, 7], [6, 10, 14], [-3, -5, -7]])
    one = solve(matrix[:1], [(0, 15)] * 3)
    made = solve(matrix, [(0, 15)] * 3)
    assert len(made.adders) <= len(one.adders) + 1  # the negative row
    x = inside([(0, 15)] * 3, np.random.default_rng(0))
    assert_array_equal(made.run(x), x @ matrix.T)


def test_what_lies_side_by_side_costs_nothing() -> None:
    made = solve(np.array([[1, 16]]), [(0, 15)] * 2)
    assert (len(made.adders), made.bits) == (1, 0)


def test_equal_matrices_give_equal_networks() -> None:
    rng = np.random.default_rng(3)
    matrix, none = rng.integers(-31, 32, (12, 9)), np.zeros(12, np.int64)
    assert solve_cached(matrix, (-16, 15), none) is solve_cached(matrix.copy(), (-16, 15), none.copy())
    assert solve(matrix, [(-16, 15)] * 9) == solve(matrix, [(-16, 15)] * 9)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_registers_are_never_further_apart(every: int) -> None:
    rng = np.random.default_rng(4)
    made: Network = shared_network(rng.integers(-31, 32, (6, 7)), [(-8, 7)] * 7, [0] * 7, np.zeros(6, np.int64), 9, 0)
    where, depths = pipelined(made, every), made.depths()
    levels = {v: depths[v] - every * where.stage[v] for v in range(len(depths))}
    assert max(levels.values()) <= every
    for k, adder in enumerate(made.adders):
        for value in {adder.a, adder.b} - set(range(len(made.inputs), made.first)):  # constants are everywhere
            assert where.stage[value] <= where.stage[made.first + k] <= where.last[value]
    assert where.stages == made.depth // every + 1
    assert width((-8, 7)) == 4
