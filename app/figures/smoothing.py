"""Smoothing of curves by an exponential moving average."""

from __future__ import annotations

import math
from collections.abc import Sequence

MAX_WEIGHT = 0.99


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """The exponential moving averages of a series, corrected for their start at zero.

    m_t = w·m_{t-1} + (1 − w)·x_t with m_0 = 0, and s_t = m_t / (1 − w^t): the weights w^(t−i)·(1 − w)/(1 − w^t) of
    x_1 … x_t sum to 1, so that a constant series stays as it is (Kingma and Ba 2015, section 3). Values that are not
    finite have no average and count for nothing. `weight`: w, from 0 (the series itself) to MAX_WEIGHT.
    """
    if not 0 <= weight <= MAX_WEIGHT:
        raise ValueError(f"weight {weight} is outside 0 to {MAX_WEIGHT}")
    found, mean, left = list[float](), 0.0, 1.0
    for value in values:
        if not math.isfinite(value):
            found.append(math.nan)
            continue
        mean, left = weight * mean + (1 - weight) * value, left * weight
        found.append(mean / (1 - left))
    return found
