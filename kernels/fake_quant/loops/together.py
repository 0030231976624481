"""As `stretched`, for stretches of a fixed number of elements whose largest magnitudes are found side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.stretches import any_below, counted_pattern, plain_pattern, rest_passes, stopped
from kernels.fake_quant.loops.tops import SIDE, tops
from kernels.fake_quant.loops.words import INFINITY, REDO, real

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
def _none(found: Any, kept: Any, shared: Any) -> Any:
    return shared


def side_by_side(
    find: Callable[..., Any],
    value: Callable[..., Any],
    careful: Callable[..., Any] | None = None,
    *,
    infinite: bool = True,
    tiny: bool = False,
    scales: Callable[..., Any] = _none,
    fixed: int,
) -> Any:
    """The loop of `stretched` with the same meaning of its parameters; what is finite is so in all of sixteen.

    `scales` (patterns of largest magnitudes, room for two numbers of each of sixteen, shared) gives what `find` gets
    in place of `shared`: the same, or the room, where a stretch's numbers lie at its own number modulo 16.
    """

    @loop
    def run(x: Any, out: Any, gate: Any, block: Any, shared: Any, table: Any, c: Any) -> Any:
        filled, stretches, found = 0, x.size // fixed, np.empty(SIDE, np.int32)
        kept = np.empty(2 * SIDE, np.float32)
        for group in range((stretches + SIDE - 1) // SIDE):  # numba sees that this is never negative
            first = group * SIDE
            here = min(SIDE, stretches - first)
            if here == SIDE:
                tops(x, first * fixed, found, fixed)  # pyright: ignore[reportCallIssue]
            else:
                _others(x, first, here, found, fixed)
            finite = _counted(x, first, here, found, fixed, c[0], INFINITY if infinite else c[0])
            held = not (tiny and c[-1] and any_below(x[first * fixed : (first + here) * fixed], c[-1]))
            given = scales(found, kept, shared)
            for j in range(here):
                m, start = found[j], (first + j) * fixed
                p = find(x, start, fixed, m, finite, first + j, given, table, c, gate is not None)
                held &= p[0]
                if careful is None or p[3]:
                    for i in range(fixed):
                        out[start + i] = value(x[start + i], p, c)
                else:
                    for i in range(fixed):
                        out[start + i] = careful(x[start + i], p, c)
                if gate is not None and not (finite and real(m) <= p[2] and -real(m) >= p[1]):
                    filled = stopped(x, gate, filled, start, fixed, p[1], p[2])
            if not held:
                return REDO
        return rest_passes(gate, filled)

    return run
