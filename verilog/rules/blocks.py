"""Layers on numbers in blocks (MXINT): nn.Linear takes exponents beside mantissas; windows mix the blocks, so that
convolutions take what blocks hold as fixed point. Sums are exact."""

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
from espalier.verilog.lowering.builder import cut, reordered
from espalier.verilog.lowering.layout import pixels, refused, rows_of
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.lowering.sums import Sums, finished, narrow_enough, summed
from espalier.verilog.lowering.weights import Weights
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, covering
from espalier.verilog.numbers.scaled import plain
from espalier.verilog.templates.blocks import EXPONENT, BlockExponent, BlockMantissa, BlockRound, Cut, back_in, base
from espalier.verilog.templates.linear_blocks import LinearBlocks

FAR = 25  # bits of weights in blocks as integers: the wider operand of a DSP block


def blocks_of(node: Node) -> MXInt | None:
    """The format of what flows into a layer, where it has blocks."""
    found = choice(node, "data_in")
    return found.format if found is not None and isinstance(found.format, MXInt) else None


def from_fixed_point(low: Lowering, node: Node) -> MXInt | None:
    """The same, made of what comes in fixed point from another instance; raises EmitError."""
    form = blocks_of(node)
    if form is not None and form.rows > 1:
        text = f"data_in of {node.id} is in {form.label}, in blocks of several rows."
        raise EmitError(text, "Choose `mxint` with rows=1, or `integer`.", node.id)
    if form is not None and node.inputs[0].node in low.host:
        text = f"data_in of {node.id} is in {form.label} and comes from the host, which sends fixed point."
        raise EmitError(text, "Choose `integer` for data_in of the first layer.", node.id)
    return form


def by_blocks(low: Lowering, node: Node, held: Weights) -> tuple[Signal, Wire, Stream]:
    """The operand, and the result's wire and stream: blocks are made of the fixed point that comes, then multiplied."""
    form = from_fixed_point(low, node)
    if held.scale is not None:
        text = f"{node.id} multiplies numbers in blocks by scaled ones."
        raise EmitError(text, "Choose `mxint` with rows=1 or `integer` for both operands.", node.id)
    outputs, inputs = held.codes.shape
    sizes = [min(b, inputs) for b in (held.block, form.block if form else 0) if b]
    par_in, par_out, _ = low.parallel(node, math.gcd(inputs, *sizes), outputs)
    x = rows_of(low, node, node.inputs[0], par_in)
    if not plain(x.fixed) or (x.index.reshape(-1, inputs) % inputs != np.arange(inputs)).any():
        raise refused(node, "an operand whose blocks are not of elements in a row", "Choose `integer` for its data_in.")
    out, rows = low.shape(node), x.stream.rows
    exponents, least = lowest(held)
    weight = replace(held.form, frac=held.form.frac - least)
    wide = Fixed(x.fixed.width + x.fixed.signed, x.fixed.frac, x.fixed.signed)
    of_w = held.block or inputs
    narrow_enough(node, wide, Fixed(weight.width + int(exponents.max()), weight.frac), inputs)
    sums = Sums(*summed(placed(held.codes, exponents, of_w), weight, wide, low.weight(node, "bias")))
    streams, wires = made(low, node, x, form) if form else ((x.stream,), (x.wire,))

    def make(**rest: object) -> LinearBlocks:
        return LinearBlocks(
            name=node.id, node=node.id, inputs=streams, shape=out, weight=held.codes, weight_format=weight,
            exponents=exponents, weight_block=of_w, bias=sums.biases, accumulator=sums.accumulator,
            block=form.block if form else 0, base=base(x.stream), source=x.fixed, **rest,  # type: ignore[arg-type]
        )  # fmt: skip

    exact = Stream(rows, outputs, sums.accumulator, par_out)
    return x, *finished(low, node, make, wires, exact, sums, pace=inputs // par_in)


def made(low: Lowering, node: Node, x: Signal, form: MXInt) -> tuple[tuple[Stream, ...], tuple[Wire, ...]]:
    """Mantissas and exponents of a fixed-point operand."""
    exponents, wire = exponents_of(low, node, x, form)
    elements = replace(x.stream, fixed=Fixed(form.width, form.width - 2))
    second = BlockMantissa(name=low.free(f"{node.id}_mantissas"), node=node.id, inputs=(x.stream, exponents),
                           outputs=(elements,), block=form.block, shape=x.shape)  # fmt: skip
    return (elements, exponents), (low.add(second, (x.wire, wire)), wire)


def exponents_of(low: Lowering, node: Node, x: Signal, form: MXInt) -> tuple[Stream, Wire]:
    """Those of the blocks of each row."""
    stream = Stream(x.stream.rows, Cut(x.stream.size, x.stream.par, form.block).blocks, EXPONENT)
    first = BlockExponent(name=low.free(f"{node.id}_exponents"), node=node.id, inputs=(x.stream,), block=form.block,
                          outputs=(stream,), shape=x.shape)  # fmt: skip
    return stream, low.add(first, (x.wire,))


def channels_of(low: Lowering, node: Node, par: int | None = None, shape: tuple[int, ...] = ()) -> tuple[Signal, Codes]:
    """`pixels` of the operand of a convolution, with the values that blocks hold where its format has blocks.

    Blocks lie along the channels, and windows mix them, so they are put back into the fixed point that came.
    """
    form = from_fixed_point(low, node)
    x, channels = pixels(low, node, node.inputs[0], par, shape)
    if form is None or (plain(x.fixed) and x.fixed.width < form.width):  # such blocks hold all that comes
        return x, channels
    if not plain(x.fixed):
        raise refused(node, f"blocks made of {x.fixed.label}", "Choose `integer` for its data_in.")
    lanes, many, count = x.stream.par, x.stream.size, low.shape(node, "data_in")[0]
    channels = np.arange(many).reshape(count, -1).T.reshape(-1)  # slices one after the other
    index = np.arange(x.index.size).reshape(many, -1)[channels].T.reshape(-1)
    x = reordered(low, node, x, index, many)
    x = cut(low, node, low.resize(node, x, math.gcd(lanes, count, min(form.block, count))), count)
    exponents, wire = exponents_of(low, node, x, form)
    out = replace(x.stream, fixed=back_in(x.fixed))
    rounded = BlockRound(name=low.free(f"{node.id}_blocks"), node=node.id, inputs=(x.stream, exponents), shape=x.shape,
                         outputs=(out,), block=form.block, width=form.width)  # fmt: skip
    x = cut(low, node, replace(x, wire=low.add(rounded, (x.wire, wire)), stream=out), many)
    return low.resize(node, x, lanes), channels


def lowest(held: Weights) -> tuple[Codes, int]:
    """Exponents counted from the lowest one, and that; blocks of zeros have the lowest."""
    if held.exponents is None:
        return np.zeros((len(held.codes), 1), np.int64), 0
    firsts = np.arange(held.exponents.shape[1]) * held.block
    used = np.maximum.reduceat(np.abs(held.codes), firsts, axis=1) > 0
    least = int(held.exponents[used].min()) if used.any() else 0
    return np.where(used, held.exponents - least, 0), least


def placed(weight: Codes, exponents: Codes, block: int) -> Codes:
    """Weights times the power of two of their block."""
    each = np.repeat(exponents, block, axis=1)[:, : weight.shape[1]]
    return weight << np.minimum(each, WIDEST)


def in_fixed_point(node: Node, held: Weights) -> Weights:
    """Weights in blocks as integers of one step, wide enough for all exponents, where windows mix the blocks; exact."""
    if not held.block:
        return held
    exponents, least = lowest(held)
    codes, frac = placed(held.codes, exponents, held.block), held.form.frac - least
    form = covering(min(int(codes.min()), -1), max(int(codes.max()), 0), frac)
    wide = held.form.width + int(exponents.max())
    if wide > WIDEST or form.width > FAR:
        text = f"The exponents of the weights of {node.id} lie so far apart that they need {wide} bits."
        raise EmitError(text, f"{FAR} are supported: choose fewer bits or larger blocks, or `integer`.", node.id)
    return Weights(codes, form)
