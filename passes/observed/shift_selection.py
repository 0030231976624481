"""Chooses a format's range from data: `frac_width` of integers, `exponent_bias` of minifloats. No torch.

`Format.shift` names the parameter; incrementing it halves all values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import FormatError
from espalier.model.formats.base import Format
from espalier.passes.observed.chunks import FINITE
from espalier.passes.observed.divergence import divergence, is_usable
from espalier.passes.observed.histogram import Histogram
from espalier.passes.observed.tensor_statistics import TensorStatistics

Method = Literal["minmax", "percentile", "mse", "entropy"]
Floats = NDArray[np.float32]
Rounded = Callable[[Format, Floats], Floats]
NARROWER = 8  # halvings tried of the range that covers all values
_MOST = np.finfo(np.float32).max


def shift_of(fmt: Format) -> int:
    """The shift of a format; its default bias if the parameter is None."""
    value: int | None = getattr(fmt, fmt.shift or "")
    return int(getattr(fmt, "bias")) if value is None else value  # noqa: B009 (formats with a None have it)


@lru_cache(maxsize=8192)
def shifted(fmt: Format, shift: int) -> Format | None:
    """The format with another shift; None if it is invalid."""
    try:
        return replace(fmt, **{fmt.shift or "": shift})
    except FormatError:
        return None


@lru_cache(maxsize=4096)
def ends(fmt: Format) -> tuple[float, float]:
    """The minimum and maximum value of an element."""
    low, high = fmt.rounded(np.array([-_MOST, _MOST], np.float32))
    return float(low), float(high)


def covering(fmt: Format, low: float, high: float) -> Format:
    """The format with the finest steps whose range covers low…high; an unsigned one ignores negative values."""
    least, most = ends(fmt)
    need = max(high / most if most else 0.0, low / least if least else 0.0)  # a 1-bit integer has no positive value
    if need <= 0:
        return fmt
    shift = shift_of(fmt) - math.ceil(math.log2(need))
    # Towards the present shift, since the format may limit it.
    steps = range(shift, shift_of(fmt), 1 if shift < shift_of(fmt) else -1)
    nearest = next((f for f in (shifted(fmt, s) for s in steps) if f is not None), fmt)
    return _adjusted(nearest, low, high)


def _adjusted(fmt: Format, low: float, high: float) -> Format:
    """Correct the estimate where rounding or float32's range changes the ends."""
    wider = shifted(fmt, shift_of(fmt) - 1)
    while wider is not None and not _covers(fmt, low, high) and ends(wider) != ends(fmt):
        fmt, wider = wider, shifted(wider, shift_of(wider) - 1)
    finer = shifted(fmt, shift_of(fmt) + 1)
    return finer if finer is not None and _covers(finer, low, high) else fmt


def _covers(fmt: Format, low: float, high: float) -> bool:
    least, most = ends(fmt)
    return high <= most and (low >= least or least == 0)


def chosen_shift(fmt: Format, found: TensorStatistics, method: Method, percentile: float) -> Format:
    """The format with the best shift by `method`.

    minmax: the finest that covers all values; percentile: a percentage of the magnitudes; mse: least Σ(x − q)² on the
    sample; entropy: least divergence of the histogram (minmax if it is not usable). Percentile and entropy need a
    histogram.
    """
    low, high = found.moments.low, found.moments.high
    if method == "minmax":
        return covering(fmt, low, high)
    if method == "mse":
        return least_error(fmt, found.sample.rows.reshape(-1), low, high)
    assert found.histogram is not None
    if method == "percentile":
        reach = found.histogram.reach(percentile / 100)
        return covering(fmt, max(low, -reach), min(high, reach))
    if not is_usable(found.histogram.magnitudes()):
        return covering(fmt, low, high)
    return min(_candidates(fmt, low, high, 0), key=_divergence(found.histogram))


def least_error(fmt: Format, x: Floats, low: float, high: float, rounded: Rounded = Format.rounded) -> Format:
    """The format with the shift of least squared error on `x`, of values in low…high.

    `rounded`: (format, x) → rounded values; default: the numpy definition.
    """
    tried = tuple(_candidates(fmt, low, high, 1))
    x = x[np.abs(x) < FINITE]
    # Rounding 2^k·x by the widest candidate equals 2^k times rounding x by the k-th: all are rounded together.
    factors = np.exp2([shift_of(f) - shift_of(tried[0]) for f in tried], dtype=np.float32)[:, None]
    with np.errstate(all="ignore"):
        scaled = x * factors
        error = (rounded(tried[0], scaled.reshape(-1)).reshape(scaled.shape) - scaled) / factors
    return tried[int(np.einsum("ij,ij->i", error, error, dtype=np.float64).argmin())]


def _candidates(fmt: Format, low: float, high: float, wider: int) -> Iterator[Format]:
    """From wide to narrow, so that the widest is chosen of equal ones."""
    first = covering(fmt, low, high)
    for steps in range(-wider, NARROWER + 1):
        candidate = shifted(first, shift_of(first) + steps)
        if candidate is not None:
            yield candidate


def _divergence(histogram: Histogram) -> Callable[[Format], float]:
    counts = histogram.magnitudes_but_zero()
    centres = ((np.arange(len(counts)) + 0.5) * histogram.width).astype(np.float32)

    def cost(fmt: Format) -> float:
        inside = centres[centres <= ends(fmt)[1]]
        return divergence(counts, np.unique(fmt.rounded(inside), return_inverse=True)[1])

    return cost
