"""As `stretched`, for stretches of a fixed number of elements whose largest magnitudes are found side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.fill import fetch, fetch_room, fill, fill_sizes, result_in
from espalier.kernels.fake_quant.loops.stretches import (
    AHEAD,
    any_below,
    counted_pattern,
    plain_pattern,
    rest_passes,
    stopped,
    stopped_at,
)
from espalier.kernels.fake_quant.loops.tops import SIDE, tops
from espalier.kernels.fake_quant.loops.words import INFINITY, cut, narrow, real, widen

SIZES = (16, 32, 64, 128)  # of stretches that have a loop of their own


@register_jitable
def _others(x: Any, first: Any, here: Any, found: Any, size: Any) -> None:
    """Fewer than sixteen."""
    for j in range(here):
        found[j] = plain_pattern(x, (first + j) * size, size)
    found[here:] = np.int32(0)


@register_jitable
def _counted(x: Any, first: Any, here: Any, found: Any, size: Any, most: Any, last: Any) -> Any:
    """Whether all are finite; what is not, as it counts."""
    top = np.int32(0)
    for j in range(SIDE):
        top = found[j] if found[j] > top else top
    if top <= most:
        return True
    for j in range(here):
        if found[j] > most:
            found[j] = counted_pattern(x, (first + j) * size, size, most, last)
    return False


@register_jitable
def _only(shared: Any) -> Any:
    return shared[0, 0] if shared.size else np.float32(0)


@register_jitable  # not in the loop itself: only here does it become vectors
def _numbers(x: Any, found: Any, kept: Any, finite: Any, find: Any, shared: Any, c: Any) -> Any:
    """What sixteen stretches share; whether all are held, and ordinary. The last number: up to where
    gradients pass at least."""
    held = ordinary = True
    for j in range(SIDE):
        h, _, last, o, numbers = find(x, x, 0, 0, found[j], finite, 0, shared, c, False)
        kept[0, j], kept[1, j], kept[2, j], kept[3, j] = numbers
        kept[4, j] = last
        held &= h
        ordinary &= o
    return held, ordinary


@register_jitable
def _asked(
    x: Any,
    gate: Any,
    filled: Any,
    start: Any,
    block: Any,
    m: Any,
    finite: Any,
    find: Any,
    shared: Any,
    c: Any,
) -> Any:
    """How far the gate is filled, after a stretch where some gradient may be stopped."""
    _, least, last, _, _ = find(x, x, start, block, m, finite, 0, shared, c, True)
    if finite and real(m) <= last:
        return filled
    return stopped(x, gate, filled, start, block, least, last)


@register_jitable
def _carefully(x: Any, out: Any, start: Any, count: Any, careful: Any, p: Any, c: Any) -> None:
    for i in range(count):
        out[start + i] = narrow(careful(widen(x[start + i]), p, c), x[0])


def side_by_side(
    find: Callable[..., Any],
    value: Callable[..., Any],
    careful: Callable[..., Any] | None = None,
    *,
    into: Callable[..., Any] = cut,
    odd: bool = False,
    infinite: bool = True,
    tiny: bool = False,
    fixed: int,
) -> Any:
    """The loop of `stretched` with the same meaning of its parameters, for stretches of `fixed` elements with four
    numbers, found side by side too; what is finite and ordinary is so in all of sixteen. `shared` is one number."""
    filler = fill_sizes if odd else fill

    @loop
    def run(x: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
        filled, stretches, found = 0, x.size // fixed, np.empty(SIDE, np.int32)
        y, kept, one = result_in(x, out), np.empty((5, SIDE), np.float32), _only(shared)
        for group in range((stretches + SIDE - 1) // SIDE):  # numba sees that this is never negative
            first = group * SIDE
            here = min(SIDE, stretches - first)
            if here == SIDE:
                tops(x, first * fixed, found, fixed)  # pyright: ignore[reportCallIssue]
            else:
                _others(x, first, here, found, fixed)
            finite = _counted(x, first, here, found, fixed, c[0], INFINITY if infinite else c[0])
            held, ordinary = _numbers(x, found, kept, finite, find, one, c)
            if not held or (tiny and c[-1] and any_below(x[first * fixed : (first + here) * fixed], c[-1])):
                return stopped_at(gate, filled, first * fixed)
            if gate is not None:
                for j in range(here):
                    if not (finite and real(found[j]) <= kept[4, j]):
                        m, start = found[j], (first + j) * fixed
                        filled = _asked(x, gate, filled, start, fixed, m, finite, find, one, c)
            for j in range(here):
                start, p = (first + j) * fixed, (kept[0, j], kept[1, j], kept[2, j], kept[3, j])
                fetch(x, start + AHEAD, fixed)
                fetch_room(y, start + AHEAD, fixed)
                if careful is None or ordinary:
                    filler(x, y, start, fixed, value, into, p, c)
                else:
                    _carefully(x, y, start, fixed, careful, p, c)
        return rest_passes(gate, filled)

    return run
