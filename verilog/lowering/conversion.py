"""Format conversions on a wire between two nodes: casts, tables, thresholds and scalings."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, Rounding
from espalier.verilog.numbers.scaled import Signs, plain, scale_of, zero_of
from espalier.verilog.templates.cast import Cast
from espalier.verilog.templates.lut import Lut, all_codes
from espalier.verilog.templates.scale_shift import ScaleShift, totalled
from espalier.verilog.templates.threshold import Threshold

MULTIPLIER = 18  # bits of a scale in hardware: one operand of a DSP block
LEAST = -30  # smallest exponent of a scale; smaller scales lose precision


def conversion(name: str, node: str, x: Stream, to: Fixed, rounding: Rounding, shape: tuple[int, ...]) -> Template:
    """The instance that converts a stream to another format."""
    y = Stream(x.rows, x.size, to, x.par, x.tokens)
    if plain(x.fixed) and plain(to):
        return Cast(name=name, node=node, inputs=(x,), outputs=(y,), shape=shape, rounding=rounding)
    if isinstance(x.fixed, Signs):
        table = to.encode(x.fixed.values(all_codes(x.fixed)), rounding)
        return Lut(name=name, node=node, inputs=(x,), outputs=(y,), shape=shape, table=table)
    if isinstance(to, Signs):
        threshold = zero_of(x.fixed) + (not to.bipolar)
        return Threshold(name=name, node=node, inputs=(x,), outputs=(y,), shape=shape, least=threshold)
    scale = np.full((x.rows, x.size), scale_of(x.fixed))
    return scaling(name, node, x, y, scale, -zero_of(x.fixed) * scale, rounding, shape)


def scaling(
    name: str, node: str, x: Stream, y: Stream, scale: NDArray[np.float64], shift: NDArray[np.float64],
    rounding: Rounding, shape: tuple[int, ...],
) -> ScaleShift:  # fmt: skip
    """`x · scale + shift` in the format of y; `scale` and `shift` [rows, size] are real numbers. Raises EmitError.

    x stands for its codes times their power of two, without scale and zero point.
    """
    codes, form, shifts, frac = multipliers(x.fixed, y.fixed, scale, shift)
    total, added = totalled(x, codes, form, shifts, frac)
    if total.width > WIDEST:
        text = f"Scaling the values of {node} needs {total.width} bits; {WIDEST} are supported."
        raise EmitError(text, "Choose narrower formats for its operands.", node)
    return ScaleShift(name=name, node=node, inputs=(x,), outputs=(y,), shape=shape, scale=codes, scale_format=form,
                      shift=added, total=total, rounding=rounding)  # fmt: skip


def multipliers(
    x: Fixed, to: Fixed, scale: NDArray[np.float64], shift: NDArray[np.float64]
) -> tuple[Codes, Fixed, Codes, int]:
    """Scales and shifts in steps of `to` as integers: (multipliers, their format, shifts, fraction bits of the sum)."""
    real = scale / scale_of(to)
    largest = float(np.abs(real).max(initial=0.0))
    exponent = max(math.frexp(largest)[1], LEAST) if largest else 0
    form = Fixed(MULTIPLIER, MULTIPLIER - 1 - exponent)
    if np.abs(np.rint(np.ldexp(real, form.frac))).max(initial=0) > form.high:
        form = Fixed(MULTIPLIER, form.frac - 1)
    codes = np.rint(np.ldexp(real, form.frac)).astype(np.int64)
    frac = x.frac + form.frac
    shifts = np.rint(np.ldexp(shift / scale_of(to) + zero_of(to), frac)).astype(np.int64)
    return codes, form, shifts, frac
