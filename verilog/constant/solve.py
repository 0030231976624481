"""Matrix → network of adders: signed digits, columns made from each other along a tree, common pairs shared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product as every

import numpy as np

from espalier.verilog.constant.network import SAVED, Adder, Form, Network, Output, Range, joined, width
from espalier.verilog.constant.sharing import TURNED, add_up, share
from espalier.verilog.numbers.fixed import Codes

TURNS = 4  # of small matrices, whose equal pairs are ranked anew each time
ENDLESS = 40  # adders in a row
LARGE, HUGE = 4000, 12000  # signed digits from which one turn has to do, and from which no tree is tried
FORMS: dict[int, Form] = {1: "a+b", -1: "a-b", TURNED: "b-a"}


def digits(matrix: Codes) -> Codes:
    """Canonical signed digits [..., places]: no two neighbours are other than 0, and there are the fewest."""
    found, rest = [], matrix.copy()
    while rest.any():
        odd = rest & 1
        digit = odd * (2 - (rest & 3))
        found.append(digit)
        rest = (rest - digit) >> 1
    return np.stack(found, axis=-1) if found else np.zeros((*matrix.shape, 1), np.int64)


def count_of(matrix: Codes) -> Codes:
    """How many signed digits each element has."""
    size = np.abs(matrix)
    return np.bitwise_count(size ^ (3 * size)).astype(np.int64)


def least(matrix: Codes, added: Codes) -> int:
    """Adders in a row that matrix · x + added takes where nothing is shared: a sum of n terms needs ⌈log₂ n⌉.

    A row of negative digits alone is taken from one more term, 0.
    """
    place = digits(matrix)
    taken = (place < 0).any(axis=(1, 2)) & ~(place > 0).any(axis=(1, 2)) & (added == 0)
    terms = count_of(matrix).sum(axis=1) + (added != 0) + taken
    return max(((int(n) - 1).bit_length() for n in terms if n), default=0)


def expected(matrix: Codes, span: Range) -> int:
    """About how many bits its adders will add, told without looking for what rows have in common."""
    terms = count_of(matrix).sum(axis=1)
    return int((terms * (width(span) + np.log2(terms + 1))).sum() * SAVED)


def shared(
    matrix: Codes, spans: Sequence[Range], depths: Sequence[int], constants: Codes, limit: int, turn: int
) -> Network:
    """The network of one matrix [outputs, inputs] and what is added to each output."""
    place = digits(matrix)
    odd, low = _odd(constants)
    known = [*sorted(set(odd.tolist()) - {0}), 0]
    rows = [_terms(place[r], len(spans), known, int(odd[r]), int(low[r])) for r in range(len(matrix))]
    sizes = np.array([len(r) for r in rows], np.int64)
    terms = np.zeros((len(rows), int(sizes.max(initial=1)) + 1, 3), np.int64)
    for r, held in enumerate(rows):
        terms[r, : len(held)] = np.array(held, np.int64).reshape(-1, 3)
    first, most = len(spans) + len(known), len(spans) + len(known) + int((sizes + 1).sum())
    held = np.zeros((most, 2), np.int64)
    held[:first] = [*spans, *((c, c) for c in known)]
    deep, made = np.zeros(most, np.int64), np.zeros((most, 4), np.int64)
    deep[: len(spans)] = depths
    limit = max(limit, least_depth(terms, sizes, deep))
    with np.errstate(over="ignore"):  # hashes wrap around, where nothing is compiled too
        count = share(terms, sizes, held, deep, made, first, limit, turn)
        count = add_up(terms, sizes, held, deep, made, count, limit, first - 1)
    return _network(terms, sizes, made[first:count], tuple(spans), known)


def _odd(constants: Codes) -> tuple[Codes, Codes]:
    """Constants as odd numbers and the places that they stand at."""
    low = np.where(constants == 0, 0, np.bitwise_count((constants & -constants) - 1)).astype(np.int64)
    return constants >> low, low


def _terms(place: Codes, inputs: int, known: list[int], odd: int, low: int) -> list[tuple[int, int, int]]:
    found = [(int(i), int(p), int(place[i, p])) for i, p in zip(*np.nonzero(place), strict=True)]
    return [*found, (inputs + known.index(odd), low, 1)] if odd else found


def least_depth(terms: Codes, sizes: Codes, depths: Codes) -> int:
    """Adders in a row that no network of these sums can do without: negative terms only are taken from one more, 0."""
    loads = [
        sum(1 << int(depths[v]) for v in row[:n, 0]) + bool((row[:n, 2] < 0).all())
        for row, n in zip(terms, sizes, strict=True) if n
    ]  # fmt: skip
    return max(((load - 1).bit_length() for load in loads if load), default=0)


def _network(terms: Codes, sizes: Codes, made: Codes, spans: tuple[Range, ...], known: list[int]) -> Network:
    adders = [Adder(int(i), int(j), int(d), FORMS[int(s)]) for i, j, d, s in made]
    ends = [(int(t[0, 0]), int(t[0, 1]), int(t[0, 2])) if n else (-1, 0, 1) for t, n in zip(terms, sizes, strict=True)]
    first = len(spans) + len(known)
    negative = {v for v, _, sign in ends if sign < 0}
    other = {v: first + len(adders) + k for k, v in enumerate(sorted(negative))}
    adders += [_negated(v, first, adders) for v in sorted(negative)]
    outputs = tuple(Output(other[v] if s < 0 else v, p) for v, p, s in ends)
    return used(Network(spans, tuple(known), tuple(adders), outputs))


def _negated(value: int, first: int, adders: list[Adder]) -> Adder:
    """What gives a value with the other sign: a difference the other way round, or 0 less the value."""
    made = adders[value - first] if value >= first else None
    if made is not None and made.form == "a-b":
        return Adder(made.a, made.b, made.shift, "b-a")
    return Adder(first - 1, value, 0, "a-b")


def used(network: Network) -> Network:
    """Without the constants and adders that nothing reads."""
    wanted = {*range(-1, len(network.inputs)), *(o.value for o in network.outputs)}
    for k in range(len(network.adders) - 1, -1, -1):
        if network.first + k in wanted:
            wanted |= {network.adders[k].a, network.adders[k].b}
    number = {v: n - 1 for n, v in enumerate(sorted(wanted))}
    constants = tuple(c for v, c in enumerate(network.constants, len(network.inputs)) if v in wanted)
    kept = tuple(
        Adder(number[adder.a], number[adder.b], adder.shift, adder.form)
        for v, adder in enumerate(network.adders, network.first) if v in wanted
    )  # fmt: skip
    return Network(network.inputs, constants, kept, tuple(Output(number[o.value], o.shift) for o in network.outputs))


def parts(matrix: Codes, deep: int) -> tuple[Codes, Codes]:
    """matrix = second @ first: each row is made from another one, its difference having fewer digits than itself.

    A tree from nothing to all rows, grown by the nearest row; `deep`: edges on its longest way.
    """
    rows = len(matrix)
    own = count_of(matrix).sum(axis=1)
    minus, plus = (count_of(matrix[:, None] + s * matrix[None]).sum(axis=2) + 1 for s in (-1, 1))
    near, parent, sign = own.copy(), np.full(rows, -1), np.ones(rows, np.int64)
    level, open_ = np.ones(rows, np.int64), np.ones(rows, bool)
    first, second = np.zeros_like(matrix), np.zeros((rows, rows), np.int64)
    for _ in range(rows):
        row = int(np.argmin(np.where(open_, near, np.iinfo(np.int64).max)))
        open_[row] = False
        up = int(parent[row])
        first[row] = matrix[row] - sign[row] * matrix[up] if up >= 0 else matrix[row]
        second[row, row] = first[row].any()  # a row like its parent adds 0, and no value holds that
        if up >= 0:
            second[row] += sign[row] * second[up]
        if level[row] < deep:
            for s, far in ((1, minus[row]), (-1, plus[row])):
                better = open_ & (far < near)
                near[better], parent[better], sign[better], level[better] = far[better], row, s, level[row] + 1
    return first, second


def solved(matrix: Codes, span: Range, constants: Codes) -> Network:
    """As `solve`, of inputs that all keep to one range; kept for the next time."""
    return _kept(matrix.astype("<i8").tobytes(), matrix.shape, span, constants.astype("<i8").tobytes())


@lru_cache(maxsize=64)
def _kept(matrix: bytes, shape: tuple[int, int], span: Range, constants: bytes) -> Network:
    codes = np.frombuffer(matrix, "<i8").reshape(shape).astype(np.int64)
    return solve(codes, [span] * shape[1], np.frombuffer(constants, "<i8").astype(np.int64))


def solve(matrix: Codes, spans: Sequence[Range], constants: Codes | None = None, slack: int = 1) -> Network:
    """The cheapest network found for matrix [outputs, inputs] · x + constants; x within `spans`.

    `slack`: adders in a row more than `least`, where that saves some; below 0: any number.
    """
    added = np.zeros(len(matrix), np.int64) if constants is None else constants
    terms = count_of(matrix).sum() + (added != 0).sum()
    limit = least(matrix, added) + slack if slack >= 0 else ENDLESS
    turns = range(TURNS if terms < LARGE else 1)
    found = [shared(matrix, spans, [0] * len(spans), added, limit, turn) for turn in turns]
    if terms < HUGE:
        found += [_apart(matrix, spans, added, limit, *p) for p in every(_depths(len(matrix)), turns)]
    return min((n for n in found if n.depth <= limit), key=lambda n: (n.bits, n.depth))


def _apart(matrix: Codes, spans: Sequence[Range], added: Codes, limit: int, deep: int, turn: int) -> Network:
    """By way of differences of rows."""
    first, second = parts(matrix, deep)
    none, early = np.zeros_like(added), max(limit - (deep - 1).bit_length(), 0)
    begun = shared(first, spans, [0] * len(spans), none, early, turn)
    held, down = begun.ranges(), begun.depths()
    ends = [_times(held[o.value], o.shift) if o.value >= 0 else (0, 0) for o in begun.outputs]
    after = [down[o.value] if o.value >= 0 else 0 for o in begun.outputs]
    return joined(begun, shared(second, ends, after, added, limit, turn))


def _times(span: Range, shift: int) -> Range:
    return span[0] << shift, span[1] << shift


def _depths(rows: int) -> tuple[int, ...]:
    """Of the trees that are tried."""
    return tuple(d for d in (2, 4, 8, 64) if d < 2 * rows)
