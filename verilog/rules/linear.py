"""nn.Linear."""

from __future__ import annotations

import math

import numpy as np

from model.errors import EmitError
from model.graph import Node
from verilog.fixed import WIDEST, Codes, Fixed, covering
from verilog.layout import rows_of
from verilog.lower import Lowering, lowers
from verilog.signal import Signal
from verilog.stream import Stream
from verilog.templates.linear import Linear


@lowers("linear")
def linear(low: Lowering, node: Node) -> None:
    """One instance; the order in which a row's elements come is taken up by the columns of the weight."""
    stored = low.weight(node, "weight")
    if stored is None:
        raise EmitError(f"{node.id} multiplies two computed tensors.", "Trace the model from modules.", node.id)
    weight, form = stored
    rows = math.prod(low.shape(node)[:-1])
    par_in, par_out, tokens = low.parallel(node, weight.shape[1], weight.shape[0], rows)
    x = rows_of(low, node, node.inputs[0], par_in, tokens)
    weight = weight[:, columns(x, node)]
    bias = low.weight(node, "bias")
    narrow_enough(node, x.fixed, form, weight.shape[1])
    accumulator, biases = summed(weight, form, x.fixed, bias)
    to, rounding = low.result(node, accumulator)
    out = Stream(rows, weight.shape[0], to, par_out, tokens)
    made = Linear(
        name=node.id, node=node.id, inputs=(x.stream,), outputs=(out,), shape=low.shape(node), weight=weight,
        weight_format=form, bias=biases, accumulator=accumulator, rounding=rounding,
    )  # fmt: skip
    first = x.index.reshape(rows, -1)[:, 0] // x.stream.size
    index = first[:, None] * out.size + np.arange(out.size)
    low.give(node, low.add(made, (x.wire,)), out, index.reshape(-1))


def columns(x: Signal, node: Node) -> np.ndarray:
    """Which column of the weight each element of a row meets; all rows must come in one order."""
    size = x.shape[-1] if x.shape else 1
    places = x.index.reshape(-1, size)
    order = places[0] % size
    if x.stream.size != size or not (places % size == order).all() or not (np.diff(places // size, axis=1) == 0).all():
        raise EmitError(f"{node.id} reads rows whose elements do not come together.", "Please report this.", node.id)
    return order


def narrow_enough(node: Node, x: Fixed, form: Fixed, count: int) -> None:
    """Whether sums of `count` products fit an accumulator; raises EmitError."""
    width = x.width + form.width + count.bit_length()
    if width > WIDEST:
        text = f"The accumulator of {node.id} needs {width} bits; {WIDEST} are supported."
        raise EmitError(text, "Choose narrower formats for its data_in and weight.", node.id)


def summed(weight: Codes, form: Fixed, x: Fixed, bias: tuple[Codes, Fixed] | None) -> tuple[Fixed, Codes]:
    """The narrowest accumulator that no input overflows, and the biases in its fraction.

    An accumulator wider than supported is told as it is, for the caller to refuse; its biases mean nothing.
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
