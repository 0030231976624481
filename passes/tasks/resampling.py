"""Percentile intervals of metrics by the bootstrap over samples (Efron and Tibshirani, 1993, section 13.3).

A metric is a function of sums over samples, so that a resample is a row of counts and all resamples are one product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from espalier.model.data.base import Array

RESAMPLES, SEED = 1000, 0
LEVELS = (2.5, 97.5)  # per cent
MAX_COUNTS = 1 << 22  # counts of a block of resamples
MAX_WORK = 1 << 31  # products of all resamples; larger data get no interval


def bootstrapped(statistics: Array, figures: Callable[[Array], dict[str, Array]]) -> dict[str, tuple[float, float]]:
    """Metric → 95 % interval, of float64 [samples, k]; empty below 2 samples and for too many.

    The samples are drawn with a fixed seed: equal statistics have equal intervals.
    """
    n, width = statistics.shape
    if n < 2 or n * width * RESAMPLES > MAX_WORK:
        return {}
    rng = np.random.default_rng(SEED)
    size = max(1, MAX_COUNTS // n)
    values: dict[str, list[Array]] = {}
    for start in range(0, RESAMPLES, size):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(size, RESAMPLES - start))
        for name, value in figures(counts @ statistics).items():
            values.setdefault(name, []).append(value)
    ends = {name: np.percentile(np.concatenate(parts), LEVELS) for name, parts in values.items()}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}
