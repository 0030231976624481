"""Convolutions: a window over the image, then the folded product of `linear` at each of its places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from model.errors import EmitError
from model.graph import Node
from verilog.fixed import Codes, Fixed
from verilog.layout import argument, pixels, refused
from verilog.lower import Lowering, lowers
from verilog.rules.linear import summed
from verilog.signal import Signal
from verilog.stream import Stream
from verilog.templates.depthwise import Depthwise
from verilog.templates.linear import Linear
from verilog.templates.window import Pair, Walk, Window


@lowers("conv1d", "conv2d")
def convolution(low: Lowering, node: Node) -> None:
    """Each place of the kernel is a row of taps × channels; the columns of the weight are put into that order."""
    stored = low.weight(node, "weight")
    if stored is None:
        raise EmitError(f"{node.id} convolves two computed tensors.", "Trace the model from modules.", node.id)
    weight, form = stored
    groups = int(argument(node, "groups", 6, 1))
    out, per = weight.shape[:2]
    walk = walk_of(low, node, weight.shape[2:])
    if groups == out and per == 1:
        _depthwise(low, node, walk, weight.reshape(out, walk.taps), form)
        return
    par_in, par_out, _ = low.parallel(node, per * walk.taps, out // groups)
    x, channels = pixels(low, node, node.inputs[0], math.gcd(par_in, per))
    if groups > 1 and (np.diff(channels) != 1).any():
        raise refused(node, "groups of channels that do not come together", "Keep the order of the channels.")
    weight = weight.reshape(out, per, walk.taps)[:, channels if groups == 1 else slice(None)]
    weight = weight.transpose(0, 2, 1).reshape(out, -1)
    rows = low.resize(node, windows(low, node, x, walk, groups), par_in)
    low.publish(node, _product(low, node, rows, walk, groups, weight, (form, par_out)))


def _product(low: Lowering, node: Node, x: Signal, walk: Walk, groups: int, weight: Codes, how: Any) -> Signal:
    form, par_out = how
    accumulator, biases = summed(weight, form, x.fixed, low.weight(node, "bias"))
    to, rounding = low.result(node, accumulator)
    shape = low.shape(node)
    made = Linear(
        name=node.id, node=node.id, inputs=(x.stream,), shape=shape, weight=weight, weight_format=form, bias=biases,
        accumulator=accumulator, rounding=rounding, groups=groups,
        outputs=(Stream(x.stream.rows, len(weight) // groups, to, par_out),),
    )  # fmt: skip
    stream = Stream(walk.places, len(weight), to, par_out)
    index = np.arange(stream.elements).reshape(len(weight), walk.places).T.reshape(-1)
    return Signal(low.add(made, (x.wire,)), stream, shape, index)


def _depthwise(low: Lowering, node: Node, walk: Walk, weight: Codes, form: Fixed) -> None:
    """One channel of the result for each of the operand: several of them side by side, tap by tap."""
    lanes, _, _ = low.parallel(node, len(weight), 1)
    x, channels = pixels(low, node, node.inputs[0], lanes)
    rows = windows(low, node, x, walk, len(weight) // lanes)
    accumulator, biases = summed(weight, form, x.fixed, low.weight(node, "bias"))
    to, rounding = low.result(node, accumulator)
    stream = Stream(walk.places, len(weight), to, lanes)
    made = Depthwise(
        name=node.id, node=node.id, inputs=(rows.stream,), outputs=(stream,), shape=low.shape(node),
        weight=weight[channels], weight_format=form, bias=biases[channels], accumulator=accumulator, rounding=rounding,
    )  # fmt: skip
    index = channels[None, :] * walk.places + np.arange(walk.places)[:, None]
    low.publish(node, Signal(low.add(made, (rows.wire,)), stream, low.shape(node), index.reshape(-1)))


def windows(low: Lowering, node: Node, x: Signal, walk: Walk, groups: int = 1, pad: int = 0) -> Signal:
    """What lies under the kernel at each of its places, as a stream; its `index` means nothing."""
    size = walk.taps * x.stream.size // groups
    out = Stream(walk.places * groups, size, x.fixed, x.stream.par)
    made = Window(
        name=low.free(f"{node.id}_window"), node=node.id, inputs=(x.stream,), outputs=(out,), walk=walk,
        groups=groups, pad=pad, shape=(walk.places * groups, size),
    )  # fmt: skip
    return Signal(low.add(made, (x.wire,)), out, (out.rows, size), np.arange(out.elements))


def walk_of(low: Lowering, node: Node, kernel: tuple[int, ...]) -> Walk:
    """Kernel, stride, dilation and padding of a convolution; a sequence is an image one pixel wide."""
    image, out = low.shape(node, "data_in")[1:], low.shape(node)[1:]
    if argument(node, "padding_mode", 99, "zeros") != "zeros":
        raise refused(node, "padding that is no zeros", "Use padding_mode='zeros'.")
    step, gap = (axes(argument(node, n, k, 1), len(image)) for n, k in (("stride", 3), ("dilation", 5)))
    padding = argument(node, "padding", 4, 0)
    if isinstance(padding, str):
        reach = [d * (k - 1) for d, k in zip(gap, kernel, strict=True)]
        before = tuple(r // 2 if padding == "same" else 0 for r in reach)
    else:
        before = axes(padding, len(image))
    return Walk(pair(image), pair(out), pair(kernel), pair(step), pair(gap), pair(before, 0))


def axes(value: Any, count: int) -> tuple[int, ...]:
    """An option for each axis: a number for all, or one for each."""
    many = tuple(int(v) for v in value) if isinstance(value, tuple | list) else (int(value),)
    return many * count if len(many) == 1 else many


def pair(sizes: tuple[int, ...], other: int = 1) -> Pair:
    """Both axes of an image; the second of a sequence is one wide."""
    first, second = (*sizes, other)[:2]
    return first, second
