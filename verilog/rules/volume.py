"""3-D convolutions: the slices of a volume become channels of an image, with banded weights.

For small volumes: each result multiplies all slices, most by zeros, which only the unrolled engine omits.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, unsupported
from espalier.verilog.lowering.weights import weights
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.rules.blocks import channels_of, in_fixed_point
from espalier.verilog.rules.convolution import as_adders, axes, border, pair, product, windows
from espalier.verilog.templates.lines import completes_in_order
from espalier.verilog.templates.window import Walk


@lowers("conv3d")
def volume(low: Lowering, node: Node) -> None:
    """A 2-D convolution over channels × slices."""
    layer = weights(low, node)
    if layer is None:
        raise EmitError(f"{node.id} convolves two computed tensors.", "Trace the model from modules.", node.id)
    layer = in_fixed_point(node, layer)
    if int(argument(node, "groups", 6, 1)) != 1:
        raise unsupported(node, "groups", "Use groups=1.")
    if argument(node, "padding_mode", 99, "zeros") != "zeros" or isinstance(argument(node, "padding", 4, 0), str):
        raise unsupported(node, "padding by name or other than zeros", "Use numbers and padding_mode='zeros'.")
    (channels, deep, *image), (outputs, slices, *out) = low.shape(node, "data_in"), low.shape(node)
    kernel = node.ports["weight"].sizes(low.symbols)[2:]
    step, leading, gap = (axes(argument(node, n, k, d), 3)
                         for n, k, d in (("stride", 3, 1), ("padding", 4, 0), ("dilation", 5, 1)))  # fmt: skip
    walk = Walk(pair(tuple(image)), pair(tuple(out)), pair(kernel[1:]), pair(step[1:]), pair(gap[1:]),
                pair(leading[1:], 0))  # fmt: skip
    taps = layer.codes.reshape(outputs, channels, kernel[0], walk.taps)
    wide = band(taps, deep, slices, (step[0], leading[0], gap[0]))
    scale = None if layer.scale is None else np.repeat(layer.scale, slices)
    layer = replace(layer, codes=wide, scale=scale, times=slices)
    shape = channels * deep, *image
    if low.options.engine == "unrolled" and completes_in_order(walk):
        as_adders(low, node, walk, layer, shape)
        return
    par_in, par_out, _ = low.parallel(node, wide.shape[1], len(wide))
    x, order = channels_of(low, node, gcd(par_in, shape[0]), shape)
    positions = np.arange(wide.shape[1]).reshape(shape[0], walk.taps)[order]
    rows = low.resize(node, windows(low, node, x, walk, 1, border(node, x, walk)), par_in)
    low.publish(node, product(low, node, rows, walk, 1, layer.picked(positions.T.reshape(-1)), par_out))


def band(taps: Codes, deep: int, slices: int, walk: tuple[int, int, int]) -> Codes:
    """Weights [outputs, channels, taps, …] along an axis of `deep` slices → weights of all slices for each result."""
    step, leading, gap = walk
    outputs, channels, count, others = taps.shape
    wide = np.zeros((outputs, slices, channels, deep, others), np.int64)
    for result in range(slices):
        for tap in range(count):
            at = result * step + tap * gap - leading
            if 0 <= at < deep:
                wide[:, result, :, at] = taps[:, :, tap]
    return wide.reshape(outputs * slices, -1)
