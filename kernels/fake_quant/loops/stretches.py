"""The one loop that all formats are made of: stretches of a flat array whose elements share something, one by one.

A loop gives 1 when all gradients pass (no gate was written), 0 when not, −1 − n where from element n on only the
definition will do. Without `out` it writes over `x`. The gate of a stretch that is not clipped is filled with ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.fill import PIECE, fetch, fetch_room, fill, fill_sizes, result_in
from espalier.kernels.fake_quant.loops.words import (
    INFINITY,
    MOST,
    bits,
    cut,
    magnitude,
    narrow,
    pattern,
    real,
    value_of,
    widen,
)

PAGE = 4096  # bytes of a gate that are filled at a time
LOOK = 64  # stretches that are searched for tiny numbers at a time
AHEAD = 2048  # elements that lie between what is computed and what is fetched
SHARE = 192  # elements of the next stretch that are fetched for each piece, where `find` fetches too


@register_jitable(inline="always")
def _ask_for_share(x: Any, out: Any, beyond: Any, piece: Any, first: Any, count: Any) -> None:
    """For a part of the next stretch."""
    fetch(x, beyond + piece * SHARE, SHARE)


def _ask_beyond(ahead: int) -> Any:
    @register_jitable(inline="always")
    def ask(x: Any, out: Any, beyond: Any, piece: Any, first: Any, count: Any) -> None:
        """For elements and room that lie `ahead`."""
        fetch(x, first + ahead, count)
        fetch_room(out, first + ahead, count)

    return ask


def stretched(
    find: Callable[..., Any],
    value: Callable[..., Any],
    careful: Callable[..., Any] | None = None,
    *,
    into: Callable[..., Any] = cut,
    odd: bool = False,
    tops: bool = True,
    infinite: bool = True,
    tiny: bool = False,
    gates: bool = True,
    sums: bool = False,
    filler: Callable[..., Any] | None = None,
    ahead: int = AHEAD,
) -> Any:
    """The loop (x, out, gate, block, shared, constants) → result over stretches of `block` elements.

    `shared` has a row a stretch, or none. `find` (x, out, start, block, m, whether all is finite, number, shared,
    constants, whether there is a gate), m the pattern of the largest magnitude, gives what a stretch shares: (whether
    float32 holds it, least x and largest x whose gradient passes, whether it is ordinary, numbers). `value` (float32 of
    an element, numbers, constants) is an element's, put `into` its type; of magnitudes, if it is `odd`; `careful` one's
    of a stretch that is not ordinary.

    `tops`: whether `find` needs m without a gate; then the first constant is the pattern that infinity counts as, if it
    is `infinite` that counts. `tiny`: whether the last constant is a pattern below which only the definition will do,
    or 0. `gates`: whether any gradient is stopped. `sums`: whether `find` asks for the result's memory, while it sums.
    `filler`: what puts elements in place instead of `fill`.
    `ahead`: how far beyond what is computed elements and room are fetched.
    """
    put = filler or (fill_sizes if odd else fill)
    ask = _ask_for_share if sums else _ask_beyond(ahead)

    @loop
    def run(x: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
        y, filled = result_in(x, out), 0
        for b in range(x.size // block):
            start = b * block
            m = plain_pattern(x, start, block) if tops or (gates and gate is not None) else np.int32(0)
            finite = not tops or m <= c[0]
            if not finite:
                m = counted_pattern(x, start, block, c[0], INFINITY if infinite else c[0])
            if tiny and c[-1] and b % LOOK == 0 and any_below(x[start : start + LOOK * block], c[-1]):
                return stopped_at(gate, filled, start)
            held, least, last, ordinary, p = find(x, y, start, block, m, finite, b, shared, c, gate is not None)
            if not held:
                return stopped_at(gate, filled, start)
            if gates and gate is not None and not (finite and real(m) <= last and -real(m) >= least):
                filled = stopped(x, gate, filled, start, block, least, last)
            if careful is None or ordinary:
                for piece in range((block + PIECE - 1) // PIECE):
                    first = start + piece * PIECE
                    count = min(PIECE, start + block - first)
                    ask(x, y, start + block, piece, first, count)
                    put(x, y, first, count, value, into, p, c)
            else:
                for i in range(block):
                    y[start + i] = narrow(careful(widen(x[start + i]), p, c), x[0])
        return rest_passes(gate, filled)

    return run


@register_jitable
def stopped(x: Any, gate: Any, filled: Any, start: Any, block: Any, first: Any, last: Any) -> Any:
    """The gate of a stretch: 1 from `first` to `last`; how far the gate is filled."""
    if filled < start + block:
        filled = _ones_up_to(gate, filled, start + block)
    own, mine = x[start : start + block], gate[start : start + block]  # indices that begin at 0 vectorise
    for i in range(own.size):
        v = widen(own[i])
        mine[i] = np.uint8((v >= first) & (v <= last))
    return filled


@register_jitable(inline="always")
def plain_pattern(x: Any, start: Any, count: Any) -> Any:
    """Pattern of the largest magnitude of a stretch, NaN above all."""
    m = pattern(x[start])
    for i in range(count):
        k = pattern(x[start + i])  # numba's own int32 arithmetic is int64: half the lanes
        m = k if k > m else m
    return bits(value_of(m, x[0]))


@register_jitable
def pattern_of_all(x: Any) -> Any:
    """As `plain_pattern` of a whole array, fetched ahead: 0.31 of a copy instead of 0.52 (float32, cached far out)."""
    m = np.int32(0)
    for start in range(0, x.size, AHEAD):
        fetch(x, start + AHEAD, AHEAD)
        own = x[start : start + AHEAD]  # its indices begin at 0: that vectorises
        k = plain_pattern(own, 0, own.size)
        m = k if k > m else m
    return m


@register_jitable
def counted_pattern(x: Any, start: Any, count: Any, most: Any, last: Any) -> Any:
    """As `plain_pattern`: what lies above the pattern `last` does not count (NaN), what lies above `most` counts as
    that (infinity)."""
    own, m = x[start : start + count], np.int32(0)
    for i in range(own.size):
        k = magnitude(widen(own[i]))
        k = k if k <= last else np.int32(0)
        m = k if k > m else m
    return m if m < most else most


@register_jitable
def any_below(x: Any, tiny: Any) -> Any:
    """Whether a pattern but 0 lies below `tiny`."""
    least = np.uint32(0xFFFFFFFF)
    for i in range(x.size):
        k = np.uint32(np.uint32(magnitude(widen(x[i]))) - np.uint32(1))  # 0 comes last
        least = k if k < least else least
    return least < np.uint32(tiny - np.int32(1))


@register_jitable
def _ones(gate: Any, start: Any, stop: Any) -> Any:
    own = gate[start:stop]  # its indices begin at 0: that vectorises
    for i in range(own.size):
        own[i] = np.uint8(1)


@register_jitable
def _ones_up_to(gate: Any, start: Any, stop: Any) -> Any:
    """The gradient passes from `start` up to a page's end beyond `stop`, which is given back."""
    end = min(gate.size, -(-stop // PAGE) * PAGE)
    _ones(gate, start, end)
    return end


@register_jitable
def stopped_at(gate: Any, filled: Any, start: Any) -> Any:
    """−1 − `start`, up to where the gate is whole."""
    if gate is not None and filled < start:
        _ones(gate, filled, start)
    return -1 - start


@register_jitable
def rest_passes(gate: Any, filled: Any) -> Any:
    """1 where no gate was needed; else 0, and the gradient passes from `filled` on."""
    if gate is not None and filled:
        _ones(gate, filled, gate.size)
    return np.int32(0) if filled else np.int32(1)


def furthest(code: Callable[..., Any]) -> Any:
    """(s, limit, near) → the largest float whose `code` (x, s), which rises with x, is at most `limit`; `near` lies a
    few steps from it."""

    @register_jitable
    def search(s: Any, limit: Any, near: Any) -> Any:
        x = np.float32(near)
        x = MOST if x > MOST else x
        while x > 0 and code(x, s) > limit:
            x = np.nextafter(x, np.float32(0))
        above = np.nextafter(x, np.float32(np.inf))
        while above <= MOST and code(above, s) <= limit:
            x, above = above, np.nextafter(above, np.float32(np.inf))
        return x

    return search
