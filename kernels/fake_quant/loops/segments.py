"""The loop of all formats: segments of a flat array, whose elements share parameters, one after another.

A loop returns 1 if all gradients pass (no gate was written), 0 otherwise, or −1 − n if from element n on only the
definition can compute. Without `out` it overwrites `x`. The gate of an unclipped segment is filled with ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.fill import PIECE, fetch, fetch_for_write, fill, fill_sizes, result_in
from espalier.kernels.fake_quant.loops.words import (
    INFINITY,
    LARGEST,
    bits,
    magnitude,
    narrow,
    narrow_exact,
    pattern,
    real,
    value_of,
    widen,
)

PAGE = 4096  # bytes of a gate filled at a time
LOOK = 64  # segments searched for tiny numbers at a time
AHEAD = 2048  # elements between computation and prefetching
SHARE = 192  # elements of the next segment prefetched per piece, if `find` prefetches too


@register_jitable(inline="always")
def _prefetch_share(x: Any, out: Any, beyond: Any, piece: Any, first: Any, count: Any) -> None:
    """Prefetch a part of the next segment."""
    fetch(x, beyond + piece * SHARE, SHARE)


def _prefetch_ahead(ahead: int) -> Any:
    @register_jitable(inline="always")
    def prefetch(x: Any, out: Any, beyond: Any, piece: Any, first: Any, count: Any) -> None:
        """Prefetch elements and result memory `ahead` of the computation."""
        fetch(x, first + ahead, count)
        fetch_for_write(out, first + ahead, count)

    return prefetch


def segment_loop(
    find: Callable[..., Any],
    value: Callable[..., Any],
    careful: Callable[..., Any] | None = None,
    *,
    into: Callable[..., Any] = narrow_exact,
    odd: bool = False,
    tops: bool = True,
    infinite: bool = True,
    tiny: bool = False,
    gates: bool = True,
    sums: bool = False,
    filler: Callable[..., Any] | None = None,
    ahead: int = AHEAD,
) -> Any:
    """The loop (x, out, gate, block, shared, constants) → result over segments of `block` elements.

    `shared` has a row per segment, or none. `find` (x, out, start, block, m, whether all are finite, number, shared,
    constants, whether there is a gate), m the pattern of the largest magnitude, returns a segment's parameters:
    (whether float32 represents them, smallest and largest x whose gradient passes, whether they are ordinary,
    numbers). `value` (float32 of an element, numbers, constants) computes an element, which `into` converts to its
    type; it takes magnitudes if it is `odd`. `careful` replaces `value` in segments that are not ordinary.

    `tops`: whether `find` needs m without a gate; then the first constant is the pattern that replaces infinity, if
    `infinite`. `tiny`: whether the last constant is a pattern below which only the definition can compute,
    or 0. `gates`: whether any gradient is stopped. `sums`: whether `find` prefetches the result memory.
    `filler`: replaces `fill`.
    `ahead`: distance of prefetching in elements.
    """
    write = filler or (fill_sizes if odd else fill)
    prefetch = _prefetch_share if sums else _prefetch_ahead(ahead)

    @loop
    def run(x: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
        y, filled = result_in(x, out), 0
        for b in range(x.size // block):
            start = b * block
            m = plain_pattern(x, start, block) if tops or (gates and gate is not None) else np.int32(0)
            finite = not tops or m <= c[0]
            if not finite:
                m = clipped_pattern(x, start, block, c[0], INFINITY if infinite else c[0])
            if tiny and c[-1] and b % LOOK == 0 and any_below(x[start : start + LOOK * block], c[-1]):
                return stop_before(gate, filled, start)
            exact, first_passing, last_passing, ordinary, p = find(
                x, y, start, block, m, finite, b, shared, c, gate is not None
            )
            if not exact:
                return stop_before(gate, filled, start)
            if gates and gate is not None and not (finite and real(m) <= last_passing and -real(m) >= first_passing):
                filled = write_gate(x, gate, filled, start, block, first_passing, last_passing)
            if careful is None or ordinary:
                for piece in range((block + PIECE - 1) // PIECE):
                    first = start + piece * PIECE
                    count = min(PIECE, start + block - first)
                    prefetch(x, y, start + block, piece, first, count)
                    write(x, y, first, count, value, into, p, c)
            else:
                for i in range(block):
                    y[start + i] = narrow(careful(widen(x[start + i]), p, c), x[0])
        return finish_gate(gate, filled)

    return run


@register_jitable
def write_gate(x: Any, gate: Any, filled: Any, start: Any, block: Any, first: Any, last: Any) -> Any:
    """Write the gate of a segment: 1 from `first` to `last`; returns up to where the gate is filled."""
    if filled < start + block:
        filled = _ones_up_to(gate, filled, start + block)
    part, part_gate = x[start : start + block], gate[start : start + block]  # indices from 0 vectorise
    for i in range(part.size):
        v = widen(part[i])
        part_gate[i] = np.uint8((v >= first) & (v <= last))
    return filled


@register_jitable(inline="always")
def plain_pattern(x: Any, start: Any, count: Any) -> Any:
    """Pattern of the largest magnitude of a segment; NaN exceeds all."""
    m = pattern(x[start])
    for i in range(count):
        k = pattern(x[start + i])  # numba's int32 arithmetic yields int64, with half the lanes
        m = k if k > m else m
    return bits(value_of(m, x[0]))


@register_jitable
def pattern_of_all(x: Any) -> Any:
    """As `plain_pattern`, of a whole array with prefetching (measured: 0.31 of a copy's time instead of 0.52)."""
    m = np.int32(0)
    for start in range(0, x.size, AHEAD):
        fetch(x, start + AHEAD, AHEAD)
        part = x[start : start + AHEAD]  # indices from 0 vectorise
        k = plain_pattern(part, 0, part.size)
        m = k if k > m else m
    return m


@register_jitable
def clipped_pattern(x: Any, start: Any, count: Any, infinity: Any, last: Any) -> Any:
    """As `plain_pattern`: patterns above `last` (NaN) are ignored, those above `infinity` (infinity) count as
    `infinity`."""
    part, m = x[start : start + count], np.int32(0)
    for i in range(part.size):
        k = magnitude(widen(part[i]))
        k = k if k <= last else np.int32(0)
        m = k if k > m else m
    return m if m < infinity else infinity


@register_jitable
def any_below(x: Any, tiny: Any) -> Any:
    """Whether a nonzero pattern is below `tiny`."""
    smallest = np.uint32(0xFFFFFFFF)
    for i in range(x.size):
        k = np.uint32(np.uint32(magnitude(widen(x[i]))) - np.uint32(1))  # 0 wraps to the largest
        smallest = k if k < smallest else smallest
    return smallest < np.uint32(tiny - np.int32(1))


@register_jitable
def _ones(gate: Any, start: Any, stop: Any) -> Any:
    part = gate[start:stop]  # indices from 0 vectorise
    for i in range(part.size):
        part[i] = np.uint8(1)


@register_jitable
def _ones_up_to(gate: Any, start: Any, stop: Any) -> Any:
    """Fill the gate with ones from `start` up to the end of the page of `stop`; returns that end."""
    end = min(gate.size, -(-stop // PAGE) * PAGE)
    _ones(gate, start, end)
    return end


@register_jitable
def stop_before(gate: Any, filled: Any, start: Any) -> Any:
    """−1 − `start`, the result of a stopped loop; fills the gate up to `start`."""
    if gate is not None and filled < start:
        _ones(gate, filled, start)
    return -1 - start


@register_jitable
def finish_gate(gate: Any, filled: Any) -> Any:
    """1 if no gate was written; else 0, after filling the gate with ones from `filled` on."""
    if gate is not None and filled:
        _ones(gate, filled, gate.size)
    return np.int32(0) if filled else np.int32(1)


def largest_with_code(code: Callable[..., Any]) -> Any:
    """(s, limit, near) → the largest float32 x with `code` (x, s) ≤ `limit`; `code` is monotonic in x, and `near` is a
    few steps from the result."""

    @register_jitable
    def search(s: Any, limit: Any, near: Any) -> Any:
        x = np.float32(near)
        x = LARGEST if x > LARGEST else x
        while x > 0 and code(x, s) > limit:
            x = np.nextafter(x, np.float32(0))
        above = np.nextafter(x, np.float32(np.inf))
        while above <= LARGEST and code(above, s) <= limit:
            x, above = above, np.nextafter(above, np.float32(np.inf))
        return x

    return search
