"""The codes of a format as signed whole numbers, with its own scales and zero points."""

from __future__ import annotations

import numpy as np

from espalier.model.formats.base import Array, Encoded, Format
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled import broadcast_scale
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import array_scale, scale_value


def whole_numbers(fmt: Format, encoded: Encoded) -> tuple[Array, Array, Array | None]:
    """(codes, scale, zero point) of (code − zero)·scale, in the signed range of the format's width."""
    match fmt:
        case ScaledInteger():
            scale, half = scale_value(encoded.shared[0], fmt.scale_dtype), 2 ** (fmt.width - 1)
            if fmt.symmetric:
                return encoded.codes, scale, None
            return encoded.codes - half, scale, encoded.shared[1].values.astype(np.int64) - half
        case ScaledElement(integer=True):
            return encoded.codes, fmt.stored_scale(encoded), None
        case Integer():
            low = 0 if fmt.signed else -(2 ** (fmt.width - 1))
            unit = np.asarray(2.0**-fmt.frac_width, np.float32)
            codes = np.rint(fmt.decode(encoded) / unit).astype(np.int64) + low
            return codes, unit, None if fmt.signed else np.asarray(low)
        case PowerBlocks():
            power = fmt.scale_exponent(encoded.shared[0].values).astype(np.int64)
            unit = np.ldexp(np.float64(fmt.grid.value(np.int64(1))), power).astype(np.float32)
            spread = broadcast_scale(unit, fmt.blocks.block, encoded.codes.shape)
        case _:
            unit = spread = array_scale(scale_value(encoded.shared[0], "float32"), "float32")
    return np.rint(fmt.decode(encoded) / spread).astype(np.int64), unit, None
