"""Pools and means: a window whose channels leave one group after the other, then the largest or the sum of the taps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.builder import cut, reordered
from espalier.verilog.lowering.layout import argument, pixels, refused
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.rules.convolution import axes, pair, windows
from espalier.verilog.rules.uneven_pool import averaged, brought, parts, sizes_of
from espalier.verilog.templates.fold import FoldMax, FoldSum, reciprocal, summed_format
from espalier.verilog.templates.window import Pair, Walk


@lowers("max_pool1d", "max_pool2d")
def max_pool(low: Lowering, node: Node) -> None:
    """The largest under the kernel; outside the image is the smallest code."""
    if argument(node, "return_indices", 99, False):
        raise refused(node, "return_indices", "Take the values alone.")
    x, channels = pixels(low, node, node.inputs[0])
    walk = pool_walk(low, node, gap=argument(node, "dilation", 4, 1))
    rows = _by_group(windows(low, node, x, walk, x.stream.size // x.stream.par, x.fixed.low))
    low.publish(node, imaged(low, node, largest(low, node, rows, walk.taps), rows, channels))


@lowers("avg_pool1d", "avg_pool2d")
def avg_pool(low: Lowering, node: Node) -> None:
    """The sum under the kernel, divided by the number of taps."""
    walk = pool_walk(low, node)
    whole = all(
        (o - 1) * s + k <= n + 2 * b
        for o, s, k, n, b in zip(walk.out, walk.step, walk.kernel, walk.image, walk.before, strict=True)
    )
    divisor, border = argument(node, "divisor_override", 6, None), bool(argument(node, "count_include_pad", 5, True))
    x, channels = pixels(low, node, node.inputs[0])
    rows = _by_group(windows(low, node, x, walk, x.stream.size // x.stream.par))
    if divisor is None and (not whole or (walk.before != (0, 0) and not border)):
        several(low, node, rows, channels, walk.taps, sizes_of(walk, border, walk.before))
    else:
        mean(low, node, rows, channels, walk.taps, int(divisor or walk.taps))


@lowers("adaptive_avg_pool1d", "adaptive_avg_pool2d")
def adaptive_pool(low: Lowering, node: Node) -> None:
    """The mean of the whole image, or of equal parts of it."""
    image, out = (pair(low.shape(node, p)[1:]) for p in ("data_in", "data_out"))
    x, channels = pixels(low, node, node.inputs[0])
    if out == (1, 1):
        mean(low, node, x, channels, x.stream.rows, x.stream.rows)
        return
    if _uneven(image, out):
        pixels_of, counts = parts(image, out)
        rows = brought(low, node, x, pixels_of, 0)
        several(low, node, rows, channels, pixels_of.shape[1], counts)
        return
    rows, walk = _parts(low, node, x, image, out)
    mean(low, node, rows, channels, walk.taps, walk.taps)


def _uneven(image: Pair, out: Pair) -> bool:
    return bool(image[0] % out[0] or image[1] % out[1])


def several(low: Lowering, node: Node, rows: Signal, channels: np.ndarray, taps: int, counts: np.ndarray) -> None:
    """The sums of `taps` rows each, over how many of them count."""
    out = replace(rows.stream, rows=rows.stream.rows // taps, fixed=summed_format(taps, 1, 0, rows.fixed))
    made = FoldSum(name=low.free(f"{node.id}_sum"), node=node.id, inputs=(rows.stream,), outputs=(out,),
                   shape=low.shape(node), count=taps, multiplier=1, shift=0)  # fmt: skip
    low.publish(node, averaged(low, node, imaged(low, node, made, rows, channels), rows.fixed, counts))


def _parts(low: Lowering, node: Node, x: Signal, image: Pair, out: Pair) -> tuple[Signal, Walk]:
    """The pixels of each part of an image."""
    kernel = image[0] // out[0], image[1] // out[1]
    walk = Walk(image, out, kernel, kernel)
    return _by_group(windows(low, node, x, walk, x.stream.size // x.stream.par)), walk


def largest(low: Lowering, node: Node, rows: Signal, taps: int) -> FoldMax:
    """The largest of `taps` rows each."""
    out = replace(rows.stream, rows=rows.stream.rows // taps)
    return FoldMax(name=node.id, node=node.id, inputs=(rows.stream,), outputs=(out,), shape=low.shape(node),
                   count=taps)  # fmt: skip


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d")
def adaptive_max(low: Lowering, node: Node) -> None:
    """The largest of the whole image, or of equal parts of it."""
    if argument(node, "return_indices", 99, False):
        raise refused(node, "return_indices", "Take the values alone.")
    image, out = (pair(low.shape(node, p)[1:]) for p in ("data_in", "data_out"))
    x, channels = pixels(low, node, node.inputs[0])
    if out != (1, 1):
        if _uneven(image, out):
            pixels_of, _ = parts(image, out)
            rows, taps = brought(low, node, x, pixels_of, x.fixed.low), pixels_of.shape[1]
        else:
            rows, walk = _parts(low, node, x, image, out)
            taps = walk.taps
        low.publish(node, imaged(low, node, largest(low, node, rows, taps), rows, channels))
        return
    made = FoldMax(name=node.id, node=node.id, inputs=(x.stream,), outputs=(replace(x.stream, rows=1),),
                   shape=low.shape(node), count=x.stream.rows)  # fmt: skip
    low.publish(node, imaged(low, node, made, x, channels))


@lowers("mean", "sum", "amax")
def reduction(low: Lowering, node: Node) -> None:
    """Over any axes of a sample: an image's or the rows of a sequence as they come, others put together first."""
    given = argument(node, "dim", 1, None)
    sizes = low.shape(node, "data_in")
    many = given if isinstance(given, tuple | list) else [given] if given is not None else ()
    dims = {low.axis(node, int(d), "data_in") for d in many} or set(range(len(sizes)))
    if -1 in dims:
        raise refused(node, "samples put together", "Take it over axes of one sample.")
    if len(sizes) == 2 and dims == {0}:
        x = low.operand(node, node.inputs[0], "data_in")
        x = reordered(low, node, x, np.arange(x.index.size), sizes[1]) if not x.plain else cut(low, node, x, sizes[1])
        channels = np.arange(sizes[1])
    elif len(sizes) > 1 and dims == set(range(1, len(sizes))):
        x, channels = pixels(low, node, node.inputs[0])
    else:
        _along(low, node, dims)
        return
    _reduced(low, node, x, channels, x.stream.rows)


def _along(low: Lowering, node: Node, dims: set[int]) -> None:
    """Elements that become one come one after the other, each a row."""
    x = low.operand(node, node.inputs[0], "data_in")
    kept = [d for d in range(len(x.shape)) if d not in dims]
    numbers = np.arange(x.index.size).reshape(x.shape).transpose(*kept, *sorted(dims)).reshape(-1)
    count = int(np.prod([x.shape[d] for d in dims]))
    x = low.resize(node, reordered(low, node, x, numbers, count), 1, 1)
    x = replace(x, stream=replace(x.stream, rows=x.stream.elements, size=1))
    _reduced(low, node, x, np.zeros(1, np.int64), count)


def _reduced(low: Lowering, node: Node, x: Signal, channels: np.ndarray, count: int) -> None:
    if node.op != "amax":
        mean(low, node, x, channels, count, count if node.op == "mean" else 1)
        return
    made = FoldMax(name=low.free(node.id), node=node.id, inputs=(x.stream,), count=count, shape=low.shape(node),
                   outputs=(replace(x.stream, rows=x.stream.rows // count),))  # fmt: skip
    low.publish(node, imaged(low, node, made, x, channels))


def mean(low: Lowering, node: Node, x: Signal, channels: np.ndarray, count: int, divisor: int) -> None:
    """The sums of `count` rows each, over a divisor."""
    multiplier, shift = reciprocal(divisor, x.stream)
    to, rounding = low.result(node, summed_format(count, multiplier, shift, x.fixed))
    out = replace(x.stream, rows=x.stream.rows // count, fixed=to)
    made = FoldSum(
        name=node.id, node=node.id, inputs=(x.stream,), outputs=(out,), shape=low.shape(node), count=count,
        multiplier=multiplier, shift=shift, rounding=rounding,
    )  # fmt: skip
    low.publish(node, imaged(low, node, made, x, channels))


def _by_group(x: Signal) -> Signal:
    """The windows' beats as rows of their own: a tap of a group of channels each."""
    now = x.stream
    return replace(x, stream=replace(now, rows=now.elements // now.par, size=now.par))


def imaged(low: Lowering, node: Node, made: FoldMax | FoldSum, x: Signal, channels: np.ndarray) -> Signal:
    """Pixels again, their channels in the order of the operand."""
    out = made.outputs[0]
    shape = low.shape(node)
    count = int(np.prod(shape)) // len(channels)
    stream = Stream(count, len(channels), out.fixed, out.par)
    index = channels[None, :] * count + np.arange(count)[:, None]
    return Signal(low.add(made, (x.wire,)), stream, shape, index.reshape(-1))


def pool_walk(low: Lowering, node: Node, gap: object = 1) -> Walk:
    """Kernel, stride and padding of a pool; the stride is the kernel's size where none is given."""
    image, out = low.shape(node, "data_in")[1:], low.shape(node)[1:]
    kernel = axes(argument(node, "kernel_size", 1), len(image))
    step = argument(node, "stride", 2, None)
    step = axes(step, len(image)) if step not in (None, (), []) else kernel
    before = axes(argument(node, "padding", 3, 0), len(image))
    return Walk(pair(image), pair(out), pair(kernel), pair(step), pair(axes(gap, len(image))), pair(before, 0))
