"""3-D pooling: the voxels under each kernel position are gathered from a buffered frame, then reduced.

For small volumes: a frame is buffered twice, and a table holds the order of reading.
"""

from __future__ import annotations

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, pixels, unsupported
from espalier.verilog.rules.convolution import axes
from espalier.verilog.rules.pool import as_image, grouped_mean, largest, mean
from espalier.verilog.rules.uneven_pool import Integers, counted, gathered_pixels, outer_product, parts

Sizes = tuple[int, ...]


@lowers("max_pool3d")
def max_pool(low: Lowering, node: Node) -> None:
    """Maximum under the kernel; padding is the smallest code."""
    _check(node)
    size, out, kernel, step, leading = _walk(low, node)
    gap = axes(argument(node, "dilation", 4, 1), 3)
    _largest(low, node, _under(size, [_along(*a) for a in zip(out, kernel, step, gap, leading, strict=True)]))


@lowers("adaptive_max_pool3d")
def adaptive_max(low: Lowering, node: Node) -> None:
    """Maximum of the whole volume, or of parts of it."""
    _check(node)
    _largest(low, node, parts(low.shape(node, "data_in")[1:], low.shape(node)[1:])[0])


@lowers("avg_pool3d")
def avg_pool(low: Lowering, node: Node) -> None:
    """Sum under the kernel, divided by the number of counted taps."""
    size, out, kernel, step, leading = _walk(low, node)
    under = _under(size, [_along(o, k, s, 1, b) for o, k, s, b in zip(out, kernel, step, leading, strict=True)])
    divisor, border = argument(node, "divisor_override", 6, None), bool(argument(node, "count_include_pad", 5, True))
    axis_sizes = zip(size, out, kernel, step, leading, leading, strict=True)
    counts = outer_product([counted(*axis, with_border=border) for axis in axis_sizes])
    _mean(low, node, under, np.full(len(counts), int(divisor)) if divisor else counts)


@lowers("adaptive_avg_pool3d")
def adaptive_avg(low: Lowering, node: Node) -> None:
    """Mean of the whole volume, or of parts of it."""
    _mean(low, node, *parts(low.shape(node, "data_in")[1:], low.shape(node)[1:]))


def _check(node: Node) -> None:
    if argument(node, "return_indices", 99, False):
        raise unsupported(node, "return_indices", "Use the values only.")


def _walk(low: Lowering, node: Node) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:
    """(volume, result, kernel, stride, padding) sizes along each axis."""
    kernel, step = axes(argument(node, "kernel_size", 1), 3), argument(node, "stride", 2, None)
    step = axes(step, 3) if step not in (None, (), []) else kernel
    leading = axes(argument(node, "padding", 3, 0), 3)
    return low.shape(node, "data_in")[1:], low.shape(node)[1:], kernel, step, leading


def _along(out: int, kernel: int, step: int, gap: int, leading: int) -> Integers:
    """Positions along one axis [out, kernel], which may lie outside the volume."""
    return np.arange(out)[:, None] * step - leading + np.arange(kernel) * gap


def _under(size: Sizes, along: list[Integers]) -> Integers:
    """The voxel under each tap [positions, taps], −1 outside the volume."""
    first, second, third = np.meshgrid(*(a.reshape(-1) for a in along), indexing="ij")
    inside, voxel = np.ones(first.shape, bool), np.zeros(first.shape, np.int64)
    for at, count in zip((first, second, third), size, strict=True):
        inside &= (at >= 0) & (at < count)
        voxel = voxel * count + at
    split = np.where(inside, voxel, -1).reshape([n for a in along for n in a.shape])
    return split.transpose(0, 2, 4, 1, 3, 5).reshape(int(np.prod([len(a) for a in along])), -1)


def _largest(low: Lowering, node: Node, under: Integers) -> None:
    x, channels = pixels(low, node, node.inputs[0])
    rows = gathered_pixels(low, node, x, under, x.fixed.low)
    low.publish(node, as_image(low, node, largest(low, node, rows, under.shape[1]), rows, channels))


def _mean(low: Lowering, node: Node, under: Integers, counts: Integers) -> None:
    x, channels = pixels(low, node, node.inputs[0])
    taps, rows = under.shape[1], gathered_pixels(low, node, x, under, 0)
    if (counts == counts[0]).all():
        mean(low, node, rows, channels, taps, int(counts[0]))
    else:
        grouped_mean(low, node, rows, channels, taps, counts)
