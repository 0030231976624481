"""Sums of terms ±value·2^place: pairs that several rows have in common are made once, then what is left is added up.

Compiled where numba is installed. A pair is a key: value i, value j, the distance d of their places, the product s of
their signs; it makes the value i + s·j·2^d. The most saving pair comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from espalier.verilog.numbers.compiled import njit

NUMBER, FAR = 24, 7  # bits of a value's number and of a distance in a key
NONE = -1
FIRST = 1 << 12  # places of the table of pairs at first
TURNED = 2  # in place of s: j·2^d − i


@njit(cache=True)
def _bits(low: int, high: int) -> int:
    """Of the narrowest format that holds a range."""
    if low == 0 and high == 0:
        return 0
    most = max(high, -low - 1)
    count = 1 if low < 0 else 0
    while most > 0:
        most >>= 1
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
    """Bits that are added: those below the higher operand pass through."""
    if s > 0 and spans[i, 0] >= 0 and spans[i, 1] < (1 << d):
        return 0
    low, high = _span(spans, i, j, d, s)
    return max(_bits(low, high) - d, 0)


@njit(cache=True)
def _overlap(spans: Any, i: int, j: int, d: int) -> int:
    """Bits that both operands have."""
    return max(min(_bits(spans[i, 0], spans[i, 1]) - d, _bits(spans[j, 0], spans[j, 1])), 0)


@njit(cache=True)
def _key(one: Any, other: Any) -> int:
    """Of two terms (value, place, sign): the one at the lower place first, then the lower number."""
    v, p, w, q = one[0], one[1], other[0], other[1]
    if p > q or (p == q and v > w):
        v, p, w, q = w, q, v, p
    return (((v << NUMBER) | w) << (FAR + 1)) | ((q - p) << 1) | (1 if one[2] == other[2] else 0)


@njit(cache=True)
def _split(key: int) -> Any:
    """i, j, d, s of a key."""
    mask = (1 << NUMBER) - 1
    return (key >> (FAR + 1 + NUMBER), (key >> (FAR + 1)) & mask, (key >> 1) & ((1 << FAR) - 1), 1 if key & 1 else -1)


@njit(cache=True)
def _place(keys: Any, key: int) -> int:
    """Where a key lies in the table, or would."""
    mask = len(keys) - 1
    at = ((key * 0x1E3779B97F4A7C15) >> 20) & mask
    while keys[at] not in (NONE, key):
        at = (at + 1) & mask
    return at


@njit(cache=True)
def _counted(table: Any, key: int, by: int) -> None:
    """A pair occurs more, or less, often. `table`: keys, counts, worths, places of what occurs often, their number."""
    keys, counts, worths, often, sizes = table
    at = _place(keys, key)
    if keys[at] == NONE:
        if by < 0:
            return
        keys[at] = key
        sizes[0] += 1
    counts[at] = max(counts[at] + by, 0)
    if counts[at] >= 2 and worths[at] == 0.0:
        worths[at] = NONE  # to be found
        often[sizes[1]] = at
        sizes[1] += 1


@njit(cache=True)
def _roomy(table: Any, more: int) -> Any:
    """The table with room for `more` keys; pairs that occur no longer are left out of a larger one."""
    keys, counts, sizes = table[0], table[1], table[4]
    if 2 * (sizes[0] + more) <= len(keys):
        return table
    size = FIRST
    while size < 4 * ((counts > 0).sum() + more):
        size *= 2
    grown = (np.full(size, NONE, np.int64), np.zeros(size, np.int32), np.zeros(size, np.float64),
             np.zeros(size, np.int64), np.zeros(2, np.int64))  # fmt: skip
    for k in range(len(keys)):
        if keys[k] != NONE and counts[k] > 0:
            _counted(grown, keys[k], counts[k])
    return grown


@njit(cache=True)
def _worth(spans: Any, depths: Any, key: int, turn: int) -> float:
    """What one more occurrence of a pair is worth: the bits that its operands share; among equals what is less deep,
    or, in later turns, what chance prefers."""
    i, j, d, _ = _split(key)
    chance = (((key ^ (turn * 0x5851F42D4C957F)) * 0x1E3779B97F4A7C15) >> 40) & 0xFFFF
    return _overlap(spans, i, j, d) + 0.01 + (1e-6 * chance if turn else -1e-5 * max(depths[i], depths[j]))


@njit(cache=True)
def _best(table: Any, spans: Any, depths: Any, turn: int) -> int:
    """The key that saves most; NONE where no pair occurs twice."""
    keys, counts, worths, often, sizes = table
    best, most, n = NONE, 0.0, 0
    while n < sizes[1]:
        at = often[n]
        if counts[at] < 2:
            worths[at] = 0.0
            sizes[1] -= 1
            often[n] = often[sizes[1]]
            continue
        if worths[at] < 0:
            worths[at] = _worth(spans, depths, keys[at], turn)
        saved = (counts[at] - 1) * worths[at]
        if saved > most:
            best, most = keys[at], saved
        n += 1
    return best


@njit(cache=True)
def _hits(terms: Any, sizes: Any, loads: Any, room: float, key: int, depths: Any, hits: Any) -> int:
    """Where a pair occurs, no term twice, as (row, term, term); nowhere a row would get too deep.

    A row of which only negative terms would be left needs room for the 0 that they are taken from.
    """
    i, j, d, s = _split(key)
    more = 2.0 ** (max(depths[i], depths[j]) + 1) - 2.0 ** depths[i] - 2.0 ** depths[j]
    count = 0
    for r in range(len(sizes)):
        load, first, plus = loads[r], count, _positive(terms, sizes[r], r)
        for a in range(sizes[r]):
            if terms[r, a, 0] != i or load + more > room or _taken(hits, first, count, a):
                continue
            for b in range(sizes[r]):
                fits = terms[r, b, 0] == j and terms[r, b, 1] - terms[r, a, 1] == d and a != b
                rest = plus - (terms[r, b, 2] > 0)
                fits = fits and (rest > 0 or load + more + 1.0 <= room)
                if fits and terms[r, a, 2] * terms[r, b, 2] == s and not _taken(hits, first, count, b):
                    hits[count, 0], hits[count, 1], hits[count, 2] = r, a, b
                    count += 1
                    load += more
                    plus = rest
                    break
    return count


@njit(cache=True)
def _positive(terms: Any, size: int, r: int) -> int:
    """How many terms of a row are not taken away."""
    count = 0
    for a in range(size):
        count += 1 if terms[r, a, 2] > 0 else 0
    return count


@njit(cache=True)
def _taken(hits: Any, first: int, count: int, term: int) -> bool:
    """Whether a hit of this row has the term already."""
    for n in range(first, count):  # noqa: SIM110 - numba compiles no generators
        if hits[n, 1] == term or hits[n, 2] == term:
            return True
    return False


@njit(cache=True)
def _with_all(table: Any, terms: Any, r: int, size: int, a: int, by: int) -> None:
    """The pairs of one term of a row with all others that are there."""
    for b in range(size):
        if b != a and terms[r, b, 2] != 0:
            _counted(table, _key(terms[r, a], terms[r, b]), by)


@njit(cache=True)
def _replace(table: Any, terms: Any, size: int, hit: Any, value: int) -> None:
    """Two terms of a row become one, at the place and with the sign of the lower; the other's sign becomes 0."""
    r, a, b = hit
    _with_all(table, terms, r, size, a, -1)
    sign = terms[r, a, 2]
    terms[r, a, 2] = 0
    _with_all(table, terms, r, size, b, -1)
    terms[r, b, 2] = 0
    terms[r, a, 0], terms[r, a, 2] = value, sign
    _with_all(table, terms, r, size, a, 1)


@njit(cache=True)
def _packed(terms: Any, sizes: Any) -> None:
    """Leave out terms without a sign."""
    for r in range(len(sizes)):
        kept = 0
        for a in range(sizes[r]):
            if terms[r, a, 2] != 0:
                terms[r, kept] = terms[r, a]
                kept += 1
        sizes[r] = kept


@njit(cache=True)
def _enter(value: int, pair: Any, spans: Any, depths: Any, made: Any) -> None:
    """A new value."""
    i, j, d, s = pair
    spans[value] = _span(spans, i, j, d, s)
    depths[value] = max(depths[i], depths[j]) + 1
    made[value] = i, j, d, s


@njit(cache=True)
def share(terms: Any, sizes: Any, spans: Any, depths: Any, made: Any, count: int, limit: int, turn: int) -> int:
    """Replace pairs until none occurs twice; the number of values then.

    `terms` [rows, most, 3]: value, place, sign of the first `sizes` of each row; `spans`, `depths`, `made` (i, j, d, s)
    by value, `count` of them known; all change. `limit`: adders on the longest way. `turn`: another one prefers others
    among equal pairs.
    """
    table = (np.full(FIRST, NONE, np.int64), np.zeros(FIRST, np.int32), np.zeros(FIRST, np.float64),
             np.zeros(FIRST, np.int64), np.zeros(2, np.int64))  # fmt: skip
    for r in range(len(sizes)):
        for a in range(sizes[r]):
            table = _roomy(table, terms.shape[1])
            _with_all(table, terms, r, a, a, 1)
    room, hits = 2.0**limit, np.zeros((int(sizes.sum()) + 1, 3), np.int64)
    loads = _loads(terms, sizes, depths)
    while True:
        key = _best(table, spans, depths, turn)
        if key == NONE:
            return count
        found = _hits(terms, sizes, loads, room, key, depths, hits)
        if found < 2:  # what overlaps with itself, or would be too deep: it is not looked at again
            table[1][_place(table[0], key)] = 0
            continue
        _enter(count, _split(key), spans, depths, made)
        for n in range(found):
            table = _roomy(table, terms.shape[1])
            _replace(table, terms, sizes[hits[n, 0]], hits[n], count)
        _packed(terms, sizes)
        loads = _loads(terms, sizes, depths)
        count += 1


@njit(cache=True)
def _loads(terms: Any, sizes: Any, depths: Any) -> Any:
    """Σ 2^depth of each row's terms: they fit under a limit of adders where it is at most 2^limit."""
    found = np.zeros(len(sizes), np.float64)
    for r in range(len(sizes)):
        for a in range(sizes[r]):
            found[r] += 2.0 ** depths[terms[r, a, 0]]
    return found


@njit(cache=True)
def add_up(terms: Any, sizes: Any, spans: Any, depths: Any, made: Any, count: int, limit: int, zero: int) -> int:
    """Add the terms of each row, the cheapest two first as far as the limit lets them; the number of values then.

    `zero`: the value that is 0, from which rows of negative terms only are taken. One such term stays as it is.
    """
    room = 2.0**limit
    for r in range(len(sizes)):
        if sizes[r] > 1 and _positive(terms, sizes[r], r) == 0:
            _from_zero(terms, sizes, r, depths, zero)
        while sizes[r] > 1:
            a, b = _cheapest(terms, sizes[r], r, spans, depths, room)
            i, j, d, s = _split(_key(terms[r, a], terms[r, b]))
            low = a if terms[r, a, 0] == i and terms[r, a, 1] <= terms[r, b, 1] else b
            high = b if low == a else a
            _enter(count, (i, j, d, s), spans, depths, made)
            sign = terms[r, low, 2]
            if sign < 0 and s < 0 and _positive(terms, sizes[r], r) == 1:  # else only negative terms would be left
                made[count, 3], sign = TURNED, 1
                spans[count] = -spans[count, 1], -spans[count, 0]
            terms[r, low, 0], terms[r, low, 2] = count, sign
            terms[r, high] = terms[r, sizes[r] - 1]
            sizes[r] -= 1
            count += 1
    return count


@njit(cache=True)
def _from_zero(terms: Any, sizes: Any, r: int, depths: Any, zero: int) -> None:
    """One more term, 0, at the place of the earliest of the others."""
    first = 0
    for a in range(sizes[r]):
        if depths[terms[r, a, 0]] < depths[terms[r, first, 0]]:
            first = a
    terms[r, sizes[r]] = zero, terms[r, first, 1], 1
    sizes[r] += 1


@njit(cache=True)
def _cheapest(terms: Any, size: int, r: int, spans: Any, depths: Any, room: float) -> Any:
    """The two terms of a row whose sum costs least, among those that leave the row within its depth."""
    load = 0.0
    for a in range(size):
        load += 2.0 ** depths[terms[r, a, 0]]
    best, least = (0, 1), 1e300
    for a in range(size):
        for b in range(a):
            i, j, d, s = _split(_key(terms[r, a], terms[r, b]))
            deep = 2.0 ** (max(depths[i], depths[j]) + 1)
            over = load + deep - 2.0 ** depths[i] - 2.0 ** depths[j] > room
            cost = _cost(spans, i, j, d, s) + 1e-3 * deep + (1e9 * deep if over else 0.0)
            if cost < least:
                best, least = (a, b), cost
    return best
