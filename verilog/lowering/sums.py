"""Shared by all layers: exact sums of codes with biases, then real scales for each output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node
from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.signal import Signal
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.lowering.conversion import scaling
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.lowering.weights import Weights, bias_values
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, Rounding, covering
from espalier.verilog.numbers.scaled import plain, scale_of, zero_of
from espalier.verilog.templates.scale_shift import ScaleShift

Maker = Callable[..., Template]


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The exact sums of a layer: their format and biases; then times `scale` plus `shift` [outputs], if any."""

    accumulator: Fixed
    biases: Codes
    scale: NDArray[np.float64] | None = None
    shift: NDArray[np.float64] | None = None

    def picked(self, outputs: Codes) -> Sums:
        """The sums with their outputs in another order."""
        scale, shift = (None if v is None else v[outputs] for v in (self.scale, self.shift))
        return replace(self, biases=self.biases[outputs], scale=scale, shift=shift)


def check_width(node: Node, x: Fixed, form: Fixed, count: int) -> None:
    """Check that sums of `count` products fit an accumulator; raises EmitError."""
    width = x.width + form.width + count.bit_length()
    if width > WIDEST:
        text = f"The accumulator of {node.id} needs {width} bits; {WIDEST} are supported."
        raise EmitError(text, "Choose narrower formats for its data_in and weight.", node.id)


def summed(weight: Codes, form: Fixed, x: Fixed, bias: tuple[Codes, Fixed] | None) -> tuple[Fixed, Codes]:
    """The narrowest accumulator that no input overflows, and the biases in its fraction.

    The accumulator may be wider than supported, which the caller must check; the biases are zeros then.
    """
    codes, own = bias if bias is not None else (np.zeros(len(weight), np.int64), Fixed(1, -64))
    frac = max(x.frac + form.frac, own.frac) if bias is not None else x.frac + form.frac
    up = frac - x.frac - form.frac
    positive, negative = (part.sum(1).astype(object) for part in (np.maximum(weight, 0), np.minimum(weight, 0)))
    scaled = np.array([int(c) << (frac - own.frac) if bias is not None else 0 for c in codes], object)
    high = (positive * x.high + negative * x.low) * (1 << up) + np.maximum(scaled, 0)
    low = (positive * x.low + negative * x.high) * (1 << up) + np.minimum(scaled, 0)
    fits = covering(min(low.min(), -1), max(high.max(), scaled.max(), 0), frac)
    return fits, scaled.astype(np.int64) if fits.width <= WIDEST else np.zeros(len(weight), np.int64)


def layer_sums(low: Lowering, node: Node, x: Fixed, weights: Weights) -> Sums:
    """The sums of a layer; the constant that x's zero point adds to each output goes into the biases."""
    check_width(node, x, weights.form, weights.codes.shape[1])
    offsets = -zero_of(x) * weights.codes.sum(1), Fixed(WIDEST, weights.form.frac)
    if weights.scale is None and scale_of(x) == 1.0:
        bias = low.weight(node, "bias")
        bias = None if bias is None else (np.repeat(bias[0], weights.times), bias[1])
        return Sums(*summed(weights.codes, weights.form, x, added_offsets(bias, offsets) if zero_of(x) else bias))
    scale = np.ones(len(weights.codes)) if weights.scale is None else weights.scale
    biases = bias_values(low, node)
    shift = np.zeros(len(scale)) if biases is None else np.repeat(biases, weights.times)
    sums = summed(weights.codes, weights.form, x, offsets if zero_of(x) else None)
    return Sums(*sums, scale * scale_of(x), shift)


def added_offsets(bias: tuple[Codes, Fixed] | None, offsets: tuple[Codes, Fixed]) -> tuple[Codes, Fixed]:
    """Bias plus offset of each output, in the finer of their fractions."""
    if bias is None:
        return offsets
    frac = max(bias[1].frac, offsets[1].frac)
    first, second = (c << np.int64(frac - f.frac) for c, f in (bias, offsets))
    return first + second, Fixed(WIDEST, frac)


def scaled_layer(
    low: Lowering, node: Node, make: Maker, wires: tuple[Wire, ...], out: Stream, sums: Sums, groups: int = 1,
    pace: int = 1, image: bool = False,
) -> tuple[Wire, Stream]:  # fmt: skip
    """Add the layer's instance, and a scaling behind it if its sums have scales; returns the result's wire and stream.

    `out`: the stream of the sums, with a beat every `pace` cycles, so that the scaling can use fewer lanes; for an
    `image` the lanes are merged again behind it, since windows take a beat per cycle.
    """
    if sums.scale is None:
        to, rounding = low.result(node, sums.accumulator)
        if plain(to):
            out = replace(out, fixed=to)
            return low.add(make(outputs=(out,), rounding=rounding), wires), out
    summed_up = low.add(make(outputs=(out,)), wires)
    narrow = out.par
    if out.tokens == 1:
        narrow = next(p for p in range(1, out.par + 1) if out.par % p == 0 and out.par // p <= pace)
    exact = Signal(summed_up, out, (out.rows, out.size), np.arange(out.elements))
    result = _scaled(low, node, low.resize(node, exact, narrow, out.tokens), sums, groups)
    result = low.resize(node, result, out.par, out.tokens) if image else result
    return result.wire, result.stream


def _scaled(low: Lowering, node: Node, x: Signal, sums: Sums, groups: int) -> Signal:
    """Sums times the scale of their output plus its shift; exact if the result has no format."""
    scale = _placed(np.ones(len(sums.biases)) if sums.scale is None else sums.scale, x.stream, groups)
    shift = _placed(np.zeros(len(sums.biases)) if sums.shift is None else sums.shift, x.stream, groups)
    name = low.free(f"{node.id}_scale")

    def scaling_to(to: Fixed, rounding: Rounding) -> ScaleShift:
        return scaling(name, node.id, x.stream, replace(x.stream, fixed=to), scale, shift, rounding, low.shape(node))

    instance = scaling_to(*low.result(node, scaling_to(Fixed(1, 0), "nearest_even").total))
    return replace(x, wire=low.add(instance, (x.wire,)), stream=instance.outputs[0])


def _placed(values: NDArray[np.float64], out: Stream, groups: int) -> NDArray[np.float64]:
    """A value for each output → one for each position of the stream."""
    return np.tile(values.reshape(groups, out.size), (out.rows // groups, 1))
