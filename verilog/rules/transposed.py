"""Transposed convolutions: one convolution whose outputs are the phases of the larger image, interleaved."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, pixels, unsupported
from espalier.verilog.lowering.sums import check_width, summed
from espalier.verilog.numbers.fixed import Codes, Fixed
from espalier.verilog.rules.convolution import axes, windows
from espalier.verilog.rules.convolution import pair as both
from espalier.verilog.rules.indices import select_elements
from espalier.verilog.templates.linear import Linear
from espalier.verilog.templates.window import Walk


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: `size` results, `step` per kernel position; `taps[r][e]`: kernel tap of result r of a position for the
    e-th input under it, −1 for none; the first of these inputs is `before` positions ahead."""

    size: int
    step: int
    taps: tuple[tuple[int, ...], ...]
    before: int

    @property
    def places(self) -> int:
        """Positions of the kernel."""
        return -(-self.size // self.step)


def axis_of(size: int, kernel: int, step: int, leading: int, gap: int) -> Axis:
    """The axis of a transposed convolution: result o uses tap k of input i if i·step = o + before − k·gap."""
    meets = {(r, k): (r + leading - k * gap) // step
             for r in range(step) for k in range(kernel) if (r + leading - k * gap) % step == 0}  # fmt: skip
    first, last = min(0, *meets.values()), max(0, *meets.values())
    taps = [[-1] * (last - first + 1) for _ in range(step)]
    for (r, k), at in meets.items():
        taps[r][at - first] = k
    return Axis(size, step, tuple(map(tuple, taps)), -first)


@lowers("conv_transpose1d", "conv_transpose2d")
def transposed(low: Lowering, node: Node) -> None:
    """Each position of the image gives step × step results of each channel."""
    stored = low.weight(node, "weight")
    if stored is None:
        raise EmitError(f"{node.id} convolves two computed tensors.", "Trace the model from modules.", node.id)
    codes, form = stored
    groups = int(argument(node, "groups", 6, 1))
    image, result = low.shape(node, "data_in"), low.shape(node)
    step, leading, gap = (axes(argument(node, n, k, d), len(image) - 1)
                         for n, k, d in (("stride", 3, 1), ("padding", 4, 0), ("dilation", 7, 1)))  # fmt: skip
    sides = [axis_of(*axis) for axis in zip(result[1:], codes.shape[2:], step, leading, gap, strict=True)]
    sides += [axis_of(1, 1, 1, 0, 1)] * (2 - len(sides))
    walk = Walk(both(image[1:]), (sides[0].places, sides[1].places), (len(sides[0].taps[0]), len(sides[1].taps[0])),
                before=(sides[0].before, sides[1].before))  # fmt: skip
    weight = spread(codes.reshape(*codes.shape[:2], codes.shape[2], -1), sides, groups)
    per, parts = image[0] // groups, sides[0].step * sides[1].step
    par_in, par_out, _ = low.parallel(node, per * walk.taps, len(weight) // groups)
    x, channels = pixels(low, node, node.inputs[0], gcd(par_in, per))
    if groups > 1 and (np.diff(channels) != 1).any():
        raise unsupported(node, "groups of reordered channels", "Keep the order of the channels.")
    weight = weight[:, channels if groups == 1 else slice(None)].transpose(0, 2, 1).reshape(len(weight), -1)
    rows = low.resize(node, windows(low, node, x, walk, groups), par_in)
    products = _product(low, node, rows, groups, (weight, form), parts, par_out)
    low.publish(node, _image(low, node, products, sides, groups))


def spread(codes: Codes, sides: list[Axis], groups: int) -> Codes:
    """[inputs, outputs of a group, height, width] → [group · part · output, inputs of a group, taps]."""
    inputs, outputs = codes.shape[:2]
    padded = np.pad(codes, ((0, 0), (0, 0), (0, 1), (0, 1)))  # zeros at index −1
    grouped = padded.reshape(groups, inputs // groups, outputs, *padded.shape[2:])
    parts = [
        grouped[:, :, :, list(rows)][..., list(columns)].transpose(0, 2, 1, 3, 4)
        for rows, columns in product(sides[0].taps, sides[1].taps)
    ]
    return np.stack(parts, axis=1).reshape(groups * len(parts) * outputs, inputs // groups, -1)


def _product(low: Lowering, node: Node, x: Signal, groups: int, weights: tuple[Codes, Fixed], parts: int,
             par_out: int) -> Signal:  # fmt: skip
    weight, form = weights
    bias = low.weight(node, "bias")
    if bias is not None:
        bias = np.tile(bias[0].reshape(groups, 1, -1), (1, parts, 1)).reshape(-1), bias[1]
    check_width(node, x.fixed, form, weight.shape[1])
    accumulator, biases = summed(weight, form, x.fixed, bias)
    to, rounding = low.result(node, accumulator)
    out = Stream(x.stream.rows, len(weight) // groups, to, par_out)
    instance = Linear(
        name=low.free(node.id), node=node.id, inputs=(x.stream,), outputs=(out,), shape=low.shape(node), weight=weight,
        weight_format=form, bias=biases, accumulator=accumulator, rounding=rounding, groups=groups,
    )  # fmt: skip
    stream = Stream(out.elements // len(weight), len(weight), to, par_out)
    return Signal(low.add(instance, (x.wire,)), stream, (stream.elements,), np.arange(stream.elements))


def _image(low: Lowering, node: Node, x: Signal, sides: list[Axis], groups: int) -> Signal:
    """The results as an image, cropped to its size."""
    height, width = sides
    sizes = height.places, width.places, groups, height.step, width.step, -1
    numbers = np.arange(x.stream.elements).reshape(sizes)  # … and the channels of a group
    image = numbers.transpose(2, 5, 0, 3, 1, 4).reshape(-1, height.places * height.step, width.places * width.step)
    full = Signal(x.wire, x.stream, image.shape, np.argsort(image.reshape(-1)))
    cropped = np.arange(image.size).reshape(image.shape)[:, : height.size, : width.size]
    return select_elements(low, node, full, cropped.reshape(low.shape(node)))
