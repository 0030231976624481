"""Layers with block formats (MXINT): nn.Linear takes mantissas and exponents; convolutions, whose windows mix blocks,
take the blocks' values in fixed point. Sums are exact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.graph import Node
from espalier.model.graph.ports import choice
from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.builder import reordered, resize_rows
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.lowering.signal_order import pixels, rows_of, unsupported
from espalier.verilog.lowering.sums import Sums, check_width, scaled_layer, summed
from espalier.verilog.lowering.weights import Weights
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, covering
from espalier.verilog.numbers.scaled import plain
from espalier.verilog.templates.blocks import (
    EXPONENT,
    BlockDivision,
    BlockExponent,
    BlockMantissa,
    BlockRound,
    back_in,
    base,
)
from espalier.verilog.templates.linear_blocks import LinearBlocks

FAR = 25  # most bits of block weights as integers: the wider operand of a DSP block


def blocks_of(node: Node) -> MXInt | None:
    """The block format of a layer's data_in; None for other formats."""
    precision = choice(node, "data_in")
    return precision.format if precision is not None and isinstance(precision.format, MXInt) else None


def from_fixed_point(low: Lowering, node: Node) -> MXInt | None:
    """`blocks_of`, checked to be computable from another instance's fixed point; raises EmitError."""
    form = blocks_of(node)
    if form is not None and form.rows > 1:
        text = f"data_in of {node.id} is in {form.label}, in blocks of several rows."
        raise EmitError(text, "Choose `mxint` with rows=1, or `integer`.", node.id)
    if form is not None and node.inputs[0].node in low.host:
        text = f"data_in of {node.id} is in {form.label}, and the host only sends fixed point."
        raise EmitError(text, "Choose `integer` for data_in of the first layer.", node.id)
    return form


def by_blocks(low: Lowering, node: Node, layer: Weights) -> tuple[Signal, Wire, Stream]:
    """Lower nn.Linear on blocks computed from its fixed-point operand; returns operand, wire and stream."""
    form = from_fixed_point(low, node)
    if layer.scale is not None:
        text = f"{node.id} multiplies a block format by a scaled one."
        raise EmitError(text, "Choose `mxint` with rows=1 or `integer` for both operands.", node.id)
    outputs, inputs = layer.codes.shape
    sizes = [min(b, inputs) for b in (layer.block, form.block if form else 0) if b]
    par_in, par_out, _ = low.parallel(node, math.gcd(inputs, *sizes), outputs)
    x = rows_of(low, node, node.inputs[0], par_in)
    if not plain(x.fixed) or (x.index.reshape(-1, inputs) % inputs != np.arange(inputs)).any():
        raise unsupported(node, "an operand whose blocks are not contiguous", "Choose `integer` for its data_in.")
    out, rows = low.shape(node), x.stream.rows
    exponents, lowest = relative_exponents(layer)
    weight = replace(layer.form, frac=layer.form.frac - lowest)
    wide = Fixed(x.fixed.width + x.fixed.signed, x.fixed.frac, x.fixed.signed)
    of_w = layer.block or inputs
    check_width(node, wide, Fixed(weight.width + int(exponents.max()), weight.frac), inputs)
    sums = Sums(*summed(scaled_weights(layer.codes, exponents, of_w), weight, wide, low.weight(node, "bias")))
    streams, wires = as_blocks(low, node, x, form) if form else ((x.stream,), (x.wire,))

    def make(**rest: object) -> LinearBlocks:
        return LinearBlocks(
            name=node.id, node=node.id, inputs=streams, shape=out, weight=layer.codes, weight_format=weight,
            exponents=exponents, weight_block=of_w, bias=sums.biases, accumulator=sums.accumulator,
            block=form.block if form else 0, base=base(x.stream), source=x.fixed, **rest,  # type: ignore[arg-type]
        )  # fmt: skip

    exact = Stream(rows, outputs, sums.accumulator, par_out)
    return x, *scaled_layer(low, node, make, wires, exact, sums, pace=inputs // par_in)


def as_blocks(low: Lowering, node: Node, x: Signal, form: MXInt) -> tuple[tuple[Stream, ...], tuple[Wire, ...]]:
    """Mantissas and exponents of a fixed-point operand."""
    exponents, wire = exponents_of(low, node, x, form)
    elements = replace(x.stream, fixed=Fixed(form.width, form.width - 2))
    second = BlockMantissa(name=low.free(f"{node.id}_mantissas"), node=node.id, inputs=(x.stream, exponents),
                           outputs=(elements,), block=form.block, shape=x.shape)  # fmt: skip
    return (elements, exponents), (low.add(second, (x.wire, wire)), wire)


def exponents_of(low: Lowering, node: Node, x: Signal, form: MXInt) -> tuple[Stream, Wire]:
    """Exponents of the blocks of each row."""
    stream = Stream(x.stream.rows, BlockDivision(x.stream.size, x.stream.par, form.block).blocks, EXPONENT)
    first = BlockExponent(name=low.free(f"{node.id}_exponents"), node=node.id, inputs=(x.stream,), block=form.block,
                          outputs=(stream,), shape=x.shape)  # fmt: skip
    return stream, low.add(first, (x.wire,))


def channels_of(low: Lowering, node: Node, par: int | None = None, shape: tuple[int, ...] = ()) -> tuple[Signal, Codes]:
    """`pixels` of a convolution's operand, rounded to its block format if it has one.

    Blocks are along the channels, and windows mix them, so their values are converted back to fixed point.
    """
    form = from_fixed_point(low, node)
    x, channels = pixels(low, node, node.inputs[0], par, shape)
    if form is None or (plain(x.fixed) and x.fixed.width < form.width):  # the blocks represent x exactly
        return x, channels
    if not plain(x.fixed):
        raise unsupported(node, f"blocks computed from {x.fixed.label}", "Choose `integer` for its data_in.")
    lanes, channel_count, count = x.stream.par, x.stream.size, low.shape(node, "data_in")[0]
    channels = np.arange(channel_count).reshape(count, -1).T.reshape(-1)  # slice by slice
    index = np.arange(x.index.size).reshape(channel_count, -1)[channels].T.reshape(-1)
    x = reordered(low, node, x, index, channel_count)
    x = resize_rows(low, node, low.resize(node, x, math.gcd(lanes, count, min(form.block, count))), count)
    exponents, wire = exponents_of(low, node, x, form)
    out = replace(x.stream, fixed=back_in(x.fixed))
    rounded = BlockRound(name=low.free(f"{node.id}_blocks"), node=node.id, inputs=(x.stream, exponents), shape=x.shape,
                         outputs=(out,), block=form.block, width=form.width)  # fmt: skip
    x = resize_rows(low, node, replace(x, wire=low.add(rounded, (x.wire, wire)), stream=out), channel_count)
    return low.resize(node, x, lanes), channels


def relative_exponents(layer: Weights) -> tuple[Codes, int]:
    """(exponents relative to the lowest one, the lowest one); blocks of zeros get the lowest."""
    if layer.exponents is None:
        return np.zeros((len(layer.codes), 1), np.int64), 0
    firsts = np.arange(layer.exponents.shape[1]) * layer.block
    used = np.maximum.reduceat(np.abs(layer.codes), firsts, axis=1) > 0
    lowest = int(layer.exponents[used].min()) if used.any() else 0
    return np.where(used, layer.exponents - lowest, 0), lowest


def scaled_weights(weight: Codes, exponents: Codes, block: int) -> Codes:
    """Weights times the powers of two of their blocks."""
    per_weight = np.repeat(exponents, block, axis=1)[:, : weight.shape[1]]
    return weight << np.minimum(per_weight, WIDEST)


def in_fixed_point(node: Node, layer: Weights) -> Weights:
    """Block weights as integers of one step, exactly; raises EmitError if they are too wide."""
    if not layer.block:
        return layer
    exponents, lowest = relative_exponents(layer)
    codes, frac = scaled_weights(layer.codes, exponents, layer.block), layer.form.frac - lowest
    form = covering(min(int(codes.min()), -1), max(int(codes.max()), 0), frac)
    wide = layer.form.width + int(exponents.max())
    if wide > WIDEST or form.width > FAR:
        text = f"The weights of {node.id} need {wide} bits for their range of exponents; {FAR} are supported."
        raise EmitError(text, "Choose fewer bits or larger blocks, or `integer`.", node.id)
    return Weights(codes, form)
