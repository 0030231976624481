"""Pooling and reductions: windows with a group of channels per row, then the maximum or the sum of the taps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.builder import reordered, resize_rows
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import BATCH_AXIS, argument, pixels, unsupported
from espalier.verilog.rules.convolution import axes, pair, windows
from espalier.verilog.rules.uneven_pool import averaged, gathered_pixels, parts, sizes_of
from espalier.verilog.templates.fold import FoldMax, FoldSum, reciprocal, summed_format
from espalier.verilog.templates.window import Pair, Walk


@lowers("max_pool1d", "max_pool2d")
def max_pool(low: Lowering, node: Node) -> None:
    """Maximum under the kernel; padding is the smallest code."""
    if argument(node, "return_indices", 99, False):
        raise unsupported(node, "return_indices", "Use the values only.")
    x, channels = pixels(low, node, node.inputs[0])
    walk = pool_walk(low, node, gap=argument(node, "dilation", 4, 1))
    rows = _by_group(windows(low, node, x, walk, x.stream.size // x.stream.par, x.fixed.low))
    low.publish(node, as_image(low, node, largest(low, node, rows, walk.taps), rows, channels))


@lowers("avg_pool1d", "avg_pool2d")
def avg_pool(low: Lowering, node: Node) -> None:
    """Sum under the kernel, divided by the number of counted taps."""
    walk = pool_walk(low, node)
    is_uniform = all(
        (o - 1) * s + k <= n + 2 * b
        for o, s, k, n, b in zip(walk.out, walk.step, walk.kernel, walk.image, walk.before, strict=True)
    )
    divisor, border = argument(node, "divisor_override", 6, None), bool(argument(node, "count_include_pad", 5, True))
    x, channels = pixels(low, node, node.inputs[0])
    rows = _by_group(windows(low, node, x, walk, x.stream.size // x.stream.par))
    if divisor is None and (not is_uniform or (walk.before != (0, 0) and not border)):
        grouped_mean(low, node, rows, channels, walk.taps, sizes_of(walk, border, walk.before))
    else:
        mean(low, node, rows, channels, walk.taps, int(divisor or walk.taps))


@lowers("adaptive_avg_pool1d", "adaptive_avg_pool2d")
def adaptive_pool(low: Lowering, node: Node) -> None:
    """Mean of the whole image, or of parts of it."""
    image, out = (pair(low.shape(node, p)[1:]) for p in ("data_in", "data_out"))
    x, channels = pixels(low, node, node.inputs[0])
    if out == (1, 1):
        mean(low, node, x, channels, x.stream.rows, x.stream.rows)
        return
    if _uneven(image, out):
        pixels_of, counts = parts(image, out)
        rows = gathered_pixels(low, node, x, pixels_of, 0)
        grouped_mean(low, node, rows, channels, pixels_of.shape[1], counts)
        return
    rows, walk = _parts(low, node, x, image, out)
    mean(low, node, rows, channels, walk.taps, walk.taps)


def _uneven(image: Pair, out: Pair) -> bool:
    return bool(image[0] % out[0] or image[1] % out[1])


def grouped_mean(low: Lowering, node: Node, rows: Signal, channels: np.ndarray, taps: int, counts: np.ndarray) -> None:
    """Sums of `taps` rows each, divided by the `counts` of their positions."""
    out = replace(rows.stream, rows=rows.stream.rows // taps, fixed=summed_format(taps, 1, 0, rows.fixed))
    fold = FoldSum(name=low.free(f"{node.id}_sum"), node=node.id, inputs=(rows.stream,), outputs=(out,),
                   shape=low.shape(node), count=taps, multiplier=1, shift=0)  # fmt: skip
    low.publish(node, averaged(low, node, as_image(low, node, fold, rows, channels), rows.fixed, counts))


def _parts(low: Lowering, node: Node, x: Signal, image: Pair, out: Pair) -> tuple[Signal, Walk]:
    """The pixels of each part of an image, as windows."""
    kernel = image[0] // out[0], image[1] // out[1]
    walk = Walk(image, out, kernel, kernel)
    return _by_group(windows(low, node, x, walk, x.stream.size // x.stream.par)), walk


def largest(low: Lowering, node: Node, rows: Signal, taps: int) -> FoldMax:
    """Maximum of `taps` rows each."""
    out = replace(rows.stream, rows=rows.stream.rows // taps)
    return FoldMax(name=node.id, node=node.id, inputs=(rows.stream,), outputs=(out,), shape=low.shape(node),
                   count=taps)  # fmt: skip


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d")
def adaptive_max(low: Lowering, node: Node) -> None:
    """Maximum of the whole image, or of parts of it."""
    if argument(node, "return_indices", 99, False):
        raise unsupported(node, "return_indices", "Use the values only.")
    image, out = (pair(low.shape(node, p)[1:]) for p in ("data_in", "data_out"))
    x, channels = pixels(low, node, node.inputs[0])
    if out != (1, 1):
        if _uneven(image, out):
            pixels_of, _ = parts(image, out)
            rows, taps = gathered_pixels(low, node, x, pixels_of, x.fixed.low), pixels_of.shape[1]
        else:
            rows, walk = _parts(low, node, x, image, out)
            taps = walk.taps
        low.publish(node, as_image(low, node, largest(low, node, rows, taps), rows, channels))
        return
    fold = FoldMax(name=node.id, node=node.id, inputs=(x.stream,), outputs=(replace(x.stream, rows=1),),
                   shape=low.shape(node), count=x.stream.rows)  # fmt: skip
    low.publish(node, as_image(low, node, fold, x, channels))


@lowers("mean", "sum", "amax")
def reduction(low: Lowering, node: Node) -> None:
    """Reduction over any axes of a sample: those of an image or a sequence directly, others after reordering."""
    dim = argument(node, "dim", 1, None)
    sizes = low.shape(node, "data_in")
    axes = dim if isinstance(dim, tuple | list) else [dim] if dim is not None else ()
    dims = {low.axis(node, int(d), "data_in") for d in axes} or set(range(len(sizes)))
    if -1 in dims:
        raise unsupported(node, BATCH_AXIS, "Apply it over axes of the sample.")
    if len(sizes) == 2 and dims == {0}:
        x = low.operand(node, node.inputs[0], "data_in")
        x = (
            reordered(low, node, x, np.arange(x.index.size), sizes[1])
            if not x.in_order
            else resize_rows(low, node, x, sizes[1])
        )
        channels = np.arange(sizes[1])
    elif len(sizes) > 1 and dims == set(range(1, len(sizes))):
        x, channels = pixels(low, node, node.inputs[0])
    else:
        _along(low, node, dims)
        return
    _reduced(low, node, x, channels, x.stream.rows)


def _along(low: Lowering, node: Node, dims: set[int]) -> None:
    """Reduce over axes after moving them to the end, with an element per row."""
    x = low.operand(node, node.inputs[0], "data_in")
    outer = [d for d in range(len(x.shape)) if d not in dims]
    numbers = np.arange(x.index.size).reshape(x.shape).transpose(*outer, *sorted(dims)).reshape(-1)
    count = int(np.prod([x.shape[d] for d in dims]))
    x = low.resize(node, reordered(low, node, x, numbers, count), 1, 1)
    x = replace(x, stream=replace(x.stream, rows=x.stream.elements, size=1))
    _reduced(low, node, x, np.zeros(1, np.int64), count)


def _reduced(low: Lowering, node: Node, x: Signal, channels: np.ndarray, count: int) -> None:
    if node.op != "amax":
        mean(low, node, x, channels, count, count if node.op == "mean" else 1)
        return
    fold = FoldMax(name=low.free(node.id), node=node.id, inputs=(x.stream,), count=count, shape=low.shape(node),
                   outputs=(replace(x.stream, rows=x.stream.rows // count),))  # fmt: skip
    low.publish(node, as_image(low, node, fold, x, channels))


def mean(low: Lowering, node: Node, x: Signal, channels: np.ndarray, count: int, divisor: int) -> None:
    """Sums of `count` rows each, divided by a constant."""
    multiplier, shift = reciprocal(divisor, x.stream)
    to, rounding = low.result(node, summed_format(count, multiplier, shift, x.fixed))
    out = replace(x.stream, rows=x.stream.rows // count, fixed=to)
    fold = FoldSum(
        name=node.id, node=node.id, inputs=(x.stream,), outputs=(out,), shape=low.shape(node), count=count,
        multiplier=multiplier, shift=shift, rounding=rounding,
    )  # fmt: skip
    low.publish(node, as_image(low, node, fold, x, channels))


def _by_group(x: Signal) -> Signal:
    """The beats of windows as rows: a tap of a group of channels each."""
    stream = x.stream
    return replace(x, stream=replace(stream, rows=stream.elements // stream.par, size=stream.par))


def as_image(low: Lowering, node: Node, fold: FoldMax | FoldSum, x: Signal, channels: np.ndarray) -> Signal:
    """Add a fold; its result as pixels, with channels in the order of the operand."""
    out = fold.outputs[0]
    shape = low.shape(node)
    count = int(np.prod(shape)) // len(channels)
    stream = Stream(count, len(channels), out.fixed, out.par)
    index = channels[None, :] * count + np.arange(count)[:, None]
    return Signal(low.add(fold, (x.wire,)), stream, shape, index.reshape(-1))


def pool_walk(low: Lowering, node: Node, gap: object = 1) -> Walk:
    """Geometry of a pool; the stride defaults to the kernel size."""
    image, out = low.shape(node, "data_in")[1:], low.shape(node)[1:]
    kernel = axes(argument(node, "kernel_size", 1), len(image))
    step = argument(node, "stride", 2, None)
    step = axes(step, len(image)) if step not in (None, (), []) else kernel
    leading = axes(argument(node, "padding", 3, 0), len(image))
    return Walk(pair(image), pair(out), pair(kernel), pair(step), pair(axes(gap, len(image))), pair(leading, 0))
