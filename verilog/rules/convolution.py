"""Convolutions: a window over the image, then the folded product of `linear` at each of its positions."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import Lowering, lowers, stays_folded
from espalier.verilog.lowering.signal_order import argument, unsupported
from espalier.verilog.lowering.sums import layer_sums, scaled_layer
from espalier.verilog.lowering.weights import Weights, weights
from espalier.verilog.numbers.scaled import Signs, zero_of
from espalier.verilog.rules.blocks import channels_of, in_fixed_point
from espalier.verilog.templates.depthwise import Depthwise
from espalier.verilog.templates.linear import Linear
from espalier.verilog.templates.linear_signs import LinearSigns
from espalier.verilog.templates.lines import completes_in_order
from espalier.verilog.templates.window import Pair, Walk, Window


@lowers("conv1d", "conv2d")
def convolution(low: Lowering, node: Node) -> None:
    """Each position of the kernel is a row of taps × channels; the weight's columns are put into that order."""
    layer = weights(low, node)
    if layer is None:
        raise EmitError(f"{node.id} convolves two computed tensors.", "Trace the model from modules.", node.id)
    layer = in_fixed_point(node, layer)
    groups = int(argument(node, "groups", 6, 1))
    out, per = node.ports["weight"].sizes(low.symbols)[:2]
    walk = walk_of(low, node, node.ports["weight"].sizes(low.symbols)[2:])
    if low.options.engine == "unrolled" and completes_in_order(walk):
        from espalier.verilog.lowering.unrolling import block_diagonal

        as_adders(low, node, walk, block_diagonal(groups, layer))
        return
    stays_folded(low, node, "its padding is so wide that one pixel completes several windows")
    if groups == out and per == 1:
        _depthwise(low, node, walk, layer)
        return
    par_in, par_out, _ = low.parallel(node, per * walk.taps, out // groups)
    x, channels = channels_of(low, node, math.gcd(par_in, per))
    if groups > 1 and (np.diff(channels) != 1).any():
        raise unsupported(node, "groups of reordered channels", "Keep the order of the channels.")
    positions = np.arange(per * walk.taps).reshape(per, walk.taps)[channels if groups == 1 else slice(None)]
    rows = low.resize(node, windows(low, node, x, walk, groups, border(node, x, walk)), par_in)
    low.publish(node, product(low, node, rows, walk, groups, layer.picked(positions.T.reshape(-1)), par_out))


def as_adders(low: Lowering, node: Node, walk: Walk, layer: Weights, shape: tuple[int, ...] = ()) -> None:
    """Unrolled convolution: all products of a position at once, a pixel per cycle; `shape`: that of the operand."""
    from espalier.verilog.lowering.unrolling import line_windows, publish_relu, unrolled

    size = layer.codes.shape[1] // walk.taps
    x, channels = channels_of(low, node, size, shape)
    columns = np.arange(size * walk.taps).reshape(size, walk.taps)[channels].T.reshape(-1)
    rows, layer = line_windows(low, node, x, walk, border(node, x, walk)), layer.picked(columns)
    wire, stream = unrolled(low, node, rows, layer, layer_sums(low, node, x.fixed, layer))
    index = np.arange(stream.elements).reshape(stream.size, walk.places).T.reshape(-1)
    low.publish(node, Signal(wire, stream, low.shape(node), index))
    publish_relu(low, node, wire)


def border(node: Node, x: Signal, walk: Walk) -> int:
    """The code of 0, for the padding."""
    if isinstance(x.fixed, Signs) and x.fixed.bipolar and (walk.under() < 0).any():
        raise unsupported(node, "zero padding of signs", "Use padding=0, or another format for its data_in.")
    return zero_of(x.fixed)


def product(low: Lowering, node: Node, x: Signal, walk: Walk, groups: int, layer: Weights, par_out: int) -> Signal:
    """Folded products of the window rows, as pixels of the result."""
    sums = layer_sums(low, node, x.fixed, layer)
    shape, out = low.shape(node), len(layer.codes)
    make = partial(
        LinearSigns if layer.signs else Linear, name=node.id, node=node.id, inputs=(x.stream,), shape=shape,
        weight=layer.codes, weight_format=layer.form, bias=sums.biases, accumulator=sums.accumulator, groups=groups,
    )  # fmt: skip
    first = Stream(x.stream.rows, out // groups, sums.accumulator, par_out)
    wire, last = scaled_layer(
        low, node, make, (x.wire,), first, sums, groups, x.stream.size // x.stream.par, image=True
    )
    stream = replace(last, rows=walk.places, size=out)
    index = np.arange(stream.elements).reshape(out, walk.places).T.reshape(-1)
    return Signal(wire, stream, shape, index)


def _depthwise(low: Lowering, node: Node, walk: Walk, layer: Weights) -> None:
    """Depthwise convolution: several channels in parallel, tap by tap."""
    lanes, _, _ = low.parallel(node, len(layer.codes), 1)
    x, channels = channels_of(low, node, lanes)
    rows = windows(low, node, x, walk, len(layer.codes) // lanes, border(node, x, walk))
    sums = layer_sums(low, node, x.fixed, layer).picked(channels)
    make = partial(
        Depthwise, name=node.id, node=node.id, inputs=(rows.stream,), shape=low.shape(node), bias=sums.biases,
        weight=layer.codes[channels], weight_format=layer.form, accumulator=sums.accumulator,
    )  # fmt: skip
    first = Stream(walk.places, len(layer.codes), sums.accumulator, lanes)
    wire, stream = scaled_layer(low, node, make, (rows.wire,), first, sums, pace=walk.taps, image=True)
    index = channels[None, :] * walk.places + np.arange(walk.places)[:, None]
    low.publish(node, Signal(wire, stream, low.shape(node), index.reshape(-1)))


def windows(low: Lowering, node: Node, x: Signal, walk: Walk, groups: int = 1, pad: int = 0) -> Signal:
    """The elements under the kernel at each of its positions, as a stream; its `index` is a placeholder."""
    size = walk.taps * x.stream.size // groups
    out = Stream(walk.places * groups, size, x.fixed, x.stream.par)
    instance = Window(
        name=low.free(f"{node.id}_window"), node=node.id, inputs=(x.stream,), outputs=(out,), walk=walk,
        groups=groups, pad=pad, shape=(walk.places * groups, size),
    )  # fmt: skip
    return Signal(low.add(instance, (x.wire,)), out, (out.rows, size), np.arange(out.elements))


def walk_of(low: Lowering, node: Node, kernel: tuple[int, ...]) -> Walk:
    """Geometry of a convolution; a sequence is an image one pixel wide."""
    image, out = low.shape(node, "data_in")[1:], low.shape(node)[1:]
    if argument(node, "padding_mode", 99, "zeros") != "zeros":
        raise unsupported(node, "padding other than zeros", "Use padding_mode='zeros'.")
    step, gap = (axes(argument(node, n, k, 1), len(image)) for n, k in (("stride", 3), ("dilation", 5)))
    padding = argument(node, "padding", 4, 0)
    if isinstance(padding, str):
        extent = [d * (k - 1) for d, k in zip(gap, kernel, strict=True)]
        leading = tuple(r // 2 if padding == "same" else 0 for r in extent)
    else:
        leading = axes(padding, len(image))
    return Walk(pair(image), pair(out), pair(kernel), pair(step), pair(gap), pair(leading, 0))


def axes(value: Any, count: int) -> tuple[int, ...]:
    """An option per axis, from a number for all axes or one for each."""
    values = tuple(int(v) for v in value) if isinstance(value, tuple | list) else (int(value),)
    return values * count if len(values) == 1 else values


def pair(sizes: tuple[int, ...], default: int = 1) -> Pair:
    """Two axes of an image; `default` is the second one of a sequence."""
    first, second = (*sizes, default)[:2]
    return first, second
