"""A weight as whole numbers times scales, where its format gives such: what a file of integers can hold exactly.

Nothing here rounds: what the numbers and scales multiply to is compared with the values, and None is said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.formats.base import Encoded, Format
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.integer import Integer
from espalier.model.formats.nvfp4 import NVFP4, SCALE
from espalier.model.formats.scaled import (
    ROW,
    TENSOR,
    ScaledFormat,
    broadcast_scale,
    group_elements,
    per_of,
    shared_shape,
)
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import scale_value
from espalier.model.formats.ternary import Ternary
from espalier.model.graph.views import View

Array = NDArray[Any]
# From the narrowest, with the largest code of each.
TYPES = (("int4", 7), ("uint4", 15), ("int8", 127), ("uint8", 255), ("int16", 32767))


@dataclass(frozen=True, slots=True)
class Grid:
    """(codes − zero)·scale. `axis`: along which scales differ (None: one for all), each for `block` elements (0: one).

    `folded`: codes lie in the format's view (rows, elements) and must be turned back.
    """

    codes: Array
    scale: Array
    zero: Array | None
    dtype: str
    axis: int | None = None
    block: int = 0
    folded: bool = False


def grid_of(value: Array, source: Array, fmt: Format, view: View | None, scale: Array | None) -> Grid | None:
    """The grid of effective values (float32, in the tensor's own shape); None where there is none that is exact.

    `source`: what the format made them of, from which it took its scale; float32, in the format's view.
    """
    seen = np.ascontiguousarray(value if view is None else view.of_array(value))
    found = _unit(fmt, np.ascontiguousarray(source), scale)
    if found is None or not seen.size or not np.isfinite(seen).all():
        return None
    unit, per = found
    held = _placed(view, seen.ndim, per)
    if held is None:
        return None
    with np.errstate(all="ignore"):
        codes = np.rint(np.nan_to_num(seen.astype(np.float64) / broadcast_scale(unit, per, seen.shape)))
        if (
            codes.max() > TYPES[-1][1]
            or codes.min() < -TYPES[-1][1] - 1
            or not np.array_equal(codes.astype(np.float32) * broadcast_scale(unit, per, seen.shape), seen)
        ):
            return None
    return _stored(codes.astype(np.int64), unit, per, held, view, value.shape)


# -- the scales of each family


def _unit(fmt: Format, seen: Array, scale: Array | None) -> tuple[Array, int] | None:
    """(a float32 number a tensor, row or group of which all values are multiples, what shares it)."""
    match fmt:
        case Integer():
            return np.asarray(2.0**-fmt.frac_width, np.float32), TENSOR
        case ScaledInteger():
            return scale_value(_encoded(fmt, seen, scale).shared[0], fmt.scale_dtype), fmt.per
        case ScaledElement(integer=True):
            return fmt.stored_scale(_encoded(fmt, seen, scale)), fmt.per
        case Ternary() | BinaryScaled():
            return scale_value(_encoded(fmt, seen, scale).shared[0], "float32"), per_of(fmt.granularity)
        case PowerBlocks() if fmt.blocks.rows == 1 and not fmt.wide:
            power = fmt.scale_exponent(fmt.encode(seen).shared[0].values).astype(np.int64)
            return np.ldexp(np.float64(fmt.grid.value(np.int64(1))), power).astype(np.float32), fmt.blocks.block
        case NVFP4() if fmt.blocks.rows == 1:
            scales, whole = (np.asarray(s.values) for s in fmt.encode(seen).shared)
            tensor = whole.astype(np.uint32).view(np.float32)[0]
            return SCALE.value(scales).astype(np.float32) * tensor / np.float32(2), fmt.blocks.block
        case _:
            return _smallest(fmt)


def _encoded(fmt: ScaledFormat, seen: Array, scale: Array | None) -> Encoded:
    return fmt.encode(seen) if scale is None else fmt.encode_with(seen, scale)


def _smallest(fmt: Format) -> tuple[Array, int] | None:
    """The smallest positive value of a format whose elements stand alone."""
    if fmt.rowwise or fmt.element_bits > 16:
        return None
    positive = [v for v in fmt.codes() if v > 0]
    return (np.asarray(min(positive), np.float32), TENSOR) if positive else None


# -- how they lie


def _placed(view: View | None, rank: int, per: int) -> tuple[int | None, bool] | None:
    """(axis of the scales in the tensor's own shape, whether codes stay folded); None where ONNX has no such scales."""
    if per == TENSOR:
        return None, False
    if rank != 2 or (view is not None and view.joined > 1):
        return None
    if view is not None and view.flat and (per != ROW or view.groups > 1):
        return int(per != ROW), True
    order = view.order if view else (0, 1)
    return (order[0] if per == ROW else order[-1]), False


def _stored(
    codes: Array, unit: Array, per: int, held: tuple[int | None, bool], view: View | None, shape: tuple[int, ...]
) -> Grid | None:
    kind = _kind(codes, per)
    if kind is None:
        return None
    dtype, zero = kind
    axis, folded = held
    if zero is not None:
        codes = codes + broadcast_scale(zero, per, codes.shape).astype(np.int64)
    scale, own = _laid(unit, per, axis), codes
    if view is not None and not folded:
        own = view.array_back(codes, shape)
    kept = None if zero is None else _laid(zero, per, axis)
    return Grid(np.ascontiguousarray(own), scale, kept, dtype, axis, max(per, 0), folded)


def _laid(number: Array, per: int, axis: int | None) -> Array:
    """Scales as ONNX wants them: a number, one for each row, or blocks along `axis`."""
    if per == TENSOR:
        return np.asarray(number).reshape(())
    if per == ROW:
        return np.ascontiguousarray(np.asarray(number).reshape(-1))
    return np.ascontiguousarray(number if axis == 1 else np.asarray(number).T)


def _kind(codes: Array, per: int) -> tuple[str, Array | None] | None:
    """The narrowest type that holds the codes, and the zero points that it needs."""
    low, high = int(codes.min()), int(codes.max())
    groups = _groups(codes, per)
    zero = -np.minimum(groups.min(-1), 0)
    span = int((groups.max(-1) + zero).max())
    for kind, top in TYPES:
        if not kind.startswith("u") and -top - 1 <= low and high <= top:
            return kind, None
        if kind.startswith("u") and max(span, int(zero.max())) <= top:
            return kind, zero if zero.any() else None
    return None


def _groups(codes: Array, per: int) -> Array:
    return np.asarray(group_elements(codes, per)).reshape(*shared_shape(codes.shape, per), -1)
