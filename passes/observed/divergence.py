"""How much of a distribution a format loses, by counts alone: entropy calibration (Migacz, TensorRT, GTC 2017)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 128  # thresholds that are tried
FEWEST = 128  # bins that a threshold leaves at least
FILLED = 8  # values a bin, below which a histogram is noise


def tells(counts: NDArray[np.int64]) -> bool:
    """Whether there are values enough for their distribution to be known."""
    return bool(counts.sum() >= FILLED * len(counts) and len(counts) >= FEWEST)


def divergence(counts: NDArray[np.int64], groups: NDArray[Any]) -> float:
    """KL(P ‖ Q) in nats. P: `counts`, with what lies beyond the first len(groups) bins in the last used one of these.

    Q: the first bins alone, the mass of each group of bins (one code) spread evenly over its used bins. inf where there
    are fewer than FEWEST of them, or they hold nothing.
    """
    if len(groups) < FEWEST:
        return math.inf
    inner = counts[: len(groups)].astype(np.float64)
    used = np.flatnonzero(inner)
    if not used.size:
        return math.inf
    mass, sizes = np.bincount(groups, inner), np.bincount(groups, inner > 0)
    q = (mass / np.maximum(sizes, 1))[groups][used]
    p = inner[used]
    p[-1] += counts[len(groups) :].sum()
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


def threshold(counts: NDArray[np.int64], levels: int) -> float:
    """The share of all bins at which clipping costs least, for codes 0…levels, evenly spaced up to it; 1 where
    there are too few values to tell."""
    best, least = 1.0, math.inf
    tried = np.unique(np.linspace(FEWEST, len(counts), CANDIDATES).astype(int)) if tells(counts) else np.zeros(0, int)
    for bins in tried[::-1]:  # of equally good ones the widest
        lost = divergence(counts, np.rint((np.arange(bins) + 0.5) / bins * levels).astype(np.int64))
        if lost < least:
            best, least = float(bins / len(counts)), lost
    return best
