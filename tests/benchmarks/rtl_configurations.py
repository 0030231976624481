"""Configurations of every template, as they come in networks, for the grid of areas: drawn once, from a fixed seed.

`configurations` are those that the estimate is fitted to; `held_out` others, which no fit sees, with the extremes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.linear import summed
from espalier.verilog.templates.cast import Cast
from espalier.verilog.templates.chain import Chain, Replay
from espalier.verilog.templates.depthwise import Depthwise
from espalier.verilog.templates.fifo import Fifo
from espalier.verilog.templates.fold import FoldMax, FoldSum, reciprocal
from espalier.verilog.templates.fork import Fork
from espalier.verilog.templates.linear import Linear
from espalier.verilog.templates.lut import Lut, Pieces, fit_segments, tabled
from espalier.verilog.templates.matmul import MatMul
from espalier.verilog.templates.norm import Norm
from espalier.verilog.templates.pair import KINDS, Pair, exact_format
from espalier.verilog.templates.relu import Relu
from espalier.verilog.templates.reorder import Pick, Reorder
from espalier.verilog.templates.resize import Resize
from espalier.verilog.templates.scale_shift import ScaleShift, totalled
from espalier.verilog.templates.softmax import Softmax
from espalier.verilog.templates.window import Walk, Window
from tests.benchmarks.rtl_configurations_formats import blocks, linear_blocks, signs, threshold
from tests.benchmarks.rtl_configurations_more import choose, compared, deep, divide, function, gather, source
from tests.benchmarks.rtl_linear import layer

Random = np.random.Generator
BIT = Fixed(1, 0, False)


def one(rng: Random, *values: int) -> int:
    """One of them."""
    return int(rng.choice(values))


def form(rng: Random, *widths: int) -> Fixed:
    """A signed format of one of some widths."""
    width = one(rng, *widths)
    return Fixed(width, width // 2)


def linear(rng: Random) -> Template:
    """Weights over their whole range."""
    par_in, par_out, tokens = one(rng, 1, 2, 4, 8), one(rng, 1, 2, 4), one(rng, 1, 1, 1, 2)
    size_in, size_out = par_in * one(rng, 4, 8, 16), par_out * one(rng, 2, 4, 8)
    x, w, y = form(rng, 4, 6, 8, 8, 12), form(rng, 4, 6, 8, 8), form(rng, 6, 8, 8, 12)
    weight = rng.integers(w.low, w.high + 1, (size_out, size_in))
    bias = rng.integers(-2000, 2000, size_out), Fixed(12, x.frac + w.frac)
    accumulator, biases = summed(weight, w, x, bias)
    return Linear(
        name="i", node="i", inputs=(Stream(tokens * 4, size_in, x, par_in, tokens),), weight=weight, weight_format=w,
        outputs=(Stream(tokens * 4, size_out, y, par_out, tokens),), bias=biases, accumulator=accumulator,
    )  # fmt: skip


def matmul(rng: Random) -> Template:
    """A second operand as heads of an attention bring it."""
    par_in, par_out, tokens = one(rng, 1, 2, 4), one(rng, 1, 2, 4), one(rng, 1, 1, 2)
    depth, columns, batch = par_in * one(rng, 4, 8), par_out * one(rng, 4, 8), one(rng, 1, 2, 4)
    spots = np.arange(batch * depth * columns).reshape(batch, depth, columns).transpose(0, 2, 1).reshape(-1)
    x, b, y = form(rng, 6, 8, 8, 10), form(rng, 6, 8, 8), form(rng, 8, 8, 12)
    rows = tokens * 8 * batch
    return MatMul(
        name="i", node="i", inputs=(Stream(rows, depth, x, par_in, tokens), Stream(1, spots.size, b, par_in)),
        outputs=(Stream(rows, columns, y, par_out, tokens),), batch=batch, repeat=8, columns=columns, spots=spots,
        along="depth", accumulator=Fixed(x.width + b.width + depth.bit_length(), x.frac + b.frac),
        multiplier=one(rng, 1, 1, 181), scale_frac=10,
    )  # fmt: skip


def depthwise(rng: Random) -> Template:
    """3 × 3 and other kernels."""
    lanes, taps, blocks = one(rng, 1, 2, 4), one(rng, 4, 9, 25), one(rng, 1, 2, 4)
    x, w, y = form(rng, 6, 8, 8), form(rng, 4, 8), form(rng, 8, 8, 12)
    weight = rng.integers(w.low, w.high + 1, (lanes * blocks, taps))
    accumulator, biases = summed(weight, w, x, (rng.integers(-500, 500, len(weight)), Fixed(12, x.frac + w.frac)))
    return Depthwise(
        name="i", node="i", inputs=(Stream(16 * blocks, taps * lanes, x, lanes),), weight=weight, weight_format=w,
        outputs=(Stream(16, lanes * blocks, y, lanes),), bias=biases, accumulator=accumulator,
    )  # fmt: skip


def window(rng: Random) -> Template:
    """Square kernels, with padding and without."""
    side, k, step = one(rng, 8, 14, 28), one(rng, 2, 3, 3, 5), one(rng, 1, 1, 2)
    lanes, blocks, f = one(rng, 1, 2, 4, 8), one(rng, 1, 2, 4), form(rng, 4, 8, 8)
    pad = one(rng, 0, k // 2)
    out = (side + 2 * pad - k) // step + 1
    walk = Walk((side, side), (out, out), (k, k), (step, step), before=(pad, pad))
    x = Stream(side * side, lanes * blocks, f, lanes)
    y = Stream(out * out, k * k * lanes * blocks, f, lanes)
    return Window(name="i", node="i", inputs=(x,), outputs=(y,), walk=walk)


def norm(rng: Random) -> Template:
    """LayerNorm and RMS norm."""
    par, size = one(rng, 1, 2, 4), one(rng, 16, 32, 64, 128)
    x, y, g = form(rng, 8, 10, 12), form(rng, 8, 12), form(rng, 8, 10)
    return Norm(
        name="i", node="i", inputs=(Stream(4, size, x, par),), outputs=(Stream(4, size, y, par),),
        centered=bool(one(rng, 0, 1, 1)), eps=one(rng, 1, 300), gamma=rng.integers(g.low, g.high + 1, size),
        gamma_format=g, beta=rng.integers(-100, 100, size), beta_frac=g.frac,
    )  # fmt: skip


def softmax(rng: Random) -> Template:
    """With a mask and without."""
    par, size = one(rng, 1, 2, 4), one(rng, 8, 16, 32, 64)
    x, width = form(rng, 8, 10, 12), one(rng, 8, 8, 10)
    masks = (Stream(4, size, BIT, par),) * one(rng, 0, 1)
    y = Stream(4, size, Fixed(width, width, False), par)
    return Softmax(name="i", node="i", inputs=(Stream(4, size, x, par), *masks), outputs=(y,))


def fold(rng: Random, largest: bool) -> Template:
    """Pools and means."""
    count, lanes, blocks, x = one(rng, 4, 9, 16, 49), one(rng, 1, 2, 4, 8), one(rng, 1, 2, 8), form(rng, 4, 8, 8, 12)
    ins = Stream(4 * count, lanes * blocks, x, lanes)
    if largest:
        outs = Stream(4, lanes * blocks, x, lanes)
        return FoldMax(name="i", node="i", inputs=(ins,), outputs=(outs,), count=count)
    multiplier, shift = reciprocal(count, ins)
    outs = Stream(4, lanes * blocks, form(rng, 8, 12), lanes)
    return FoldSum(name="i", node="i", inputs=(ins,), outputs=(outs,), count=count, multiplier=multiplier, shift=shift)


def pair(rng: Random) -> Template:
    """Sums, differences, products."""
    a, b, y, lanes = form(rng, 6, 8, 12), form(rng, 8, 8, 10), form(rng, 8, 12), one(rng, 1, 2, 4, 8)
    kind = KINDS[one(rng, 0, 1, 2)]
    streams = [Stream(1, 32, f, lanes) for f in (a, b, y)]
    return Pair(name="i", node="i", inputs=(streams[0], streams[1]), outputs=(streams[2],), kind=kind,
                total=exact_format(kind, a, b))  # fmt: skip


def scale_shift(rng: Random) -> Template:
    """Batch norms and constants."""
    lanes, size, x, m = one(rng, 1, 2, 4), one(rng, 8, 16, 64), form(rng, 6, 8, 12), form(rng, 8, 12, 16)
    stream = Stream(4, size, x, lanes)
    rows = np.tile(rng.integers(m.low, m.high + 1, size), (4, 1)), np.tile(rng.integers(-900, 900, size), (4, 1))
    total, shift = totalled(stream, rows[0], m, rows[1], x.frac + m.frac)
    outs = Stream(4, size, form(rng, 8, 12), lanes)
    return ScaleShift(name="i", node="i", inputs=(stream,), outputs=(outs,), scale=rows[0], scale_format=m,
                      shift=shift, total=total)  # fmt: skip


def table(rng: Random, whole: bool) -> Template:
    """Functions by their codes, and by lines."""
    y, lanes, function = form(rng, 6, 8, 12), one(rng, 1, 2, 4), (np.tanh, np.exp, np.sin)[one(rng, 0, 1, 2)]
    if whole:
        x = form(rng, 5, 6, 7, 8, 10)
        ins, outs = Stream(1, 16, x, lanes), Stream(1, 16, y, lanes)
        return Lut(name="i", node="i", inputs=(ins,), outputs=(outs,), table=tabled(function, x, y, "nearest_even"))
    x = form(rng, 11, 12, 14)
    ins, outs = Stream(1, 16, x, lanes), Stream(1, 16, y, lanes)
    return Pieces(name="i", node="i", inputs=(ins,), outputs=(outs,), lines=fit_segments(function, x, y))


def moved(rng: Random, kind: int) -> Template:
    """What only moves elements."""
    f, lanes, beats = form(rng, 4, 8, 8, 12), one(rng, 1, 2, 4, 8), one(rng, 8, 16, 48, 64, 256)
    x = Stream(beats, lanes, f, lanes)
    if kind == 0:
        order = np.arange(beats).reshape(-1, 8).T.reshape(-1)
        return Reorder(name="i", node="i", inputs=(x,), outputs=(x,), beats=order)
    if kind == 1:
        out = Stream(beats // 8 * 3, lanes, f, lanes)
        return Pick(name="i", node="i", inputs=(x,), outputs=(out,), period=8, start=2, count=3)
    if kind == 2:
        out = Stream(2 * beats, lanes, f, lanes)
        return Chain(name="i", node="i", inputs=(x, x), outputs=(out,), turns=4)
    if kind == 3:
        out = Stream(4 * beats, lanes, f, lanes)
        return Replay(name="i", node="i", inputs=(x,), outputs=(out,), times=4)
    par = one(rng, *(p for p in (1, 2, 3, 4, 6, 8) if p != lanes))
    return Resize(name="i", node="i", inputs=(Stream(1, 48, f, lanes),), outputs=(Stream(1, 48, f, par),))


def plain(rng: Random, kind: int) -> Template:
    """FIFOs, forks, casts, ReLU."""
    f, lanes = form(rng, 4, 8, 8, 12), one(rng, 1, 2, 4, 8)
    x = Stream(1, 32, f, lanes)
    if kind == 0:
        return Fifo(name="i", node="i", inputs=(x,), outputs=(x,), depth=one(rng, 2, 4, 8, 16, 32, 64, 128, 512))
    if kind == 1:
        return Fork(name="i", node="i", inputs=(x,), outputs=(x,) * one(rng, 2, 3, 4))
    if kind == 2:
        to = Fixed(one(rng, 6, 8, 12), f.frac + one(rng, -2, -1, 1))
        return Cast(name="i", node="i", inputs=(x,), outputs=(Stream(1, 32, to, lanes),))
    return Relu(name="i", node="i", inputs=(x,), outputs=(x,))


KINDS_OF: tuple[tuple[Callable[[Random], Template], int], ...] = (
    (linear, 24), (matmul, 12), (window, 12), (pair, 10), (scale_shift, 10), (norm, 8), (softmax, 8), (depthwise, 8),
    *((partial(fold, largest=f), 7) for f in (True, False)), *((partial(table, whole=f), 7) for f in (True, False)),
    *((partial(moved, kind=k), n) for k, n in enumerate((6, 4, 4, 6, 8))),
    *((partial(plain, kind=k), n) for k, n in enumerate((9, 4, 7, 3))),
    (signs, 9), (threshold, 4), *((partial(blocks, mantissas=m), 5) for m in (False, True)),
    *((partial(linear_blocks, both=b), n) for b, n in ((False, 5), (True, 6))),
    (gather, 8), (divide, 8), (deep, 6), *((partial(function, whole=f), 12) for f in (True, False)),
    (compared, 4), (choose, 4), (source, 4),
)  # fmt: skip


def configurations() -> Iterator[Template]:
    """All of them, kinds by turns."""
    yield from (layer(16, 4), layer(64, 8))
    for turn in itertools.count():
        left = [(k, make) for k, (make, count) in enumerate(KINDS_OF) if turn < count]
        if not left:
            return
        for k, make in left:
            yield make(np.random.default_rng([turn, k]))


def held_out() -> Iterator[Template]:
    """Of each kind the largest and the smallest of thirty, and two at random; more of what there is most of."""
    drawn = [[make(np.random.default_rng([turn, k, 1])) for turn in range(30)] for k, (make, _) in enumerate(KINDS_OF)]
    ordered = [sorted(those, key=weight) for those in drawn]
    yield from (those[-1] for those in ordered)
    yield from (those[0] for those in drawn)
    yield from (those[0] for those in ordered)
    yield from (
        those[k] for k in range(1, 4) for those, (_, count) in zip(drawn, KINDS_OF, strict=True) if count >= 6 * k
    )


def weight(template: Template) -> float:
    """About how large an instance is: bits of its streams, memories, and what it does at once."""
    held = template.memories()
    streams = sum(s.width for s in (*template.inputs, *template.outputs))
    products = template.outputs[0].lanes * (template.inputs[0].lanes if template.inputs else 1)
    return streams + 4 * products + sum(m.words.size * m.width for m in held) / 64
