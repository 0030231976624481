"""The clipping of a weight with the least squared error: a scale of each tensor, row or group, or a shift of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, spread, summed
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.passes.observed.shift_selection import covering, shift_of, shifted

_WIDER, _NARROWER = 1, 8  # shifts tried around the finest one that clips nothing


@dataclass(frozen=True, slots=True)
class Clipping:
    """What was found. `scale`: of a ScaledFormat; None where its own is best. `factor`: mean share of the range."""

    format: Format
    scale: Tensor | None
    factor: float


def error_of(value: Tensor, x: Tensor, energy: Tensor) -> float:
    """Σ h·(value − x)², float64; `energy` h broadcasts with x."""
    return float(((value - x).double().square() * energy).sum())


def scaled_clipping(fmt: ScaledFormat, x: Tensor, energy: Tensor, steps: int, least: float) -> Clipping:
    """The multiple of its own scale with the least Σ h·(x − ŵ)², for each tensor, row or group of `x` [rows, row].

    `steps` multiples from 1 down to `least`; also up to 2 − `least` where the scale is no range (binary, ternary).
    """
    own, per = fmt.scale_of(x), _per(fmt, tuple(x.shape))
    highest = 1.0 if isinstance(fmt, ScaledInteger) else 2.0 - least
    # The format's own first, so that of equals it stays.
    factors = [1.0, *(f for f in torch.linspace(highest, least, steps).tolist() if f != 1.0)]
    best, lowest = torch.ones(()), None
    for factor in factors:
        error = summed((fmt.forward_with(x, own * factor) - x).float().square() * energy, per)
        lower = torch.ones_like(error, dtype=torch.bool) if lowest is None else error < lowest
        best = torch.where(lower, factor, best)
        lowest = error if lowest is None else torch.where(lower, error, lowest)
    return Clipping(fmt, own * best if bool((best != 1).any()) else None, float(best.mean()))


def _per(fmt: ScaledFormat, shape: tuple[int, ...]) -> int:
    """What shares a scale, read from the shape of the scale; leading axes hold several numbers for each."""
    shared = fmt.scale_shape(shape)
    if len(shared) < len(shape):
        return TENSOR
    return ROW if shared[-1] == 1 else int(cast("Any", fmt).group)


def shift_clipping(fmt: Format, x: Tensor, energy: Tensor) -> Clipping:
    """The shift with the least Σ h·(x − ŵ)², from one beyond the finest that clips nothing."""
    first = covering(fmt, float(x.min()), float(x.max()))
    tried = [(error_of(f.forward(x), x, energy), i, f) for i, f in enumerate((fmt, *_around(first)))]
    found = min(tried, key=lambda t: t[:2])[2]
    return Clipping(found, None, 2.0 ** (shift_of(first) - shift_of(found)))


def _around(first: Format) -> Iterator[Format]:
    for step in range(-_WIDER, _NARROWER + 1):
        found = shifted(first, shift_of(first) + step)
        if found is not None:
            yield found


def clipped_share(fmt: Format, scale: Tensor | None, x: Tensor) -> float | None:
    """The share of elements beyond the largest value under a given scale; None where the scale is no range."""
    held = cast("Any", fmt)
    if not isinstance(fmt, ScaledInteger) or scale is None or not held.symmetric:
        return None
    reach = spread(scale, held.per, tuple(x.shape)) * held.top
    return float((x.abs() > reach * (1 + 1e-6)).float().mean())
