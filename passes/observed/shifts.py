"""The place of a format's range, from the data: `frac_width` of integers, `exponent_bias` of small floats. No torch.

A format names the parameter in `Format.shift`; when it grows by one, all values are halved.
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
from espalier.passes.observed.divergence import divergence, tells
from espalier.passes.observed.histogram import Histogram
from espalier.passes.observed.pieces import FINITE
from espalier.passes.observed.stream import Observed

Method = Literal["minmax", "percentile", "mse", "entropy"]
Floats = NDArray[np.float32]
Rounded = Callable[[Format, Floats], Floats]
NARROWER = 8  # how many halvings of the range are tried beyond what covers all values
_MOST = np.finfo(np.float32).max


def shift_of(fmt: Format) -> int:
    """The shift in force; where the parameter is empty, what the format takes then."""
    value: int | None = getattr(fmt, fmt.shift or "")
    return int(getattr(fmt, "bias")) if value is None else value  # noqa: B009 (all with an empty one have it)


@lru_cache(maxsize=8192)
def shifted(fmt: Format, shift: int) -> Format | None:
    """The format with another shift; None where it refuses that."""
    try:
        return replace(fmt, **{fmt.shift or "": shift})
    except FormatError:
        return None


@lru_cache(maxsize=4096)
def ends(fmt: Format) -> tuple[float, float]:
    """The least and the greatest value of an element."""
    low, high = fmt.rounded(np.array([-_MOST, _MOST], np.float32))
    return float(low), float(high)


def covering(fmt: Format, low: float, high: float) -> Format:
    """The format with the finest steps whose range holds low…high; an unsigned one ignores what is negative."""
    least, most = ends(fmt)
    need = max(high / most if most else 0.0, low / least if least else 0.0)  # one bit has no positive value
    if need <= 0:
        return fmt
    shift = shift_of(fmt) - math.ceil(math.log2(need))
    # Towards the present shift, where the format has limits of its own.
    steps = range(shift, shift_of(fmt), 1 if shift < shift_of(fmt) else -1)
    found = next((f for f in (shifted(fmt, s) for s in steps) if f is not None), fmt)
    return _adjusted(found, low, high)


def _adjusted(fmt: Format, low: float, high: float) -> Format:
    """One step off the estimate, where rounding or float32's own range moves the ends."""
    wider = shifted(fmt, shift_of(fmt) - 1)
    while wider is not None and not _covers(fmt, low, high) and ends(wider) != ends(fmt):
        fmt, wider = wider, shifted(wider, shift_of(wider) - 1)
    finer = shifted(fmt, shift_of(fmt) + 1)
    return finer if finer is not None and _covers(finer, low, high) else fmt


def _covers(fmt: Format, low: float, high: float) -> bool:
    least, most = ends(fmt)
    return high <= most and (low >= least or least == 0)


def chosen_shift(fmt: Format, found: Observed, method: Method, percentile: float) -> Format:
    """The format with the shift that `method` finds best for what was observed.

    minmax: the finest that holds all values; percentile: that holds so many % of the magnitudes; mse: least Σ(x − q)²
    on the sample; entropy: least divergence of the histogram (minmax where that has too few values). Percentile and
    entropy need a histogram.
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
    if not tells(found.histogram.magnitudes()):
        return covering(fmt, low, high)
    return min(_candidates(fmt, low, high, 0), key=_divergence(found.histogram))


def least_error(fmt: Format, x: Floats, low: float, high: float, rounded: Rounded = Format.rounded) -> Format:
    """The shift with the least squared error on `x`, of values in low…high.

    `rounded`: (format, x) → its values; numpy's own unless a faster way is given.
    """
    tried = tuple(_candidates(fmt, low, high, 1))
    x = x[np.abs(x) < FINITE]
    # The widest on values that are doubled step by step errs as narrower ones do, doubled: all are rounded at once.
    doubled = np.exp2([shift_of(f) - shift_of(tried[0]) for f in tried], dtype=np.float32)[:, None]
    with np.errstate(all="ignore"):
        held = x * doubled
        error = (rounded(tried[0], held.reshape(-1)).reshape(held.shape) - held) / doubled
    return tried[int(np.einsum("ij,ij->i", error, error, dtype=np.float64).argmin())]


def _candidates(fmt: Format, low: float, high: float, wider: int) -> Iterator[Format]:
    """From wide to narrow, so that of equally good ones the widest is taken."""
    first = covering(fmt, low, high)
    for steps in range(-wider, NARROWER + 1):
        found = shifted(first, shift_of(first) + steps)
        if found is not None:
            yield found


def _divergence(histogram: Histogram) -> Callable[[Format], float]:
    counts = histogram.magnitudes_but_zero()
    centres = ((np.arange(len(counts)) + 0.5) * histogram.width).astype(np.float32)

    def cost(fmt: Format) -> float:
        inside = centres[centres <= ends(fmt)[1]]
        return divergence(counts, np.unique(fmt.rounded(inside), return_inverse=True)[1])

    return cost
