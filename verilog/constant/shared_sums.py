"""Common subexpression elimination in sums of terms ±value·2^place, then the sums of the remaining terms.

Compiled where numba is installed. A pair is encoded as a key: value i, value j, the distance d of their places and the
product s of their signs; it gives the value i + s·j·2^d. Pairs are replaced greedily by the bits that they save.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from espalier.verilog.numbers.compiled import njit

NUMBER, FAR = 24, 7  # bits of a value's number and of a distance in a key
NONE = -1
FIRST = 1 << 12  # initial size of the hash table of pairs
REVERSED = 2  # in place of s: j·2^d − i


@njit(cache=True)
def _bits(low: int, high: int) -> int:
    """Width of the narrowest format of a range."""
    if low == 0 and high == 0:
        return 0
    largest = max(high, -low - 1)
    count = 1 if low < 0 else 0
    while largest > 0:
        largest >>= 1
        count += 1
    return count


@njit(cache=True)
def _span(spans: Any, i: int, j: int, d: int, s: int) -> Any:
    """The range of i + s·j·2^d."""
    if s > 0:
        return spans[i, 0] + (spans[j, 0] << d), spans[i, 1] + (spans[j, 1] << d)
    return spans[i, 0] - (spans[j, 1] << d), spans[i, 1] - (spans[j, 0] << d)


@njit(cache=True)
def _cost(spans: Any, i: int, j: int, d: int, s: int) -> int:
    """Width of the adder: bits below the shifted operand pass through."""
    if s > 0 and spans[i, 0] >= 0 and spans[i, 1] < (1 << d):
        return 0
    low, high = _span(spans, i, j, d, s)
    return max(_bits(low, high) - d, 0)


@njit(cache=True)
def _overlap(spans: Any, i: int, j: int, d: int) -> int:
    """Bit positions that both operands cover."""
    return max(min(_bits(spans[i, 0], spans[i, 1]) - d, _bits(spans[j, 0], spans[j, 1])), 0)


@njit(cache=True)
def _key(first: Any, second: Any) -> int:
    """Key of two terms (value, place, sign), ordered by place, then by value number."""
    v, p, w, q = first[0], first[1], second[0], second[1]
    if p > q or (p == q and v > w):
        v, p, w, q = w, q, v, p
    return (((v << NUMBER) | w) << (FAR + 1)) | ((q - p) << 1) | (1 if first[2] == second[2] else 0)


@njit(cache=True)
def _split(key: int) -> Any:
    """i, j, d, s of a key."""
    mask = (1 << NUMBER) - 1
    return (key >> (FAR + 1 + NUMBER), (key >> (FAR + 1)) & mask, (key >> 1) & ((1 << FAR) - 1), 1 if key & 1 else -1)


@njit(cache=True)
def _slot(keys: Any, key: int) -> int:
    """Slot of a key in the hash table, or the free slot for it (linear probing)."""
    mask = len(keys) - 1
    at = ((key * 0x1E3779B97F4A7C15) >> 20) & mask
    while keys[at] not in (NONE, key):
        at = (at + 1) & mask
    return at


@njit(cache=True)
def _count(table: Any, key: int, by: int) -> None:
    """Change the count of a pair. `table`: keys, counts, worths, slots of repeated pairs, sizes."""
    keys, counts, worths, often, sizes = table
    at = _slot(keys, key)
    if keys[at] == NONE:
        if by < 0:
            return
        keys[at] = key
        sizes[0] += 1
    counts[at] = max(counts[at] + by, 0)
    if counts[at] >= 2 and worths[at] == 0.0:
        worths[at] = NONE  # computed when needed
        often[sizes[1]] = at
        sizes[1] += 1


@njit(cache=True)
def _with_capacity(table: Any, extra: int) -> Any:
    """The table with capacity for `extra` more keys; growing it drops pairs with a count of 0."""
    keys, counts, sizes = table[0], table[1], table[4]
    if 2 * (sizes[0] + extra) <= len(keys):
        return table
    size = FIRST
    while size < 4 * ((counts > 0).sum() + extra):
        size *= 2
    grown = (np.full(size, NONE, np.int64), np.zeros(size, np.int32), np.zeros(size, np.float64),
             np.zeros(size, np.int64), np.zeros(2, np.int64))  # fmt: skip
    for k in range(len(keys)):
        if keys[k] != NONE and counts[k] > 0:
            _count(grown, keys[k], counts[k])
    return grown


@njit(cache=True)
def _saving(spans: Any, depths: Any, key: int, seed: int) -> float:
    """Bits saved by an occurrence of a pair: the overlap of its operands. Ties: the smaller depth, or a random
    preference in later turns."""
    i, j, d, _ = _split(key)
    chance = (((key ^ (seed * 0x5851F42D4C957F)) * 0x1E3779B97F4A7C15) >> 40) & 0xFFFF
    return _overlap(spans, i, j, d) + 0.01 + (1e-6 * chance if seed else -1e-5 * max(depths[i], depths[j]))


@njit(cache=True)
def _best(table: Any, spans: Any, depths: Any, seed: int) -> int:
    """The key with the largest saving; NONE if no pair occurs twice."""
    keys, counts, worths, often, sizes = table
    best, largest, n = NONE, 0.0, 0
    while n < sizes[1]:
        at = often[n]
        if counts[at] < 2:
            worths[at] = 0.0
            sizes[1] -= 1
            often[n] = often[sizes[1]]
            continue
        if worths[at] < 0:
            worths[at] = _saving(spans, depths, keys[at], seed)
        saved = (counts[at] - 1) * worths[at]
        if saved > largest:
            best, largest = keys[at], saved
        n += 1
    return best


@njit(cache=True)
def _hits(terms: Any, sizes: Any, loads: Any, limit: float, key: int, depths: Any, hits: Any) -> int:
    """Find disjoint occurrences of a pair as (row, term, term), except where a row would exceed the depth limit.

    A row left with only negative terms needs room for the 0 that they are subtracted from.
    """
    i, j, d, s = _split(key)
    increase = 2.0 ** (max(depths[i], depths[j]) + 1) - 2.0 ** depths[i] - 2.0 ** depths[j]
    count = 0
    for r in range(len(sizes)):
        load, first, plus = loads[r], count, _positive(terms, sizes[r], r)
        for a in range(sizes[r]):
            if terms[r, a, 0] != i or load + increase > limit or _is_used(hits, first, count, a):
                continue
            for b in range(sizes[r]):
                matches = terms[r, b, 0] == j and terms[r, b, 1] - terms[r, a, 1] == d and a != b
                remaining = plus - (terms[r, b, 2] > 0)
                matches = matches and (remaining > 0 or load + increase + 1.0 <= limit)
                if matches and terms[r, a, 2] * terms[r, b, 2] == s and not _is_used(hits, first, count, b):
                    hits[count, 0], hits[count, 1], hits[count, 2] = r, a, b
                    count += 1
                    load += increase
                    plus = remaining
                    break
    return count


@njit(cache=True)
def _positive(terms: Any, size: int, r: int) -> int:
    """Number of positive terms of a row."""
    count = 0
    for a in range(size):
        count += 1 if terms[r, a, 2] > 0 else 0
    return count


@njit(cache=True)
def _is_used(hits: Any, first: int, count: int, term: int) -> bool:
    """Whether a hit of this row already uses the term."""
    for n in range(first, count):  # noqa: SIM110 - numba compiles no generators
        if hits[n, 1] == term or hits[n, 2] == term:
            return True
    return False


@njit(cache=True)
def _count_pairs(table: Any, terms: Any, r: int, size: int, a: int, by: int) -> None:
    """Change the counts of the pairs of one term with all other terms of its row."""
    for b in range(size):
        if b != a and terms[r, b, 2] != 0:
            _count(table, _key(terms[r, a], terms[r, b]), by)


@njit(cache=True)
def _replace(table: Any, terms: Any, size: int, hit: Any, value: int) -> None:
    """Merge two terms of a row at the place and with the sign of the lower one; a sign of 0 marks the other deleted."""
    r, a, b = hit
    _count_pairs(table, terms, r, size, a, -1)
    sign = terms[r, a, 2]
    terms[r, a, 2] = 0
    _count_pairs(table, terms, r, size, b, -1)
    terms[r, b, 2] = 0
    terms[r, a, 0], terms[r, a, 2] = value, sign
    _count_pairs(table, terms, r, size, a, 1)


@njit(cache=True)
def _compact(terms: Any, sizes: Any) -> None:
    """Remove deleted terms."""
    for r in range(len(sizes)):
        count = 0
        for a in range(sizes[r]):
            if terms[r, a, 2] != 0:
                terms[r, count] = terms[r, a]
                count += 1
        sizes[r] = count


@njit(cache=True)
def _add_value(value: int, pair: Any, spans: Any, depths: Any, adders: Any) -> None:
    """Store a new value's range, depth and adder."""
    i, j, d, s = pair
    spans[value] = _span(spans, i, j, d, s)
    depths[value] = max(depths[i], depths[j]) + 1
    adders[value] = i, j, d, s


@njit(cache=True)
def replace_pairs(
    terms: Any, sizes: Any, spans: Any, depths: Any, adders: Any, count: int, limit: int, seed: int
) -> int:
    """Replace pairs in place until none occurs twice; returns the new number of values.

    `terms` [rows, capacity, 3]: value, place, sign of the first `sizes` terms of each row; `spans`, `depths`, `adders`
    (i, j, d, s) by value, the first `count` filled. `limit`: depth in adders. `seed`: breaks ties.
    """
    table = (np.full(FIRST, NONE, np.int64), np.zeros(FIRST, np.int32), np.zeros(FIRST, np.float64),
             np.zeros(FIRST, np.int64), np.zeros(2, np.int64))  # fmt: skip
    for r in range(len(sizes)):
        for a in range(sizes[r]):
            table = _with_capacity(table, terms.shape[1])
            _count_pairs(table, terms, r, a, a, 1)
    load_limit, hits = 2.0**limit, np.zeros((int(sizes.sum()) + 1, 3), np.int64)
    loads = _loads(terms, sizes, depths)
    while True:
        key = _best(table, spans, depths, seed)
        if key == NONE:
            return count
        hit_count = _hits(terms, sizes, loads, load_limit, key, depths, hits)
        if hit_count < 2:  # occurrences overlap or would be too deep: ignore the pair from now on
            table[1][_slot(table[0], key)] = 0
            continue
        _add_value(count, _split(key), spans, depths, adders)
        for n in range(hit_count):
            table = _with_capacity(table, terms.shape[1])
            _replace(table, terms, sizes[hits[n, 0]], hits[n], count)
        _compact(terms, sizes)
        loads = _loads(terms, sizes, depths)
        count += 1


@njit(cache=True)
def _loads(terms: Any, sizes: Any, depths: Any) -> Any:
    """Σ 2^depth of each row's terms: the row fits a depth limit if this is at most 2^limit."""
    loads = np.zeros(len(sizes), np.float64)
    for r in range(len(sizes)):
        for a in range(sizes[r]):
            loads[r] += 2.0 ** depths[terms[r, a, 0]]
    return loads


@njit(cache=True)
def add_up(terms: Any, sizes: Any, spans: Any, depths: Any, adders: Any, count: int, limit: int, zero: int) -> int:
    """Sum the terms of each row, the cheapest two first within the depth limit; returns the new number of values.

    `zero`: the value 0, from which rows of several only negative terms are subtracted. A single term stays as it is.
    """
    load_limit = 2.0**limit
    for r in range(len(sizes)):
        if sizes[r] > 1 and _positive(terms, sizes[r], r) == 0:
            _from_zero(terms, sizes, r, depths, zero)
        while sizes[r] > 1:
            a, b = _cheapest(terms, sizes[r], r, spans, depths, load_limit)
            i, j, d, s = _split(_key(terms[r, a], terms[r, b]))
            low = a if terms[r, a, 0] == i and terms[r, a, 1] <= terms[r, b, 1] else b
            high = b if low == a else a
            _add_value(count, (i, j, d, s), spans, depths, adders)
            sign = terms[r, low, 2]
            if sign < 0 and s < 0 and _positive(terms, sizes[r], r) == 1:  # keep one positive term in the row
                adders[count, 3], sign = REVERSED, 1
                spans[count] = -spans[count, 1], -spans[count, 0]
            terms[r, low, 0], terms[r, low, 2] = count, sign
            terms[r, high] = terms[r, sizes[r] - 1]
            sizes[r] -= 1
            count += 1
    return count


@njit(cache=True)
def _from_zero(terms: Any, sizes: Any, r: int, depths: Any, zero: int) -> None:
    """Append the term 0, at the place of the term of least depth."""
    first = 0
    for a in range(sizes[r]):
        if depths[terms[r, a, 0]] < depths[terms[r, first, 0]]:
            first = a
    terms[r, sizes[r]] = zero, terms[r, first, 1], 1
    sizes[r] += 1


@njit(cache=True)
def _cheapest(terms: Any, size: int, r: int, spans: Any, depths: Any, limit: float) -> Any:
    """The two terms of a row whose sum costs least, preferring pairs that keep the row within the depth limit."""
    load = 0.0
    for a in range(size):
        load += 2.0 ** depths[terms[r, a, 0]]
    best, lowest_cost = (0, 1), 1e300
    for a in range(size):
        for b in range(a):
            i, j, d, s = _split(_key(terms[r, a], terms[r, b]))
            deep = 2.0 ** (max(depths[i], depths[j]) + 1)
            over = load + deep - 2.0 ** depths[i] - 2.0 ** depths[j] > limit
            cost = _cost(spans, i, j, d, s) + 1e-3 * deep + (1e9 * deep if over else 0.0)
            if cost < lowest_cost:
                best, lowest_cost = (a, b), cost
    return best
