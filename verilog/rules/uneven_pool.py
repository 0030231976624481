"""Pooling with windows of several sizes: windows that reach beyond the image, and uneven adaptive pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.builder import gather_positions
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.norm import scaled
from espalier.verilog.templates.fold import WIDEST_SUM
from espalier.verilog.templates.window import Pair, Walk

Integers = NDArray[np.int64]


def sizes_of(walk: Walk, with_border: bool, border: Pair) -> Integers:
    """Counted taps of each window: those on the image, or on the image and its padding."""
    axes = zip(walk.image, walk.out, walk.kernel, walk.step, walk.before, border, strict=True)
    return outer_product([counted(*axis, with_border=with_border) for axis in axes])


def counted(size: int, out: int, kernel: int, step: int, leading: int, border: int, with_border: bool) -> Integers:
    """Counted taps along one axis, for each position."""
    beyond = border if with_border else 0
    first = np.arange(out) * step - leading
    return np.minimum(first + kernel, size + beyond) - np.maximum(first, -beyond)


def outer_product(axes: Sequence[Integers]) -> Integers:
    """Products of the numbers along each axis, for each position."""
    return reduce(np.multiply.outer, axes).reshape(-1)


def parts(image: tuple[int, ...], out: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Pixels of each part of an adaptive pool [parts, most pixels], padded with −1, and the number of each."""
    ends = [[np.arange(k * n // o, -(-(k + 1) * n // o)) for k in range(o)] for n, o in zip(image, out, strict=True)]
    pixels = [np.ravel_multi_index(np.ix_(*axes), image).reshape(-1) for axes in product(*ends)]
    counts = np.array([len(p) for p in pixels])
    padded = np.full((len(pixels), counts.max()), -1)
    for row, part in zip(padded, pixels, strict=True):
        row[: len(part)] = part
    return padded, counts


def gathered_pixels(low: Lowering, node: Node, x: Signal, pixels: Integers, pad: int) -> Signal:
    """The pixels of each part in order, −1: the code `pad`; the signal's `index` is a placeholder."""
    size, flat = x.stream.size, pixels.reshape(-1, 1)
    positions = np.where(flat < 0, -1, flat * size + np.arange(size)).reshape(-1)
    return gather_positions(low, node, x, positions, (len(flat), size), np.arange(positions.size), size, pad)


def averaged(low: Lowering, node: Node, sums: Signal, operand: Fixed, counts: Integers) -> Signal:
    """Sums divided by the count of their position, with the precision of an even mean."""
    largest = int(counts.max())
    bits = min(operand.width + largest.bit_length(), WIDEST_SUM) + largest.bit_length()
    codes = np.rint(np.ldexp(1.0, bits) / counts).astype(np.int64)
    at = (sums.index % len(counts)).reshape(sums.stream.rows, sums.stream.size)
    form = Fixed(int(codes.max()).bit_length() + 1, bits)
    means = scaled(low, node, sums, (codes[at], form), 0 * at, sums.fixed.frac + bits)
    return replace(means, shape=low.shape(node))
