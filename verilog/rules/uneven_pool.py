"""Pools whose windows have several sizes: those that reach beyond the image, and adaptive ones whose parts differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.builder import gathered
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.norm import scaled
from espalier.verilog.templates.fold import WIDEST_SUM
from espalier.verilog.templates.window import Pair, Walk

Whole = NDArray[np.int64]


def sizes_of(walk: Walk, with_border: bool, border: Pair) -> Whole:
    """How many taps of each window count: those on the image, or on it and its border."""
    axes = zip(walk.image, walk.out, walk.kernel, walk.step, walk.before, border, strict=True)
    return together([counted(*axis, with_border=with_border) for axis in axes])


def counted(size: int, out: int, kernel: int, step: int, before: int, border: int, with_border: bool) -> Whole:
    """The same along one axis, for each place."""
    more = border if with_border else 0
    first = np.arange(out) * step - before
    return np.minimum(first + kernel, size + more) - np.maximum(first, -more)


def together(axes: Sequence[Whole]) -> Whole:
    """The products of a number along each axis, for each place."""
    return reduce(np.multiply.outer, axes).reshape(-1)


def parts(image: tuple[int, ...], out: tuple[int, ...]) -> tuple[Whole, Whole]:
    """[places, most pixels] of the parts of an adaptive pool, −1 where one has fewer; and how many each has."""
    ends = [[np.arange(k * n // o, -(-(k + 1) * n // o)) for k in range(o)] for n, o in zip(image, out, strict=True)]
    held = [np.ravel_multi_index(np.ix_(*axes), image).reshape(-1) for axes in product(*ends)]
    counts = np.array([len(h) for h in held])
    found = np.full((len(held), counts.max()), -1)
    for row, pixels in zip(found, held, strict=True):
        row[: len(pixels)] = pixels
    return found, counts


def brought(low: Lowering, node: Node, x: Signal, pixels: Whole, pad: int) -> Signal:
    """The pixels of each part, one after the other, `pad` where it has fewer; its `index` means nothing."""
    size, flat = x.stream.size, pixels.reshape(-1, 1)
    places = np.where(flat < 0, -1, flat * size + np.arange(size)).reshape(-1)
    return gathered(low, node, x, places, (len(flat), size), np.arange(places.size), size, pad)


def averaged(low: Lowering, node: Node, sums: Signal, came: Fixed, counts: Whole) -> Signal:
    """Sums over how many each place has, as fine as a mean of all is."""
    most = int(counts.max())
    places = min(came.width + most.bit_length(), WIDEST_SUM) + most.bit_length()
    codes = np.rint(np.ldexp(1.0, places) / counts).astype(np.int64)
    at = (sums.index % len(counts)).reshape(sums.stream.rows, sums.stream.size)
    form = Fixed(int(codes.max()).bit_length() + 1, places)
    made = scaled(low, node, sums, (codes[at], form), 0 * at, sums.fixed.frac + places)
    return replace(made, shape=low.shape(node))
