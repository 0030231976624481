"""The clipping of a weight with the least squared error: a scale per tensor, row or group, or a shift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from espalier.model.formats.base import Format
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, broadcast_scale, sum_shared
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.passes.observed.shift_selection import covering, shift_of, shifted

_WIDER, _NARROWER = 1, 8  # candidate shifts around the finest one without clipping


@dataclass(frozen=True, slots=True)
class Clipping:
    """A clipping. `scale`: of a ScaledFormat; None if its own is best. `factor`: mean share of the range."""

    format: Format
    scale: Tensor | None
    factor: float


def error_of(value: Tensor, x: Tensor, energy: Tensor) -> float:
    """Σ h·(value − x)², float64; `energy` h broadcasts with x."""
    return float(((value - x).double().square() * energy).sum())


def scaled_clipping(fmt: ScaledFormat, x: Tensor, energy: Tensor, steps: int, least: float) -> Clipping:
    """The multiple of the format's scale with the least Σ h·(x − ŵ)², for each tensor, row or group of `x` [rows, row].

    `steps` multiples from 1 down to `least`; from 2 − `least` if the scale is no range (binary, ternary).
    """
    base, per = fmt.scale_of(x), _per(fmt, tuple(x.shape))
    highest = 1.0 if isinstance(fmt, ScaledInteger | ScaledElement | OffsetInteger) else 2.0 - least
    # The format's own scale first, so that it wins ties.
    factors = [1.0, *(f for f in torch.linspace(highest, least, steps).tolist() if f != 1.0)]
    best, lowest = torch.ones(()), None
    for factor in factors:
        error = sum_shared((fmt.forward_with(x, base * factor) - x).float().square() * energy, per)
        lower = torch.ones_like(error, dtype=torch.bool) if lowest is None else error < lowest
        best = torch.where(lower, factor, best)
        lowest = error if lowest is None else torch.where(lower, error, lowest)
    return Clipping(fmt, base * best if bool((best != 1).any()) else None, float(best.mean()))


def _per(fmt: ScaledFormat, shape: tuple[int, ...]) -> int:
    """The granularity of the scale: TENSOR, ROW or a group size, from the shape of the scale."""
    shared = fmt.scale_shape(shape)
    if len(shared) < len(shape):
        return TENSOR
    return ROW if shared[-1] == 1 else int(cast("Any", fmt).group)


def shift_clipping(fmt: Format, x: Tensor, energy: Tensor) -> Clipping:
    """The shift with the least Σ h·(x − ŵ)², from one coarser than the finest without clipping."""
    first = covering(fmt, float(x.min()), float(x.max()))
    errors = [(error_of(f.forward(x), x, energy), i, f) for i, f in enumerate((fmt, *_around(first)))]
    best = min(errors, key=lambda e: e[:2])[2]
    return Clipping(best, None, 2.0 ** (shift_of(first) - shift_of(best)))


def _around(first: Format) -> Iterator[Format]:
    for step in range(-_WIDER, _NARROWER + 1):
        if (fmt := shifted(first, shift_of(first) + step)) is not None:
            yield fmt


def clipped_share(fmt: Format, scale: Tensor | None, x: Tensor) -> float | None:
    """The share of elements beyond the largest value under `scale`; None if the scale is no range."""
    untyped = cast("Any", fmt)
    if isinstance(fmt, ScaledElement) and scale is not None:
        return float((~untyped.inside_with(x, scale)).float().mean())
    if not isinstance(fmt, ScaledInteger) or scale is None or not untyped.symmetric:
        return None
    reach = broadcast_scale(scale, untyped.per, tuple(x.shape)) * untyped.top
    return float((x.abs() > reach * (1 + 1e-6)).float().mean())
