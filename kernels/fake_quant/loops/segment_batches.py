"""As `segment_loop`, for segments of a fixed size whose largest magnitudes are computed sixteen at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.block_maxima import BATCH, block_maxima
from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.fill import fetch, fetch_for_write, fill, fill_sizes, result_in
from espalier.kernels.fake_quant.loops.segments import (
    AHEAD,
    any_below,
    clipped_pattern,
    finish_gate,
    plain_pattern,
    stop_before,
    write_gate,
)
from espalier.kernels.fake_quant.loops.words import INFINITY, narrow, narrow_exact, real, widen

BATCHED_SIZES = (16, 32, 64, 128)  # segment sizes with a specialised loop


@register_jitable
def _patterns_of_fewer(x: Any, first: Any, count: Any, patterns: Any, block: Any) -> None:
    """Patterns of the largest magnitudes of fewer than sixteen segments."""
    for j in range(count):
        patterns[j] = plain_pattern(x, (first + j) * block, block)
    patterns[count:] = np.int32(0)


@register_jitable
def _clip_patterns(x: Any, first: Any, count: Any, patterns: Any, block: Any, infinity: Any, last: Any) -> Any:
    """Replace patterns of NaN and infinity; returns whether all were finite."""
    top = np.int32(0)
    for j in range(BATCH):
        top = patterns[j] if patterns[j] > top else top
    if top <= infinity:
        return True
    for j in range(count):
        if patterns[j] > infinity:
            patterns[j] = clipped_pattern(x, (first + j) * block, block, infinity, last)
    return False


@register_jitable
def _shared_scale(shared: Any) -> Any:
    return shared[0, 0] if shared.size else np.float32(0)


@register_jitable  # a function of its own, as it does not vectorise inside the loop
def _segment_numbers(x: Any, patterns: Any, numbers_of: Any, finite: Any, find: Any, shared: Any, c: Any) -> Any:
    """Write the parameters of sixteen segments; returns (whether float32 represents all, whether all are ordinary). The
    last number is a bound up to which gradients pass."""
    exact = ordinary = True
    for j in range(BATCH):
        h, _, last, o, numbers = find(x, x, 0, 0, patterns[j], finite, 0, shared, c, False)
        numbers_of[0, j], numbers_of[1, j], numbers_of[2, j], numbers_of[3, j] = numbers
        numbers_of[4, j] = last
        exact &= h
        ordinary &= o
    return exact, ordinary


@register_jitable
def _write_gate_if_stopped(
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
    """Write the gate of a segment if a gradient is stopped; returns up to where the gate is filled."""
    _, first_passing, last_passing, _, _ = find(x, x, start, block, m, finite, 0, shared, c, True)
    if finite and real(m) <= last_passing:
        return filled
    return write_gate(x, gate, filled, start, block, first_passing, last_passing)


@register_jitable
def _fill_carefully(x: Any, out: Any, start: Any, count: Any, careful: Any, p: Any, c: Any) -> None:
    for i in range(count):
        out[start + i] = narrow(careful(widen(x[start + i]), p, c), x[0])


def batched_segment_loop(
    find: Callable[..., Any],
    value: Callable[..., Any],
    careful: Callable[..., Any] | None = None,
    *,
    into: Callable[..., Any] = narrow_exact,
    odd: bool = False,
    infinite: bool = True,
    tiny: bool = False,
    fixed: int,
) -> Any:
    """The loop of `segment_loop`, with parameters of the same meaning, for segments of `fixed` elements with four
    numbers. Finite and ordinary refer to all of sixteen segments. `shared` is one number."""
    filler = fill_sizes if odd else fill

    @loop
    def run(x: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
        filled, segments, patterns = 0, x.size // fixed, np.empty(BATCH, np.int32)
        y, numbers, scale = result_in(x, out), np.empty((5, BATCH), np.float32), _shared_scale(shared)
        for group in range((segments + BATCH - 1) // BATCH):  # numba infers that this is not negative
            first = group * BATCH
            count = min(BATCH, segments - first)
            if count == BATCH:
                block_maxima(x, first * fixed, patterns, fixed)  # pyright: ignore[reportCallIssue]
            else:
                _patterns_of_fewer(x, first, count, patterns, fixed)
            finite = _clip_patterns(x, first, count, patterns, fixed, c[0], INFINITY if infinite else c[0])
            exact, ordinary = _segment_numbers(x, patterns, numbers, finite, find, scale, c)
            if not exact or (tiny and c[-1] and any_below(x[first * fixed : (first + count) * fixed], c[-1])):
                return stop_before(gate, filled, first * fixed)
            if gate is not None:
                for j in range(count):
                    if not (finite and real(patterns[j]) <= numbers[4, j]):
                        m, start = patterns[j], (first + j) * fixed
                        filled = _write_gate_if_stopped(x, gate, filled, start, fixed, m, finite, find, scale, c)
            for j in range(count):
                start, p = (first + j) * fixed, (numbers[0, j], numbers[1, j], numbers[2, j], numbers[3, j])
                fetch(x, start + AHEAD, fixed)
                fetch_for_write(y, start + AHEAD, fixed)
                if careful is None or ordinary:
                    filler(x, y, start, fixed, value, into, p, c)
                else:
                    _fill_carefully(x, y, start, fixed, careful, p, c)
        return finish_gate(gate, filled)

    return run
