"""Static scales of formats, computed from a tensor or from its statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from espalier.model.formats.scaled import ScaledFormat, broadcast_scale, group_elements, sum_shared
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.passes.observed.chunks import FINITE
from espalier.passes.observed.divergence import threshold
from espalier.passes.observed.histogram import Histogram
from espalier.passes.observed.shift_selection import Method
from espalier.passes.observed.tensor_statistics import TensorStatistics

if TYPE_CHECKING:
    from torch import Tensor

# Shares of the full range, for mse.
FACTORS = tuple(float(f) for f in np.geomspace(1.0, 0.1, 93))


def one_scale(fmt: ScaledFormat) -> bool:
    """Whether the format has one scale for any tensor shape, as activations need."""
    return fmt.scale_shape((2, 4)) == fmt.scale_shape((6, 8))


def weight_scale(fmt: ScaledFormat, x: Tensor, method: Method, percentile: float) -> Tensor:
    """The scale of a stored tensor `x` in its format's view; each row or group has its own range.

    minmax: minimum and maximum; percentile: a percentage of the values; mse: the share of the range with least squared
    error; entropy: one share of all ranges, from the histogram of x relative to its range. Binary and ternary formats
    define their own scale.
    """
    if isinstance(fmt, ScaledInteger):
        return _of_ranges(fmt, x, method, percentile / 100 if method == "percentile" else 1.0)
    return fmt.scale_of(x)


def _of_ranges(fmt: ScaledInteger, x: Tensor, method: Method, share: float) -> Tensor:
    import torch

    low, high = _ends(fmt, x, share)
    scale = from_range(fmt, low, high, tuple(x.shape))
    if method == "mse":
        return _least_error(fmt, x, scale)
    if method == "entropy":
        reach = broadcast_scale(torch.maximum(-low, high).clamp(min=1e-30), fmt.per, tuple(x.shape))
        relative = Histogram()
        relative.add((x.float() / reach).numpy())
        return scale * threshold(relative.magnitudes_but_zero(), _levels(fmt, relative.low < 0))
    return scale


def activation_scale(fmt: ScaledFormat, found: TensorStatistics, method: Method, percentile: float) -> Tensor:
    """The scale of a streamed tensor, one for all elements; methods as for `weight_scale`."""
    import torch

    x = torch.from_numpy(found.sample.rows)
    if not isinstance(fmt, ScaledInteger):
        return fmt.scale_of(x)
    low, high = min(found.moments.low, 0.0), max(found.moments.high, 0.0)
    if method == "percentile" and found.histogram is not None:
        rest = 1 - percentile / 100
        low, high = min(found.histogram.quantile(rest / 2), 0.0), max(found.histogram.quantile(1 - rest / 2), 0.0)
    scale = from_range(fmt, torch.tensor(low), torch.tensor(high), tuple(x.shape))
    if method == "mse":
        return _least_error(fmt, x, scale)
    if method == "entropy" and found.histogram is not None:
        return scale * threshold(found.histogram.magnitudes_but_zero(), _levels(fmt, low < 0))
    return scale


def _levels(fmt: ScaledInteger, negative: bool) -> int:
    """Number of codes of a magnitude."""
    return fmt.top // 2 if negative and not fmt.symmetric else fmt.top


def _ends(fmt: ScaledInteger, x: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Range of `share` of the finite values of a tensor, row or group, symmetric in the quantiles, including 0."""
    import torch

    each = group_elements(x.float(), fmt.per)
    each = torch.where(each.abs() < FINITE, each, 0)
    last = each.shape[-1]
    if share >= 1:
        return each.amin(-1).clamp(max=0), each.amax(-1).clamp(min=0)
    beyond = min(math.floor((1 - share) / 2 * last), (last - 1) // 2)
    low, high = (each.kthvalue(k, -1).values for k in (beyond + 1, last - beyond))
    return low.clamp(max=0), high.clamp(min=0)


def from_range(fmt: ScaledInteger, low: Tensor, high: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The scale of a tensor of `shape` whose groups have the ranges low…high."""
    import torch

    rows = replace(fmt, granularity="channel")
    return rows.scale_of(torch.stack([low, high], -1)).reshape(fmt.scale_shape(shape))


def _least_error(fmt: ScaledInteger, x: Tensor, scale: Tensor) -> Tensor:
    """`scale` times the factor of FACTORS with the least squared error on x, for each group."""
    import torch

    x = torch.where(x.abs() < FINITE, x, 0)
    best, least = scale, None
    for factor in FACTORS:
        tried = scale * factor
        error = sum_shared((fmt.forward_with(x, tried) - x).float().square(), fmt.per)
        if least is None:
            least = error
            continue
        better = error < least
        best, least = torch.where(better, tried, best), torch.where(better, error, least)
    return best
