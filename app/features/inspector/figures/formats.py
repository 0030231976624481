"""Codes and staircase x → q(x) of a format. numpy only.

A format with data-dependent scale is shown with scale 1: of a block whose largest element is its maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.block_grid import of_pairs
from espalier.app.number_text import count
from espalier.app.translation import tr
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Encoded, Format
from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ScaledFormat

Floats = NDArray[Any]
LISTED = 256
POINTS = 1201
VISIBLE = 48  # equal steps that are distinguishable in a small plot
NEAR = 12  # codes on each side of 0 in the near range
MARGIN = 1.1
FAR = np.float32(3e38)


@dataclass(frozen=True, slots=True)
class Code:
    """A representable value and its bits, most significant first, fields separated by spaces."""

    bits: str
    value: float


@dataclass(frozen=True, slots=True)
class Stairs:
    """q(x) at evenly spaced x."""

    x: Floats
    y: Floats


@dataclass(frozen=True, slots=True)
class FormatFigures:
    """Codes (none if there are more than 256; `note` says so), and stairs of the whole range and near 0.

    `fine`: over the whole range the steps are too small to be visible.
    """

    format: Format
    codes: tuple[Code, ...]
    note: str
    whole: Stairs
    near: Stairs
    fine: bool


def format_figures(fmt: Format) -> FormatFigures:
    """Compute everything drawn of a format; takes milliseconds."""
    with np.errstate(all="ignore"):
        values = _values(fmt)
        low, high, step = _reach(fmt, values)
        codes = _codes(fmt, values) if values is not None and len(values) <= LISTED else ()
        whole, near = _stairs(fmt, low, high), _stairs(fmt, -step, step)
        return FormatFigures(fmt, codes, _note(values, fmt), whole, near, _fine(values))


def _fine(values: Floats | None) -> bool:
    """Whether no step is visible when the whole staircase is drawn."""
    if values is None or len(values) < 2:
        return values is None
    steps = np.diff(values.astype(np.float64))
    return float(steps.max()) < float(steps.sum()) / VISIBLE


def _values(fmt: Format) -> Floats | None:
    """All values of an element; None if there are too many."""
    try:
        return np.asarray(fmt.codes(), np.float32)
    except EspalierError:
        return None


def _reach(fmt: Format, values: Floats | None) -> tuple[float, float, float]:
    """Range (with a margin where values saturate) and the extent of the near range."""
    if values is None or not len(values):
        low, high = (float(v) for v in quantised_alone(fmt, np.array([-FAR, FAR]), float(FAR)))
        return low * MARGIN, high * MARGIN, 2.0 ** -float(getattr(fmt, "frac_width", 0)) * NEAR
    low, high = float(values[0]), float(values[-1])
    margin = 1.0 if isinstance(fmt, BlockFormat) else MARGIN
    room = (high - low) * (margin - 1) / 2 or 1.0
    steps = np.sort(np.abs(values[values != 0]))
    near = float(steps[min(2 * NEAR, len(steps)) - 1]) if len(steps) else 1.0
    beyond = room if margin > 1 else 0.0
    return low - beyond, high + beyond, min(near * 1.02, max(high, -low) + beyond)


def _stairs(fmt: Format, low: float, high: float) -> Stairs:
    x = np.linspace(low, high, POINTS, dtype=np.float64).astype(np.float32)
    return Stairs(x, quantised_alone(fmt, x))


def quantised_alone(fmt: Format, x: Floats, largest: float | None = None) -> Floats:
    """q(x) with scale 1, flat; `largest`: maximum of a block, by default the largest code."""
    encoded, decoder = _encoded(fmt, x, largest)
    values = np.asarray(decoder.decode(encoded), np.float32)
    return values[:, 0] if values.ndim == 2 else values


def _encoded(fmt: Format, x: Floats, largest: float | None = None) -> tuple[Encoded, Format]:
    """Encode `x`, in blocks of two with the block maximum for block formats; return it with its format."""
    x = np.asarray(x, np.float32).reshape(-1)
    if isinstance(fmt, ScaledFormat):
        scale = np.ones(fmt.scale_shape(x.shape), np.float32)
        if isinstance(fmt, OffsetInteger):
            scale[1] = 0  # the offset
        if levels := getattr(fmt, "levels", 0):  # sum of signs: each level halves the scale
            scale *= np.exp2(-np.arange(levels, dtype=np.float32)).reshape(levels, *[1] * (scale.ndim - 1))
        return fmt.encode_with(x, scale), fmt
    if not isinstance(fmt, BlockFormat):
        return fmt.encode(x), fmt
    pair = of_pairs(fmt)
    top = float(np.max(fmt.codes())) if largest is None else largest
    return pair.encode(np.stack([x, np.full_like(x, top)], axis=1)), pair


def _codes(fmt: Format, values: Floats) -> tuple[Code, ...]:
    """The values with their bits, without values that no code has at this scale."""
    encoded, decoder = _encoded(fmt, values)
    codes, decoded = np.asarray(encoded.codes), np.asarray(decoder.decode(encoded), np.float32)
    if codes.ndim == 2:
        codes, decoded = codes[:, 0], decoded[:, 0]
    bits = fmt.element_bits
    parts = [f.bits for f in fmt.layout() if f.kind != "shared"]
    good = np.isclose(decoded, values, rtol=1e-5, atol=0)
    rows = zip(codes.tolist(), values.tolist(), good.tolist(), strict=True)
    return tuple(Code(_spaced(code & ((1 << bits) - 1), parts), value) for code, value, fits in rows if fits)


def _spaced(code: int, parts: list[int]) -> str:
    """Bits of a code separated by fields: `0 1000 111`."""
    text, fields = f"{code:0{sum(parts)}b}", list[str]()
    for size in parts:
        fields.append(text[:size])
        text = text[size:]
    return " ".join(f for f in fields if f)


def _note(values: Floats | None, fmt: Format) -> str:
    if values is None or len(values) > LISTED:
        number = count(len(values)) if values is not None else f"2^{fmt.element_bits}"
        return tr("{} values; only up to {} are listed.", number, LISTED)
    return tr("At scale 1; the stored scale multiplies them.") if fmt.rowwise else ""
