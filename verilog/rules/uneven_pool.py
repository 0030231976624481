"""Pools whose windows have several sizes: those that reach beyond the image, and adaptive ones whose parts differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from model.graph import Node
from verilog.lower import Lowering
from verilog.numbers.fixed import Fixed
from verilog.plan.layout import gathered
from verilog.rules.norm import scaled
from verilog.signal import Signal
from verilog.templates.fold import WIDEST_SUM
from verilog.templates.window import Pair, Walk

Whole = NDArray[np.int64]


def sizes_of(walk: Walk, with_border: bool, border: Pair) -> Whole:
    """How many taps of each window count: those on the image, or on it and its border."""
    found: list[Whole] = []
    for axis in range(2):
        more = border[axis] if with_border else 0
        first = np.arange(walk.out[axis]) * walk.step[axis] - walk.before[axis]
        last = np.minimum(first + walk.kernel[axis], walk.image[axis] + more)
        found.append(last - np.maximum(first, -more))
    return (found[0][:, None] * found[1][None, :]).reshape(-1)


def parts(image: Pair, out: Pair) -> tuple[Whole, Whole]:
    """[places, most pixels] of the parts of an adaptive pool, −1 where one has fewer; and how many each has."""
    ends = [[(k * n // o, -(-(k + 1) * n // o)) for k in range(o)] for n, o in zip(image, out, strict=True)]
    held = [
        (np.arange(*rows)[:, None] * image[1] + np.arange(*columns)).reshape(-1)
        for rows in ends[0] for columns in ends[1]
    ]  # fmt: skip
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
