"""Pools in 3-D: the voxels under each place of the kernel come out of a frame that is held, then their largest or sum.

For small volumes, as convolutions in 3-D: a frame is held twice, and a table tells in which order it is read.
"""

from __future__ import annotations

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, pixels, unsupported
from espalier.verilog.rules.convolution import axes
from espalier.verilog.rules.pool import imaged, largest, mean, several
from espalier.verilog.rules.uneven_pool import Whole, brought, counted, parts, together

Sizes = tuple[int, ...]


@lowers("max_pool3d")
def max_pool(low: Lowering, node: Node) -> None:
    """The largest under the kernel; outside the volume is the smallest code."""
    _check(node)
    size, out, kernel, step, before = _walk(low, node)
    gap = axes(argument(node, "dilation", 4, 1), 3)
    _largest(low, node, _under(size, [_along(*a) for a in zip(out, kernel, step, gap, before, strict=True)]))


@lowers("adaptive_max_pool3d")
def adaptive_max(low: Lowering, node: Node) -> None:
    """The largest of the whole volume, or of parts of it."""
    _check(node)
    _largest(low, node, parts(low.shape(node, "data_in")[1:], low.shape(node)[1:])[0])


@lowers("avg_pool3d")
def avg_pool(low: Lowering, node: Node) -> None:
    """The sum under the kernel, over the number of taps that count."""
    size, out, kernel, step, before = _walk(low, node)
    under = _under(size, [_along(o, k, s, 1, b) for o, k, s, b in zip(out, kernel, step, before, strict=True)])
    divisor, border = argument(node, "divisor_override", 6, None), bool(argument(node, "count_include_pad", 5, True))
    each = zip(size, out, kernel, step, before, before, strict=True)
    counts = together([counted(*axis, with_border=border) for axis in each])
    _mean(low, node, under, np.full(len(counts), int(divisor)) if divisor else counts)


@lowers("adaptive_avg_pool3d")
def adaptive_avg(low: Lowering, node: Node) -> None:
    """The mean of the whole volume, or of parts of it."""
    _mean(low, node, *parts(low.shape(node, "data_in")[1:], low.shape(node)[1:]))


def _check(node: Node) -> None:
    if argument(node, "return_indices", 99, False):
        raise unsupported(node, "return_indices", "Take the values alone.")


def _walk(low: Lowering, node: Node) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:
    """Sizes of the volume and of the result, kernel, stride and padding along each axis."""
    kernel, step = axes(argument(node, "kernel_size", 1), 3), argument(node, "stride", 2, None)
    step = axes(step, 3) if step not in (None, (), []) else kernel
    before = axes(argument(node, "padding", 3, 0), 3)
    return low.shape(node, "data_in")[1:], low.shape(node)[1:], kernel, step, before


def _along(out: int, kernel: int, step: int, gap: int, before: int) -> Whole:
    """[out, kernel]: the position along one axis, beyond the volume too."""
    return np.arange(out)[:, None] * step - before + np.arange(kernel) * gap


def _under(size: Sizes, along: list[Whole]) -> Whole:
    """[places, taps]: the voxel under each tap, −1 outside the volume."""
    first, second, third = np.meshgrid(*(a.reshape(-1) for a in along), indexing="ij")
    inside, voxel = np.ones(first.shape, bool), np.zeros(first.shape, np.int64)
    for at, count in zip((first, second, third), size, strict=True):
        inside &= (at >= 0) & (at < count)
        voxel = voxel * count + at
    split = np.where(inside, voxel, -1).reshape([n for a in along for n in a.shape])
    return split.transpose(0, 2, 4, 1, 3, 5).reshape(int(np.prod([len(a) for a in along])), -1)


def _largest(low: Lowering, node: Node, under: Whole) -> None:
    x, channels = pixels(low, node, node.inputs[0])
    rows = brought(low, node, x, under, x.fixed.low)
    low.publish(node, imaged(low, node, largest(low, node, rows, under.shape[1]), rows, channels))


def _mean(low: Lowering, node: Node, under: Whole, counts: Whole) -> None:
    x, channels = pixels(low, node, node.inputs[0])
    taps, rows = under.shape[1], brought(low, node, x, under, 0)
    if (counts == counts[0]).all():
        mean(low, node, rows, channels, taps, int(counts[0]))
    else:
        several(low, node, rows, channels, taps, counts)
