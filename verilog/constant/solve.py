"""Matrix → network of adders: signed digits, rows derived from other rows along a tree, common pairs shared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product as every

import numpy as np

from espalier.verilog.constant.network import SAVED, Adder, Form, Network, Output, Range, composed, width
from espalier.verilog.constant.shared_sums import REVERSED, add_up, replace_pairs
from espalier.verilog.numbers.fixed import Codes

TURNS = 4  # attempts for small matrices, with ties broken differently in each
UNLIMITED = 40  # depth limit in adders that never binds
LARGE, HUGE = 4000, 12000  # signed digits from which there is one attempt, and from which no tree is tried
FORMS: dict[int, Form] = {1: "a+b", -1: "a-b", REVERSED: "b-a"}


def digits(matrix: Codes) -> Codes:
    """Canonical signed digits [..., places], lowest first: no two adjacent digits are non-zero."""
    columns, remaining = [], matrix.copy()
    while remaining.any():
        odd = remaining & 1
        digit = odd * (2 - (remaining & 3))
        columns.append(digit)
        remaining = (remaining - digit) >> 1
    return np.stack(columns, axis=-1) if columns else np.zeros((*matrix.shape, 1), np.int64)


def count_of(matrix: Codes) -> Codes:
    """Non-zero signed digits of each element."""
    size = np.abs(matrix)
    return np.bitwise_count(size ^ (3 * size)).astype(np.int64)


def minimum_depth(matrix: Codes, added: Codes) -> int:
    """Depth in adders of matrix · x + added without sharing: ⌈log₂ n⌉ for n terms.

    A row of only negative digits has one more term: it is subtracted from 0.
    """
    signed_digits = digits(matrix)
    negated = (signed_digits < 0).any(axis=(1, 2)) & ~(signed_digits > 0).any(axis=(1, 2)) & (added == 0)
    terms = count_of(matrix).sum(axis=1) + (added != 0) + negated
    return max(((int(n) - 1).bit_length() for n in terms if n), default=0)


def expected_bits(matrix: Codes, span: Range) -> int:
    """Quick estimate of the adder bits, without searching for shared terms."""
    terms = count_of(matrix).sum(axis=1)
    return int((terms * (width(span) + np.log2(terms + 1))).sum() * SAVED)


def shared_network(
    matrix: Codes, spans: Sequence[Range], depths: Sequence[int], constants: Codes, limit: int, seed: int
) -> Network:
    """The network of a matrix [outputs, inputs] and the constant added to each output; `seed`: breaks ties."""
    signed_digits = digits(matrix)
    odd, low = _odd(constants)
    distinct = [*sorted(set(odd.tolist()) - {0}), 0]
    rows = [_terms(signed_digits[r], len(spans), distinct, int(odd[r]), int(low[r])) for r in range(len(matrix))]
    sizes = np.array([len(r) for r in rows], np.int64)
    terms = np.zeros((len(rows), int(sizes.max(initial=1)) + 1, 3), np.int64)
    for r, row in enumerate(rows):
        terms[r, : len(row)] = np.array(row, np.int64).reshape(-1, 3)
    first, capacity = len(spans) + len(distinct), len(spans) + len(distinct) + int((sizes + 1).sum())
    ranges = np.zeros((capacity, 2), np.int64)
    ranges[:first] = [*spans, *((c, c) for c in distinct)]
    deep, adders = np.zeros(capacity, np.int64), np.zeros((capacity, 4), np.int64)
    deep[: len(spans)] = depths
    limit = max(limit, depth_bound(terms, sizes, deep))
    with np.errstate(over="ignore"):  # hashes wrap around; NumPy warns when uncompiled
        count = replace_pairs(terms, sizes, ranges, deep, adders, first, limit, seed)
        count = add_up(terms, sizes, ranges, deep, adders, count, limit, first - 1)
    return _network(terms, sizes, adders[first:count], tuple(spans), distinct)


def _odd(constants: Codes) -> tuple[Codes, Codes]:
    """Constants as odd factors and powers of two."""
    low = np.where(constants == 0, 0, np.bitwise_count((constants & -constants) - 1)).astype(np.int64)
    return constants >> low, low


def _terms(signed_digits: Codes, inputs: int, constants: list[int], odd: int, low: int) -> list[tuple[int, int, int]]:
    terms = [(int(i), int(p), int(signed_digits[i, p])) for i, p in zip(*np.nonzero(signed_digits), strict=True)]
    return [*terms, (inputs + constants.index(odd), low, 1)] if odd else terms


def depth_bound(terms: Codes, sizes: Codes, depths: Codes) -> int:
    """Lower bound of the depth of any network of these sums; only negative terms are subtracted from one more, 0."""
    loads = [
        sum(1 << int(depths[v]) for v in row[:n, 0]) + bool((row[:n, 2] < 0).all())
        for row, n in zip(terms, sizes, strict=True) if n
    ]  # fmt: skip
    return max(((load - 1).bit_length() for load in loads if load), default=0)


def _network(terms: Codes, sizes: Codes, pairs: Codes, spans: tuple[Range, ...], constants: list[int]) -> Network:
    adders = [Adder(int(i), int(j), int(d), FORMS[int(s)]) for i, j, d, s in pairs]
    ends = [(int(t[0, 0]), int(t[0, 1]), int(t[0, 2])) if n else (-1, 0, 1) for t, n in zip(terms, sizes, strict=True)]
    first = len(spans) + len(constants)
    negative = {v for v, _, sign in ends if sign < 0}
    negated = {v: first + len(adders) + k for k, v in enumerate(sorted(negative))}
    adders += [_negated(v, first, adders) for v in sorted(negative)]
    outputs = tuple(Output(negated[v] if s < 0 else v, p) for v, p, s in ends)
    return without_unused(Network(spans, tuple(constants), tuple(adders), outputs))


def _negated(value: int, first: int, adders: list[Adder]) -> Adder:
    """The adder of a negated value: the opposite difference, or 0 minus the value."""
    adder = adders[value - first] if value >= first else None
    if adder is not None and adder.form == "a-b":
        return Adder(adder.a, adder.b, adder.shift, "b-a")
    return Adder(first - 1, value, 0, "a-b")


def without_unused(network: Network) -> Network:
    """Remove the constants and adders that no output depends on."""
    needed = {*range(-1, len(network.inputs)), *(o.value for o in network.outputs)}
    for k in range(len(network.adders) - 1, -1, -1):
        if network.first + k in needed:
            needed |= {network.adders[k].a, network.adders[k].b}
    number = {v: n - 1 for n, v in enumerate(sorted(needed))}
    constants = tuple(c for v, c in enumerate(network.constants, len(network.inputs)) if v in needed)
    adders = tuple(
        Adder(number[adder.a], number[adder.b], adder.shift, adder.form)
        for v, adder in enumerate(network.adders, network.first) if v in needed
    )  # fmt: skip
    return Network(network.inputs, constants, adders, tuple(Output(number[o.value], o.shift) for o in network.outputs))


def decomposed(matrix: Codes, deep: int) -> tuple[Codes, Codes]:
    """Factor matrix = second @ first: each row is another row plus a difference with fewer digits.

    A spanning tree of the rows, grown by the nearest row (Prim); `deep`: its largest depth in edges.
    """
    rows = len(matrix)
    digit_counts = count_of(matrix).sum(axis=1)
    minus, plus = (count_of(matrix[:, None] + s * matrix[None]).sum(axis=2) + 1 for s in (-1, 1))
    distance, parent, sign = digit_counts.copy(), np.full(rows, -1), np.ones(rows, np.int64)
    level, pending = np.ones(rows, np.int64), np.ones(rows, bool)
    first, second = np.zeros_like(matrix), np.zeros((rows, rows), np.int64)
    for _ in range(rows):
        row = int(np.argmin(np.where(pending, distance, np.iinfo(np.int64).max)))
        pending[row] = False
        up = int(parent[row])
        first[row] = matrix[row] - sign[row] * matrix[up] if up >= 0 else matrix[row]
        second[row, row] = first[row].any()  # 0 for a row equal to its parent, whose difference has no value
        if up >= 0:
            second[row] += sign[row] * second[up]
        if level[row] < deep:
            for s, differences in ((1, minus[row]), (-1, plus[row])):
                better = pending & (differences < distance)
                distance[better], parent[better], sign[better], level[better] = (
                    differences[better],
                    row,
                    s,
                    level[row] + 1,
                )
    return first, second


def solve_cached(matrix: Codes, span: Range, constants: Codes) -> Network:
    """`solve` with one range for all inputs; results are cached."""
    return _cached(matrix.astype("<i8").tobytes(), matrix.shape, span, constants.astype("<i8").tobytes())


@lru_cache(maxsize=64)
def _cached(matrix: bytes, shape: tuple[int, int], span: Range, constants: bytes) -> Network:
    codes = np.frombuffer(matrix, "<i8").reshape(shape).astype(np.int64)
    return solve(codes, [span] * shape[1], np.frombuffer(constants, "<i8").astype(np.int64))


def solve(matrix: Codes, spans: Sequence[Range], constants: Codes | None = None, slack: int = 1) -> Network:
    """The cheapest network found for matrix [outputs, inputs] · x + constants; x within `spans`.

    `slack`: depth allowed beyond `minimum_depth`, which may save adders; below 0: unlimited.
    """
    added = np.zeros(len(matrix), np.int64) if constants is None else constants
    terms = count_of(matrix).sum() + (added != 0).sum()
    limit = minimum_depth(matrix, added) + slack if slack >= 0 else UNLIMITED
    seeds = range(TURNS if terms < LARGE else 1)
    networks = [shared_network(matrix, spans, [0] * len(spans), added, limit, seed) for seed in seeds]
    if terms < HUGE:
        networks += [_by_differences(matrix, spans, added, limit, *p) for p in every(_tree_depths(len(matrix)), seeds)]
    return min((n for n in networks if n.depth <= limit), key=lambda n: (n.bits, n.depth))


def _by_differences(matrix: Codes, spans: Sequence[Range], added: Codes, limit: int, deep: int, seed: int) -> Network:
    """Two networks in series: the differences of rows, then the rows."""
    first, second = decomposed(matrix, deep)
    zeros, early = np.zeros_like(added), max(limit - (deep - 1).bit_length(), 0)
    differences = shared_network(first, spans, [0] * len(spans), zeros, early, seed)
    ranges, depths = differences.ranges(), differences.depths()
    ends = [_shifted(ranges[o.value], o.shift) if o.value >= 0 else (0, 0) for o in differences.outputs]
    output_depths = [depths[o.value] if o.value >= 0 else 0 for o in differences.outputs]
    return composed(differences, shared_network(second, ends, output_depths, added, limit, seed))


def _shifted(span: Range, shift: int) -> Range:
    return span[0] << shift, span[1] << shift


def _tree_depths(rows: int) -> tuple[int, ...]:
    """Depths of the trees to try."""
    return tuple(d for d in (2, 4, 8, 64) if d < 2 * rows)
